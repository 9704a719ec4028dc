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

    /// With a corp whose secret, and a Redis whose address, are nowhere: nothing here needs them.
    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_allocator"))
            .args(args)
            .env("PAIDAN_POSTGRES_URL", self.database.url())
            .env("PAIDAN__CORPS__WW1__AGENT_ID", "1000002")
            .env("PAIDAN__CORPS__WW1__SECRET", "env:NOWHERE")
            .env("PAIDAN__REDIS__URL", "env:NOWHERE")
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
    let made = allocator.run(&make);
    assert!(made.status.success(), "{made:?}");
    let secret = String::from_utf8(made.stdout).unwrap();
    assert_eq!(secret.lines().count(), 1, "the key alone, for scripts");
    let told = String::from_utf8(made.stderr).unwrap();
    let listed = || allocator.text(&["key", "list", "--corp", "ww1"]);
    let list = listed();
    let [head, line] = list.lines().collect::<Vec<_>>()[..] else {
        panic!("{list}")
    };
    assert!(
        head.starts_with("ID ") && head.contains("CREATED"),
        "{head}"
    );
    assert!(
        line.contains("operator") && line.contains("valid") && line.contains("the console"),
        "{line}"
    );
    // The key itself is shown once, when it is made.
    assert!(!line.contains(secret.trim()));
    assert_eq!(allocator.text(&["key", "list"]).lines().count(), 1);

    let id = line.split_whitespace().next().unwrap().to_owned();
    assert!(told.contains(&id), "{told}");
    allocator.text(&["key", "revoke", &id]);
    assert!(listed().contains("revoked"));
    // Twice is an error that says where to look.
    let again = allocator.run(&["key", "revoke", &id]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("key list"));
}

#[tokio::test]
async fn what_makes_no_sense_makes_no_key() {
    let allocator = Allocator::new().await;
    let long = "长".repeat(129);
    let rows: &[(&[&str], &str)] = &[
        (&["create"], "--role"),
        (
            &["create", "--role", "boss"],
            "viewer, operator, admin, member",
        ),
        (&["create", "--role", "viewer"], "--corp is missing"),
        (
            &["create", "--role", "admin", "--corp", "ww2"],
            "--corp ww2: there is no such corp; the configuration has ww1",
        ),
        (&["create", "--role", "admin", "--corp", "w w"], "--corp"),
        (&["create", "--role", "admin", "--days", "0"], "0"),
        (&["create", "--role", "admin", "--days", "36501"], "36501"),
        (&["create", "--role", "admin", "--name", " "], "--name"),
        (
            &["create", "--role", "admin", "--name", "a\u{1b}[31mb\nc"],
            "--name \"a\\u{1b}[31mb\\nc\": must be one line without control characters",
        ),
        (
            &["create", "--role", "admin", "--name", &long],
            "--name: must have at most 128 characters, and has 129",
        ),
        (&["create", "--role", "member", "--corp", "ww1"], "--member"),
        (
            &[
                "create", "--role", "member", "--corp", "ww1", "--member", "a b",
            ],
            "--member \"a b\": must be a userid of WeCom",
        ),
        (
            &[
                "create", "--role", "viewer", "--corp", "ww1", "--member", "m",
            ],
            "--member",
        ),
        (&["list", "--corp", "ww2"], "no such corp"),
        (&["revoke", "nonsense"], "nonsense"),
    ];
    for (args, problem) in rows {
        let output = allocator.run(&[&["key"], *args].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{args:?}"
        );
        assert!(text.contains(problem), "{args:?}: {text}");
    }
    assert_eq!(allocator.text(&["key", "list"]).lines().count(), 1);
    assert_eq!(
        allocator
            .text(&["key", "list", "--corp", "ww1"])
            .lines()
            .count(),
        1
    );
}

/// What is to be done, and nothing of Postgres' own source.
#[tokio::test]
async fn without_tables_the_mend_is_named() {
    let allocator = Allocator {
        database: Database::empty().await,
    };
    for args in [
        ["key", "list"].as_slice(),
        &["key", "list", "--corp", "ww1"],
        &["key", "create", "--role", "admin"],
    ] {
        let output = allocator.run(args);
        assert!(!output.status.success(), "{args:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "error: the tables of this version are not there: run `allocator migrate`\n",
            "{args:?}"
        );
    }
}

/// Nor does a migration that has nothing to do say anything but that.
#[tokio::test]
async fn a_second_migration_is_quiet() {
    let allocator = Allocator::new().await;
    let output = allocator.run(&["migrate"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "0 migrations applied, 1 corps known\n"
    );
}
