//! API keys on the command line, with the program itself.

use std::process::{Command, Output};

use test_postgres::Database;

struct Allocator {
    database: Database,
}

impl Allocator {
    async fn new() -> Self {
        let this = Self {
            database: Database::empty().await,
        };
        assert!(this.run(&["migrate"]).status.success());
        this
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_allocator"))
            .args(args)
            .env("PAIDAN_POSTGRES_URL", self.database.url())
            .output()
            .unwrap()
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[tokio::test]
async fn a_key_is_made_listed_and_revoked() {
    let allocator = Allocator::new().await;
    let make = [
        "key",
        "create",
        "--corp",
        "ww1",
        "--role",
        "operator",
        "--name",
        "the console",
    ];
    let secret = allocator.text(&make);
    let listed = || allocator.text(&["key", "list", "--corp", "ww1"]);
    let line = listed();
    assert!(
        line.contains("operator") && line.contains("valid") && line.contains("the console"),
        "{line}"
    );
    // The key itself is shown once, when it is made.
    assert!(!line.contains(secret.trim()));
    assert_eq!(allocator.text(&["key", "list"]), "");

    let id = line.split_whitespace().next().unwrap().to_owned();
    allocator.text(&["key", "revoke", &id]);
    assert!(listed().contains("revoked"));
    // Twice is an error that says where to look.
    let again = allocator.run(&["key", "revoke", &id]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("key list"));
}
