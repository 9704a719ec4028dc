//! Every key of `config/gateway.toml` and what it accepts.

use settings::{Keys, Rule};
use tracing_subscriber::EnvFilter;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const MINUTE_MS: i64 = 60 * 1000;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

pub(super) const KEYS: Keys = &[
    ("http.listen", Rule::listen()),
    ("http.admin_listen", Rule::listen()),
    ("http.workers", Rule::whole(0, 1_024)),
    ("http.max_connections", Rule::whole(1, 1_000_000)),
    ("http.backlog", Rule::whole(1, 65_535)),
    (
        "http.body_limit",
        Rule::whole(131_072, 64 << 20).because("WeCom's largest callbacks have about 90 KB"),
    ),
    (
        "http.buffered_limit",
        Rule::whole(131_072, 1 << 40).because("it must hold a callback at least"),
    ),
    ("http.header_timeout_ms", Rule::whole(1, 10 * MINUTE_MS)),
    ("http.body_timeout_ms", Rule::whole(1, 10 * MINUTE_MS)),
    ("http.keep_alive_ms", Rule::whole(1, 60 * MINUTE_MS)),
    ("http.drain_ms", Rule::whole(0, 30_000)),
    ("http.shutdown_ms", Rule::whole(0, 30_000)),
    (
        "store.timeout_ms",
        Rule::whole(1, 4_500).because("WeCom gives up after 5 s"),
    ),
    ("store.max_in_flight", Rule::whole(1, 10_000_000)),
    ("store.max_batch", Rule::whole(1, 10_000)),
    ("store.max_batches", Rule::whole(1, 10_000)),
    ("store.retry_min_ms", Rule::whole(1, 4_500)),
    ("store.retry_max_ms", Rule::whole(1, 4_500)),
    ("store.probe_ms", Rule::whole(10, MINUTE_MS)),
    (
        "redis.mode",
        Rule::one_of(&["single", "sentinel", "cluster"]),
    ),
    ("redis.url", Rule::secret_or_value()),
    ("redis.sentinel_master", Rule::filled()),
    ("redis.sentinel_username", Rule::filled()),
    ("redis.sentinel_password", Rule::secret_or_value()),
    ("redis.response_timeout_ms", Rule::whole(10, 4_499)),
    ("redis.connect_timeout_ms", Rule::whole(10, MINUTE_MS)),
    ("inbox.max_length", Rule::whole(1, 100_000_000)),
    ("inbox.seen_ms", Rule::whole(MINUTE_MS, 7 * DAY_MS)),
    ("inbox.dirty_delay_ms", Rule::whole(0, 10 * MINUTE_MS)),
    ("inbox.wait_replicas", Rule::whole(0, 10)),
    ("inbox.wait_timeout_ms", Rule::whole(1, MINUTE_MS)),
    (
        "log.level",
        Rule::text(
            "off, error, warn, info, debug or trace, perhaps with target=level behind commas, such as info,gateway=debug",
            is_filter,
        ),
    ),
    ("log.format", Rule::one_of(&["json", "text"])),
    ("log.refusals_burst", Rule::whole(1, 1_000_000)),
    ("log.refusals_per_second", Rule::whole(1, 1_000_000)),
    (
        "endpoints.*",
        Rule::named("1 to 64 letters, digits, - or _", |text| {
            is_name(text, "-_")
        })
        .because("it is part of the URL"),
    ),
    (
        "endpoints.*.corp_id",
        Rule::text("the corp's id, such as ww0123456789abcdef", |text| {
            is_name(text, "-_.")
        })
        .required(),
    ),
    ("endpoints.*.kind", Rule::one_of(&["app", "suite"])),
    ("endpoints.*.agent_id", Rule::whole(1, u32::MAX as i64)),
    (
        "endpoints.*.receive_ids",
        Rule::texts("the id of a corp or a suite, or \"\" for none", |text| {
            text.is_empty() || is_name(text, "-_.")
        }),
    ),
    (
        "endpoints.*.keys",
        Rule::entries(1, 2)
            .required()
            .because("{ token, aes_key }, newest first"),
    ),
    ("endpoints.*.keys.#.token", Rule::secret().required()),
    ("endpoints.*.keys.#.aes_key", Rule::secret().required()),
];

fn is_name(text: &str, signs: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || signs.contains(c))
}

/// A word alone would be taken for the name of a target whose lines are all shown, and nothing else: a level that was
/// misspelt.
fn is_filter(text: &str) -> bool {
    let is_level = |word: &str| LEVELS.contains(&word.to_ascii_lowercase().as_str());
    let mut directives = text.split(',').map(str::trim);
    directives.all(|directive| match directive.rsplit_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(directive),
    }) && EnvFilter::try_new(text).is_ok()
}
