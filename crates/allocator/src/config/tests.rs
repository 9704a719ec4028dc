//! Every key of `config/allocator.toml` with what it takes and what it refuses.

mod rows;

use std::collections::{BTreeSet, HashMap};

use secrecy::ExposeSecret;
use settings::Sources;

use super::{Config, DEFAULTS, Error, Errors, keys::KEYS};
use rows::{NUMBERS, NUMBERS_OR_ZERO, OTHERS};

const CORP: &str = "[corps.ww1]\nagent_id = 1\nsecret = 'env:SECRET'\n[quota.apis.'externalcontact/mark_tag']\nin_flight = 5\n";

fn env() -> HashMap<String, String> {
    let env = [
        ("THERE", "redis://:hush@10.0.0.1:6379"),
        ("SECRET", "hush"),
        ("KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="),
        ("PAIDAN_POSTGRES_URL", "postgres://u:hush@10.0.0.1/d"),
    ];
    env.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// One file for each text, later ones over earlier ones.
fn sources(texts: &[&str]) -> (tempfile::TempDir, Sources) {
    let dir = tempfile::tempdir().unwrap();
    let files = texts.iter().enumerate().map(|(index, text)| {
        let file = dir.path().join(format!("{index}.toml"));
        std::fs::write(&file, text).unwrap();
        file
    });
    let sources = Sources {
        files: files.collect(),
        env: env(),
    };
    (dir, sources)
}

/// What the rules say of the texts.
fn problems(texts: &[&str]) -> Vec<Error> {
    let (_dir, sources) = sources(texts);
    settings::check(&sources.merge(DEFAULTS).unwrap(), KEYS)
}

/// Everything that is wrong, as `--check-config` finds it.
fn all_problems(texts: &[&str], env: &HashMap<String, String>) -> Vec<String> {
    let (_dir, sources) = sources(texts);
    match Config::load(&sources.files, env) {
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
        Ok(config) => config
            .check_secrets(env)
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

fn accepts(key: &str, value: &str) {
    let text = format!("{key} = {value}\n");
    assert_eq!(problems(&[CORP, &text]), [], "{text}");
}

/// One error, of this key, with what is accepted and, but for secrets, what was found.
fn refuses(key: &str, value: &str) {
    let text = format!("{key} = {value}\n");
    let errors = problems(&[CORP, &text]);
    let [error] = errors.as_slice() else {
        panic!("{text}: {errors:?}")
    };
    assert_eq!(error.key, key.replace('\'', "\""), "{text}: {error}");
    assert!(error.problem.starts_with("must be "), "{text}: {error}");
    assert!(!error.problem.contains("hush"), "{text}: {error}");
    let secret = ["redis.url", "postgres.url", "password", "secret", "_key"]
        .iter()
        .any(|word| key.ends_with(word));
    assert!(
        secret || error.problem.contains(", not "),
        "{text}: {error}"
    );
}

#[test]
fn every_number_has_two_ends() {
    let all = NUMBERS.iter().map(|row| (row, false));
    for ((key, least, greatest), or_zero) in
        all.chain(NUMBERS_OR_ZERO.iter().map(|row| (row, true)))
    {
        accepts(key, &least.to_string());
        accepts(key, &greatest.to_string());
        for wrong in [least - 1, greatest + 1, i64::MAX, i64::MIN] {
            refuses(key, &wrong.to_string());
        }
        if or_zero {
            accepts(key, "0");
        } else if *least > 0 {
            refuses(key, "0");
        }
        for wrong in ["''", "'nonsense'", "1.5", "1e30", "nan", "true", "[]", "{}"] {
            refuses(key, wrong);
        }
    }
}

#[test]
fn everything_else_has_a_form() {
    for (key, right, wrong) in OTHERS {
        right.iter().for_each(|value| accepts(key, value));
        wrong.iter().for_each(|value| refuses(key, value));
    }
}

/// No key is without a rule, no rule without a row above, and no rule is of a key that the file does not name.
#[test]
fn every_key_is_checked() {
    let numbers = NUMBERS.iter().chain(NUMBERS_OR_ZERO).map(|(key, ..)| *key);
    let here: BTreeSet<String> = numbers
        .chain(OTHERS.iter().map(|(key, ..)| *key))
        .map(|key| {
            key.replace(".ww1", ".*")
                .replace("'externalcontact/mark_tag'", "*")
        })
        .chain(["corps.*".to_owned(), "quota.apis.*".to_owned()])
        .collect();
    let rules: BTreeSet<String> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
    assert_eq!(here, rules);
    assert_eq!(problems(&[]), []);
    for (key, _) in KEYS {
        let name = key.rsplit('.').next().unwrap();
        assert!(
            name == "*" || DEFAULTS.contains(&format!("{name} = ")),
            "{key}"
        );
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let rows = [
        (
            "http.admin_listen",
            "[http]\nadmin_listen = '127.0.0.1:8080'",
        ),
        (
            "public.cookie_key",
            "[public]\nlisten = '127.0.0.1:1'\nbase_url = 'https://h'",
        ),
        (
            "public.base_url",
            "[public]\nlisten = '127.0.0.1:1'\ncookie_key = 'env:KEY'",
        ),
        (
            "public.listen",
            "[public]\nlisten = '127.0.0.1:8081'\nbase_url = 'https://h'\ncookie_key = 'env:KEY'",
        ),
        ("public.cookie_key", "public.cookie_key = 'env:NOWHERE'"),
        // Not 32 bytes of base64.
        ("public.cookie_key", "public.cookie_key = 'env:SECRET'"),
        (
            "quota.lease_ms",
            "[quota]\nlease_ms = 4000\nlongest_ms = 3999",
        ),
        ("hours.renew_every_ms", "[hours]\nrenew_every_ms = 30001"),
        ("outbox.backoff_min_ms", "[outbox]\nbackoff_min_ms = 60001"),
        (
            "inbox.stream.first_pause_ms",
            "[inbox.stream]\nfirst_pause_ms = 1000\nlongest_pause_ms = 999",
        ),
        (
            "inbox.stream.wait_timeout_ms",
            "[inbox.stream]\nwait_replicas = 1\nwait_timeout_ms = 2000",
        ),
        ("redis.url", "redis.url = 'redis//u:hush@h:1'"),
        ("redis.url", "redis.url = 'redis://a:1,redis://u:hush@b:2'"),
        ("redis.url", "redis.url = 'redis://h:1?password=hush'"),
        ("redis.url", "redis.url = 'redis://h:1/0#hush'"),
        ("redis.url", "redis.url = 'env:NOWHERE'"),
        (
            "redis.sentinel_password",
            "redis.sentinel_password = 'env:NOWHERE'",
        ),
        ("postgres.url", "postgres.url = 'env:NOWHERE'"),
        ("postgres.url", "postgres.url = 'file:/nowhere'"),
        // Not an address of a database.
        ("postgres.url", "postgres.url = 'env:THERE'"),
        ("corps.ww1.secret", "corps.ww1.secret = 'env:NOWHERE'"),
    ];
    for (key, text) in rows {
        let found = all_problems(&[CORP, text], &env());
        let [problem] = found.as_slice() else {
            panic!("{text}: {found:?}")
        };
        assert!(
            problem.starts_with(&format!("{key}: ")),
            "{text}: {problem}"
        );
        assert!(!problem.contains("hush"), "{problem}");
    }
    assert_eq!(all_problems(&[CORP], &env()), [""; 0]);
}

#[test]
fn corps_differ_by_more_than_case() {
    let twin = "[corps.WW1]\nagent_id = 1\nsecret = 'env:SECRET'\n";
    let found = all_problems(&[CORP, twin], &env());
    let [problem] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert!(
        problem.starts_with("corps.ww1: must differ from corps.WW1 "),
        "{problem}"
    );
}

#[test]
fn an_unknown_key_is_named_with_its_neighbours() {
    let rows = [
        (
            "outbox.worker = 1",
            "outbox.worker: unknown key: outbox has workers, batch, ",
        ),
        (
            "[outboxes]\nworkers = 1",
            "outboxes: unknown key: the keys at the top are http, public, ",
        ),
        (
            "outbox = 3",
            "outbox: must be a table with the keys workers, ",
        ),
        (
            "[corps.'w w']",
            "corps.\"w w\": the name must be the corp's id, such as ww0123456789abcdef, not \"w w\"",
        ),
        ("corps.ww1 = 3", "corps.ww1: must be a table, not 3"),
        (
            "[corps.ww2]\nsecret = 'env:SECRET'",
            "corps.ww2.agent_id: is missing: must be a whole number",
        ),
        (
            "[corps.ww2]\nagent_id = 1",
            "corps.ww2.secret: is missing: must be written as env:NAME",
        ),
        (
            "[quota.apis.'externalcontact/mark_tags']\nin_flight = 1",
            "quota.apis.\"externalcontact/mark_tags\": the name must be an API's name",
        ),
        (
            "[quota.apis.'user/get']\nin_flights = 1",
            "quota.apis.\"user/get\".in_flights: unknown key: quota.apis.\"user/get\" has per_minute, ",
        ),
    ];
    for (text, expected) in rows {
        let found = all_problems(&[CORP, text], &env());
        assert!(
            found.iter().any(|problem| problem.starts_with(expected)),
            "{text}: {found:?}"
        );
    }
}

#[test]
fn all_mistakes_are_named_and_those_of_the_environment_too() {
    let mut env = env();
    env.insert("PAIDAN__OUTBOX__WORKERS".to_owned(), "0".to_owned());
    env.insert("PAIDAN__OUTBOX__BATCH".to_owned(), String::new());
    env.insert("PAIDAN__AUDIT__REREAD_MS".to_owned(), "5,4".to_owned());
    let errors = Config::load(&[], &env).unwrap_err();
    let keys: Vec<_> = errors.iter().map(|error| error.key.as_str()).collect();
    assert_eq!(keys, ["audit.reread_ms", "outbox.batch", "outbox.workers"]);
    for (value, expected) in [("3000, 40000", vec![3000, 40000]), ("7", vec![7])] {
        let config = with("PAIDAN__AUDIT__REREAD_MS", value).unwrap();
        assert_eq!(config.audit.reread_ms, expected);
    }
}

fn with(name: &str, value: &str) -> Result<Config, Errors> {
    Config::load(&[], &HashMap::from([(name.to_owned(), value.to_owned())]))
}

#[test]
fn no_password_is_shown() {
    for (name, value) in [
        ("PAIDAN__REDIS__URL", "redis://:hush@127.0.0.1:6379"),
        ("PAIDAN__REDIS__SENTINEL_PASSWORD", "hush"),
        ("PAIDAN__REDIS__SENTINEL_PASSWORD", "987654321"),
    ] {
        let shown = with(name, value).unwrap().to_string();
        assert!(
            shown.contains("[redacted]") && !shown.contains("hush") && !shown.contains("987654321"),
            "{shown}"
        );
    }
}

#[test]
fn redis_secrets_may_be_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "hush\n").unwrap();
    let reference = format!("file:{}", file.display());
    let mut env = HashMap::from(
        [
            ("PAIDAN__REDIS__URL", "env:THERE"),
            ("PAIDAN__REDIS__SENTINEL_PASSWORD", &reference),
            ("THERE", "redis://:hush@10.0.0.1:6379"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let config = Config::load(&[], &env).unwrap();
    let redis = &config.redis;
    assert_eq!(redis.url.expose_secret(), "redis://:hush@10.0.0.1:6379");
    let password = redis.sentinel_password.as_ref().unwrap();
    assert_eq!(password.expose_secret(), "hush");
    let shown = config.to_string();
    assert!(
        shown.contains("env:THERE") && shown.contains(&reference) && !shown.contains("hush"),
        "{shown}"
    );
    env.remove("THERE");
    let error = Config::load(&[], &env).unwrap_err().to_string();
    assert!(
        error.contains("redis.url") && error.contains("THERE"),
        "{error}"
    );
}
