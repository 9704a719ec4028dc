//! Every key of `config/gateway.toml` with what it takes and what it refuses.

use std::collections::{BTreeSet, HashMap};

use super::{Config, DEFAULTS, Error, Sources, keys::KEYS};
use crate::endpoints;

/// Key, least and greatest number.
const NUMBERS: &[(&str, i64, i64)] = &[
    ("http.workers", 0, 1_024),
    ("http.max_connections", 1, 1_000_000),
    ("http.backlog", 1, 65_535),
    ("http.body_limit", 131_072, 67_108_864),
    ("http.buffered_limit", 131_072, 1_099_511_627_776),
    ("http.header_timeout_ms", 1, 600_000),
    ("http.body_timeout_ms", 1, 600_000),
    ("http.keep_alive_ms", 1, 3_600_000),
    ("http.drain_ms", 0, 30_000),
    ("http.shutdown_ms", 0, 30_000),
    ("store.timeout_ms", 1, 4_500),
    ("store.max_in_flight", 1, 10_000_000),
    ("store.max_batch", 1, 10_000),
    ("store.max_batches", 1, 10_000),
    ("store.retry_min_ms", 1, 4_500),
    ("store.retry_max_ms", 1, 4_500),
    ("store.probe_ms", 10, 60_000),
    ("redis.response_timeout_ms", 10, 4_499),
    ("redis.connect_timeout_ms", 10, 60_000),
    ("inbox.max_length", 1, 100_000_000),
    ("inbox.seen_ms", 60_000, 604_800_000),
    ("inbox.dirty_delay_ms", 0, 600_000),
    ("inbox.wait_replicas", 0, 10),
    ("inbox.wait_timeout_ms", 1, 60_000),
    ("log.refusals_burst", 1, 1_000_000),
    ("log.refusals_per_second", 1, 1_000_000),
    ("endpoints.sales.agent_id", 1, 4_294_967_295),
];

/// Key, what it takes, what it refuses; as TOML.
const OTHERS: &[(&str, &[&str], &[&str])] = &[
    (
        "http.listen",
        &["'0.0.0.0:1'", "'[::1]:80'"],
        &["''", "'localhost'", "8000", "'127.0.0.1:99999'"],
    ),
    (
        "http.admin_listen",
        &["'127.0.0.1:0'"],
        &["''", "'nonsense'", "[]"],
    ),
    (
        "redis.mode",
        &["'single'", "'sentinel'", "'cluster'"],
        &["''", "'Single'", "'standalone'", "1", "true"],
    ),
    (
        "redis.url",
        &["'redis://h:1'", "'env:THERE'"],
        &["''", "'env:'", "'file:relative'", "{}"],
    ),
    ("redis.sentinel_master", &["'m'"], &["''", "' '", "[]"]),
    ("redis.sentinel_username", &["'u'"], &["''"]),
    (
        "redis.sentinel_password",
        &["'p'", "12345", "'env:THERE'"],
        &["''", "'env:'"],
    ),
    (
        "log.level",
        &[
            "'info'",
            "'WARN'",
            "'info,gateway=debug'",
            "'gateway::worker=trace, off'",
        ],
        &[
            "''",
            "'loud'",
            "'info,gateway=loud'",
            "'gateway'",
            "'=info'",
            "'info,,'",
            "3",
            "true",
        ],
    ),
    (
        "log.format",
        &["'json'", "'text'"],
        &["''", "'JSON'", "'xml'", "0"],
    ),
    (
        "endpoints.sales.corp_id",
        &["'ww1'", "'w-w_1.x'"],
        &["''", "'w w'", "'企业'", "[]"],
    ),
    (
        "endpoints.sales.kind",
        &["'app'", "'suite'"],
        &["''", "'App'", "'bot'", "1"],
    ),
    (
        "endpoints.sales.receive_ids",
        &["['ww1']", "['']", "['ww1', 'dk1']", "'ww1, dk1'"],
        &["[]", "['w w']", "[['ww1']]", "{ a = 1 }"],
    ),
    (
        "endpoints.sales.keys",
        &[],
        &["[]", "'env:TOKEN'", "3", "{}", "{ a = {} }"],
    ),
    ("endpoints.sales.keys[0].token", &[], &[]),
    ("endpoints.sales.keys[0].aes_key", &[], &[]),
];

const ENDPOINT: &str =
    "[endpoints.sales]\ncorp_id = 'ww1'\nkeys = [{ token = 'env:TOKEN', aes_key = 'env:KEY' }]\n";
const TOKEN: &str = "QDG6eK";
const KEY: &str = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C";

/// One file for each text, later ones over earlier ones.
fn sources(texts: &[&str]) -> (tempfile::TempDir, Sources) {
    let dir = tempfile::tempdir().unwrap();
    let files = texts.iter().enumerate().map(|(index, text)| {
        let file = dir.path().join(format!("{index}.toml"));
        std::fs::write(&file, text).unwrap();
        file
    });
    let env = [
        ("THERE", "redis://:hush@10.0.0.1:6379"),
        ("TOKEN", TOKEN),
        ("KEY", KEY),
    ];
    let sources = Sources {
        files: files.collect(),
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    (dir, sources)
}

/// What the rules say of the texts.
fn problems(texts: &[&str]) -> Vec<Error> {
    let (_dir, sources) = sources(texts);
    settings::check(&sources.merge(DEFAULTS).unwrap(), KEYS)
}

/// Everything that is wrong, as `--check-config` finds it.
fn all_problems(texts: &[&str]) -> Vec<String> {
    let (_dir, sources) = sources(texts);
    match Config::load(&sources) {
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
        Ok(config) => endpoints::check(&config)
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

fn accepts(key: &str, value: &str) {
    let text = format!("{key} = {value}\n");
    assert_eq!(problems(&[ENDPOINT, &text]), [], "{text}");
}

/// One error, of this key, with what is accepted and, but for secrets, what was found.
fn refuses(key: &str, value: &str) {
    let text = format!("{key} = {value}\n");
    let errors = problems(&[ENDPOINT, &text]);
    let [error] = errors.as_slice() else {
        panic!("{text}: {errors:?}")
    };
    assert!(error.key.starts_with(key), "{text}: {error}");
    assert!(error.problem.starts_with("must be "), "{text}: {error}");
    let secret = ["url", "password", "token", "aes_key"]
        .iter()
        .any(|word| key.ends_with(word));
    assert!(
        secret || error.problem.contains(", not "),
        "{text}: {error}"
    );
}

#[test]
fn every_number_has_two_ends() {
    for (key, least, greatest) in NUMBERS {
        accepts(key, &least.to_string());
        accepts(key, &greatest.to_string());
        for wrong in [least - 1, -1, greatest + 1, i64::MAX, i64::MIN] {
            refuses(key, &wrong.to_string());
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
    let here: BTreeSet<String> = NUMBERS
        .iter()
        .map(|(key, ..)| *key)
        .chain(OTHERS.iter().map(|(key, ..)| *key))
        .map(|key| key.replace(".sales", ".*").replace("[0]", ".#"))
        .chain(["endpoints.*".to_owned()])
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
            "[http]\nadmin_listen = '127.0.0.1:8000'",
        ),
        (
            "http.shutdown_ms",
            "[http]\ndrain_ms = 10000\nshutdown_ms = 25000",
        ),
        ("store.retry_max_ms", "[store]\nretry_max_ms = 9"),
        (
            "redis.response_timeout_ms",
            "[redis]\nresponse_timeout_ms = 4000",
        ),
        (
            "inbox.wait_timeout_ms",
            "[inbox]\nwait_replicas = 1\nwait_timeout_ms = 2000",
        ),
        ("redis.url", "redis.url = 'redis//u:hush@h:1'"),
        ("redis.url", "redis.url = 'redis://a:1,redis://u:hush@b:2'"),
        ("redis.url", "redis.url = 'redis://h:1?password=hush'"),
        ("redis.url", "redis.url = 'redis://h:1/0#hush'"),
        ("redis.url", "redis.url = 'env:NOWHERE'"),
    ];
    for (key, text) in rows {
        let found = all_problems(&[ENDPOINT, text]);
        let [problem] = found.as_slice() else {
            panic!("{text}: {found:?}")
        };
        assert!(
            problem.starts_with(&format!("{key}: ")),
            "{text}: {problem}"
        );
        assert!(!problem.contains("hush"), "{problem}");
    }
    assert_eq!(
        all_problems(&[
            ENDPOINT,
            "[inbox]\nwait_replicas = 1\nwait_timeout_ms = 1999"
        ]),
        [""; 0]
    );
}

#[test]
fn an_unknown_key_is_named_with_its_neighbours() {
    let rows = [
        (
            "log.lvl = 'info'",
            "log.lvl: unknown key: log has level, format, ",
        ),
        (
            "[logs]\nlevel = 'info'",
            "logs: unknown key: the keys at the top are http, store, ",
        ),
        ("http = 3", "http: must be a table with the keys listen, "),
        (
            "endpoints = 'x'",
            "endpoints: must be a table, with a table of its own for each name",
        ),
        (
            "endpoints.sales.agentid = 1",
            "endpoints.sales.agentid: unknown key: endpoints.sales has corp_id, ",
        ),
        (
            "[endpoints.'a b']",
            "endpoints.\"a b\": the name must be 1 to 64 letters, digits, - or _, not \"a b\"",
        ),
        (
            "endpoints.more = 3",
            "endpoints.more: must be a table, not 3",
        ),
        (
            "[endpoints.more]",
            "endpoints.more.corp_id: is missing: must be the corp's id",
        ),
        (
            "[endpoints.more]\ncorp_id = 'ww1'",
            "endpoints.more.keys: is missing: must be a list of 1 to 2 tables",
        ),
        (
            "endpoints.sales.keys = [{ aes_key = 'env:KEY' }]",
            "endpoints.sales.keys[0].token: is missing: must be written as env:NAME or file:/path",
        ),
        (
            "endpoints.sales.keys = [{ token = 'h4sh', aes_key = 'env:KEY' }]",
            "endpoints.sales.keys[0].token: must be written as env:NAME",
        ),
        (
            "endpoints.sales.keys = [{ token = 'env:TOKEN', aes_key = 7, what = 1 }]",
            "endpoints.sales.keys[0].aes_key: must be written as env:NAME",
        ),
        (
            "endpoints.sales.kind = 'suite'",
            "endpoints.sales.receive_ids: is missing: a suite needs",
        ),
    ];
    for (text, expected) in rows {
        let found = all_problems(&[ENDPOINT, text]);
        assert!(
            found
                .first()
                .is_some_and(|problem| problem.starts_with(expected) && !problem.contains("h4sh")),
            "{text}: {found:?}"
        );
    }
}

/// Everything at once, and a malformed endpoint takes no other along.
#[test]
fn all_mistakes_are_named() {
    let found = all_problems(&["[store]\nmax_batch = 0\nmax_batches = 0\n[log]\nformat = 'xml'\n"]);
    let keys: Vec<_> = found
        .iter()
        .map(|problem| problem.split(':').next().unwrap())
        .collect();
    assert_eq!(keys, ["log.format", "store.max_batch", "store.max_batches"]);
    let (_dir, sources) = sources(&[ENDPOINT, "[endpoints.other]\nkind = 'bot'\n"]);
    let config = Config::load(&sources).unwrap();
    config.endpoint("sales").unwrap();
    assert_eq!(config.endpoint("other").unwrap_err().iter().count(), 3);
}

/// The program would not start.
#[test]
fn without_an_endpoint_it_is_wrong() {
    let found = all_problems(&[]);
    assert!(
        found.len() == 1 && found[0].starts_with("endpoints: is empty: add a table"),
        "{found:?}"
    );
}

#[test]
fn secrets_of_endpoints_are_looked_up_and_never_shown() {
    let check = |token: Option<&str>| {
        let (_dir, mut sources) = sources(&[ENDPOINT]);
        sources.env = HashMap::from([("KEY".to_owned(), KEY.to_owned())]);
        sources
            .env
            .extend(token.map(|token| ("TOKEN".to_owned(), token.to_owned())));
        let config = Config::load(&sources).unwrap();
        endpoints::check(&config)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(check(Some(TOKEN)), [""; 0]);
    for token in [None, Some(""), Some("a"), Some("with-dash")] {
        let found = check(token);
        let [problem] = found.as_slice() else {
            panic!("{token:?}: {found:?}")
        };
        assert!(
            problem.starts_with("endpoints.sales.keys[0].token: "),
            "{problem}"
        );
        assert!(!problem.contains("with-dash"), "{problem}");
    }
}
