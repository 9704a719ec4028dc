//! `allocator doctor` with the program itself: each part that is wrong is named, and no other is blamed.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use secrecy::ExposeSecret;
use serde_json::Value;
use test_postgres::Database;

use crate::{
    lane_stage::{AGENT, Stage},
    public_stage::KEY,
};

struct Doctor {
    _dir: tempfile::TempDir,
    file: PathBuf,
    env: BTreeMap<&'static str, String>,
}

impl Doctor {
    fn new(stage: &Stage) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("allocator.toml");
        let text = format!(
            "[redis]\nurl = \"{}\"\n[wecom]\nbase_url = \"{}\"\n[corps.{}]\nagent_id = {AGENT}\nsecret = \"env:SECRET\"\n",
            test_redis::shared().url(),
            stage.sim.base_url(),
            stage.world.corp,
        );
        std::fs::write(&file, text).unwrap();
        let env = BTreeMap::from([
            ("PAIDAN_POSTGRES_URL", stage.world.database.url()),
            ("SECRET", "caseSecret".to_owned()),
        ]);
        Self {
            _dir: dir,
            file,
            env,
        }
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.env.insert(name, value.to_owned());
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    fn with_pages(self, cookie_key: &str) -> Self {
        self.with("PAIDAN__PUBLIC__LISTEN", "127.0.0.1:0")
            .with("PAIDAN__PUBLIC__BASE_URL", "https://go.example.com")
            .with("PAIDAN__PUBLIC__COOKIE_KEY", "env:COOKIE_KEY")
            .with("COOKIE_KEY", cookie_key)
    }

    /// What was found, by the name of the check, without those of Redis' settings; the fake WeCom runs meanwhile.
    async fn run(self) -> BTreeMap<String, Value> {
        let output = tokio::task::spawn_blocking(move || {
            Command::new(env!("CARGO_BIN_EXE_allocator"))
                .args(["doctor", "--json", "--config"])
                .arg(&self.file)
                .envs(&self.env)
                .output()
                .unwrap()
        });
        let output = output.await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let checks: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!checks.is_empty(), "{errors}");
        checks
            .into_iter()
            .map(|check| (check["name"].as_str().unwrap().to_owned(), check))
            .filter(|(name, _)| !name.starts_with("redis "))
            .collect()
    }
}

fn failed(checks: &BTreeMap<String, Value>) -> Vec<&str> {
    let failed = checks
        .iter()
        .filter(|(_, check)| check["verdict"] == "failed");
    failed.map(|(name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn each_fault_is_named_alone() {
    let stage = Stage::new(1).await;
    let corp = stage.world.corp.to_string();
    let named = |what: &str| format!("{what} of {corp}");
    let secret_key = format!("corps.{corp}.secret");
    let (secret, app) = (named("WeCom secret"), named("WeCom app"));
    let contact = named("customer contact");

    let good = Doctor::new(&stage).run().await;
    assert_eq!(failed(&good), [""; 0], "{good:?}");
    for name in [&secret, &app, &contact, &named("state"), &secret_key] {
        assert!(good.contains_key(name), "{name}: {good:?}");
    }

    assert!(!good.contains_key("public.cookie_key"), "{good:?}");
    let pages = Doctor::new(&stage).with_pages(KEY).run().await;
    assert_eq!(failed(&pages), [""; 0], "{pages:?}");
    assert_eq!(pages["public.cookie_key"]["verdict"], "ok", "{pages:?}");

    let empty = Database::empty().await;
    let rows: [(Doctor, &str, &str); 8] = [
        (
            Doctor::new(&stage).with_pages("a word"),
            "public.cookie_key",
            "openssl rand -base64 32",
        ),
        (
            Doctor::new(&stage).with_pages(KEY).without("COOKIE_KEY"),
            "public.cookie_key",
            "openssl rand -base64 32",
        ),
        (
            Doctor::new(&stage).with("SECRET", "another"),
            &secret,
            "copy the app's own secret",
        ),
        (
            Doctor::new(&stage).with("PAIDAN__WECOM__BASE_URL", "http://127.0.0.1:9"),
            &secret,
            "wecom.base_url",
        ),
        (
            Doctor::new(&stage).without("SECRET"),
            &secret_key,
            "set the variable",
        ),
        (
            Doctor::new(&stage).without("PAIDAN_POSTGRES_URL"),
            "postgres.url",
            "set the variable",
        ),
        (
            Doctor::new(&stage).with("PAIDAN_POSTGRES_URL", "postgres://127.0.0.1:9/none"),
            "postgres",
            "that the server runs",
        ),
        (
            Doctor::new(&stage).with("PAIDAN_POSTGRES_URL", &empty.url()),
            "migrations",
            "run `allocator migrate`",
        ),
    ];
    for (doctor, name, mend) in rows {
        let checks = doctor.run().await;
        assert_eq!(failed(&checks), [name], "{checks:?}");
        let check = &checks[name];
        assert!(check["mend"].as_str().unwrap().contains(mend), "{check}");
        // What is right is still looked at.
        if !name.contains(&corp) {
            assert_eq!(checks[&contact]["verdict"], "ok", "{checks:?}");
        }
    }
}

#[tokio::test]
async fn a_default_pool_that_is_nowhere_is_a_warning() {
    let stage = Stage::new(1).await;
    let doctor = Doctor::new(&stage);
    let mut text = std::fs::read_to_string(&doctor.file).unwrap();
    text.push_str("default_pool = \"nopool\"\n");
    std::fs::write(&doctor.file, text).unwrap();
    let checks = doctor.run().await;
    let check = &checks[&format!("corps.{}.default_pool", stage.world.corp)];
    assert_eq!(check["verdict"], "warning", "{check}");
    assert_eq!(check["found"], "there is no pool nopool");
    assert!(check["mend"].as_str().unwrap().contains("make the pool"));
}

/// The stored token was got with the right secret and proves nothing of the one that is configured now.
#[tokio::test]
async fn the_secret_is_tried_itself_and_the_shared_token_stays() {
    let stage = Stage::new(1).await;
    let client = &stage.world.node().corp().client;
    client.ensure_token().await.unwrap();
    let tokens = quota::Tokens::new(stage.world.app().redis.clone(), stage.world.corp.as_str());
    let key = client.app().key();
    let stored = || async { tokens.load(&key, None).await.unwrap().unwrap() };
    let before = stored().await;
    let secret = format!("WeCom secret of {}", stage.world.corp);

    let wrong = Doctor::new(&stage).with("SECRET", "another").run().await;
    assert_eq!(failed(&wrong), [&secret]);
    let right = Doctor::new(&stage).run().await;
    assert_eq!(right[&secret]["verdict"], "ok");

    let after = stored().await;
    assert_eq!(before.value.expose_secret(), after.value.expose_secret());
    assert_eq!(before.expires_at_ms, after.expires_at_ms);
    client.get_follow_user_list().await.unwrap();
}

#[tokio::test]
async fn a_wrong_agent_id_is_found() {
    let stage = Stage::new(1).await;
    let doctor = Doctor::new(&stage);
    let text = std::fs::read_to_string(&doctor.file).unwrap();
    let other = (AGENT + 1).to_string();
    std::fs::write(&doctor.file, text.replace(&AGENT.to_string(), &other)).unwrap();
    let checks = doctor.run().await;
    let name = format!("WeCom app of {}", stage.world.corp);
    assert_eq!(failed(&checks), [&name], "{checks:?}");
    let mend = checks[&name]["mend"].as_str().unwrap();
    assert!(mend.contains("agent_id"), "{mend}");
}
