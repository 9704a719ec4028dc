//! Every key of `config/allocator.toml` and what it accepts.

use allocation::CorpId;
use settings::{Keys, Rule};
use url::Url;
use wecom::client::api;

use super::public;
use crate::people::hours::Zone;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const HOUR_MS: i64 = 60 * 60 * 1000;
const MINUTE_MS: i64 = 60 * 1000;
/// Calls in a window: far above what WeCom allows, so that measurements against a fake can lift it.
const CALLS_MAX: i64 = 1_000_000_000;
/// Bytes of a card's address at WeCom.
const CARD_URL_MAX: usize = 2048;
/// Characters of an allocation's id, and of the largest number of customers in a digest.
const ALLOCATION_CHARS: usize = 36;
const COUNT_CHARS: usize = 4;
/// The longest name of a group pool.
const POOL_CHARS: usize = 100;
const TIME_CHARS: usize = 5;
/// Of the longest time for an answer.
const SECONDS_CHARS: usize = 5;

pub(super) const KEYS: Keys = &[
    ("http.listen", Rule::listen()),
    ("http.admin_listen", Rule::listen()),
    ("http.body_limit", Rule::whole(1024, 64 << 20)),
    ("http.timeout_ms", Rule::whole(100, 10 * MINUTE_MS)),
    (
        "http.shutdown_ms",
        Rule::whole(0, 30_000).because("who stops programs kills them after 30 s"),
    ),
    ("public.listen", Rule::listen()),
    (
        "public.base_url",
        Rule::text("http://host[:port] or https://host[:port], without a path", |text| {
            is_web(text).is_some_and(|url| {
                url.path() == "/" && url.query().is_none() && url.fragment().is_none()
            })
        })
        .because("the pages are at /c/ of it"),
    ),
    ("public.cookie_key", Rule::secret()),
    ("public.per_minute", Rule::whole(1, 1_000_000)),
    ("public.burst", Rule::whole(1, 100_000)),
    (
        "public.trusted_proxies",
        Rule::texts("an address, such as 10.0.0.1, or a network, such as 10.0.0.0/8", |text| {
            text.parse::<public::Network>().is_ok()
        }),
    ),
    (
        "redis.mode",
        Rule::one_of(&["single", "sentinel", "cluster"]),
    ),
    ("redis.url", Rule::secret_or_value()),
    ("redis.sentinel_master", Rule::filled()),
    ("redis.sentinel_username", Rule::filled()),
    ("redis.sentinel_password", Rule::secret_or_value()),
    ("redis.response_timeout_ms", Rule::whole(10, MINUTE_MS)),
    ("redis.connect_timeout_ms", Rule::whole(10, MINUTE_MS)),
    ("postgres.url", Rule::secret()),
    ("postgres.max_connections", Rule::whole(1, 1_000)),
    ("postgres.acquire_timeout_ms", Rule::whole(100, 10 * MINUTE_MS)),
    ("postgres.statement_timeout_ms", Rule::whole(100, 10 * MINUTE_MS)),
    ("postgres.pooler", Rule::switch()),
    (
        "wecom.base_url",
        Rule::text(
            "http://host[:port] or https://host[:port], perhaps with the path of a proxy, and without /cgi-bin",
            is_base_url,
        )
        .because("/cgi-bin and the API's name are put behind it"),
    ),
    (
        "wecom.egress",
        Rule::text("1 to 64 letters, digits, _ - . or :", |text| {
            is_name(text, "_-.:")
        })
        .because("it is part of keys in Redis"),
    ),
    ("quota.per_minute", Rule::whole(1, CALLS_MAX)),
    ("quota.per_hour", Rule::whole(1, CALLS_MAX)),
    ("quota.share_percent", Rule::whole(1, 100)),
    (
        "quota.urgent_percent",
        Rule::whole(0, 90).because("the other calls need a part too"),
    ),
    ("quota.in_flight", Rule::whole(1, 1_000)),
    (
        "quota.lease_ms",
        Rule::whole(1_000, MINUTE_MS)
            .because("renewals every quarter of it must reach Redis in time, and what a dead process held is ours again after it"),
    ),
    ("quota.longest_ms", Rule::whole(1_000, HOUR_MS)),
    ("quota.grow_back_ms", Rule::whole(100, HOUR_MS)),
    ("quota.egress_per_minute", Rule::whole(1, CALLS_MAX)),
    ("quota.egress_per_hour", Rule::whole(1, CALLS_MAX)),
    (
        "quota.apis.*",
        Rule::named("an API's name as in externalcontact/mark_tag, one that is called at all", |text| {
            api::ALL.contains(&text)
        }),
    ),
    ("quota.apis.*.per_minute", Rule::whole(1, CALLS_MAX)),
    ("quota.apis.*.per_hour", Rule::whole(1, CALLS_MAX)),
    ("quota.apis.*.in_flight", Rule::whole(1, 1_000)),
    ("inbox.batch", Rule::whole(1, 10_000)),
    (
        "inbox.block_ms",
        Rule::whole(10, 5_000).because("a connection that reads waits no longer"),
    ),
    ("inbox.stream.max_length", Rule::whole(1, 100_000_000)),
    ("inbox.stream.seen_ms", Rule::whole(MINUTE_MS, 7 * DAY_MS)),
    (
        "inbox.stream.claim_idle_ms",
        Rule::whole(1_000, 15_000)
            .because("longer than a batch takes, shorter than the 20 s of a welcome code"),
    ),
    ("inbox.stream.claim_every_ms", Rule::whole(10, 15_000)),
    ("inbox.stream.max_tries", Rule::whole(1, 31)),
    ("inbox.stream.first_pause_ms", Rule::whole(1, HOUR_MS)),
    ("inbox.stream.longest_pause_ms", Rule::whole(1, DAY_MS)),
    ("inbox.stream.dirty_delay_ms", Rule::whole(0, 10 * MINUTE_MS)),
    ("inbox.stream.wait_replicas", Rule::whole(0, 10)),
    ("inbox.stream.wait_timeout_ms", Rule::whole(1, MINUTE_MS)),
    ("roster.writer_batch", Rule::whole(1, 100_000)),
    ("roster.snapshot_every", Rule::whole(1, 10_000_000)),
    ("roster.wake_every_ms", Rule::whole(10, 10 * MINUTE_MS)),
    ("roster.sync_every_ms", Rule::whole(10, 10 * MINUTE_MS)),
    ("hours.renew_every_ms", Rule::whole(100, 10 * MINUTE_MS)),
    ("hours.lease_ms", Rule::whole(1_000, HOUR_MS)),
    (
        "hours.default_zone",
        Rule::text("the IANA name of a time zone, such as Asia/Shanghai", |name| {
            Zone::named(name).is_some()
        }),
    ),
    ("outbox.workers", Rule::whole(1, 256)),
    ("outbox.batch", Rule::whole(1, 10_000)),
    (
        "outbox.claim_ms",
        Rule::whole(1_000, 15_000)
            .because("beginning a row takes its time, and a welcome code lives for 20 s"),
    ),
    (
        "outbox.lease_ms",
        Rule::whole(5_001, 10 * MINUTE_MS).because("one call to WeCom may take 5 s"),
    ),
    ("outbox.max_attempts", Rule::whole(1, 100)),
    ("outbox.backoff_min_ms", Rule::whole(1, HOUR_MS)),
    ("outbox.backoff_max_ms", Rule::whole(1, DAY_MS)),
    ("outbox.poll_ms", Rule::whole(10, MINUTE_MS)),
    (
        "outbox.cards_per_minute",
        Rule::whole(1, 30).because("WeCom drops more without a word"),
    ),
    (
        "card.title",
        Rule::text("text of 1 to 128 characters", |text| is_line(text, 128)),
    ),
    (
        "card.description",
        Rule::text("text of 1 to 512 characters", |text| is_line(text, 512)),
    ),
    (
        "card.digest",
        Rule::text("text of 1 to 512 characters, {count} counted as 4 at most", |text| {
            is_line(&text.replace("{count}", &"0".repeat(COUNT_CHARS)), 512)
        }),
    ),
    (
        "card.offer_title",
        Rule::text("text of 1 to 128 characters", |text| is_line(text, 128)),
    ),
    (
        "card.offer_description",
        Rule::text("text of 1 to 512 characters, {seconds} counted as 5", |text| {
            is_line(&text.replace("{seconds}", &"0".repeat(SECONDS_CHARS)), 512)
        }),
    ),
    (
        "card.offer_digest",
        Rule::text("text of 1 to 512 characters, {count} counted as 4 at most, {seconds} as 5", |text| {
            let text = text.replace("{count}", &"0".repeat(COUNT_CHARS));
            is_line(&text.replace("{seconds}", &"0".repeat(SECONDS_CHARS)), 512)
        }),
    ),
    (
        "card.url",
        Rule::text("an address that begins with http:// or https://, of at most 2048 bytes", |text| {
            let url = text.replace("{allocation}", &"0".repeat(ALLOCATION_CHARS));
            url.len() <= CARD_URL_MAX && is_web(&url).is_some()
        }),
    ),
    (
        "card.supply_title",
        Rule::text("text of 1 to 128 characters", |text| is_line(text, 128)),
    ),
    ("card.supply_description", Rule::text(SUPPLY_TEXT, is_supply_text)),
    ("card.supply_reminder", Rule::text(SUPPLY_TEXT, is_supply_text)),
    (
        "card.supply_url",
        Rule::text("an address that begins with http:// or https://, of at most 2048 bytes", |text| {
            let url = text.replace("{task}", &"0".repeat(ALLOCATION_CHARS));
            url.len() <= CARD_URL_MAX && is_web(&url).is_some()
        }),
    ),
    (
        "card.goal",
        Rule::text("text of 1 to 200 characters", |text| is_line(text, 200)),
    ),
    (
        "events.url",
        Rule::text("an address that begins with http:// or https://", |text| is_web(text).is_some()),
    ),
    ("events.secret", Rule::secret()),
    (
        "handover.max_moves",
        Rule::whole(1, 2).because("WeCom allows 2 for one customer in 90 days"),
    ),
    (
        "handover.window_days",
        Rule::whole(90, 3_650).because("WeCom counts the moves of 90 days"),
    ),
    ("handover.settle_after_ms", Rule::whole(1, HOUR_MS)),
    ("handover.unknown_for_ms", Rule::whole(1, DAY_MS)),
    ("handover.human_after_ms", Rule::whole(1, 90 * DAY_MS)),
    ("handover.poll_ms", Rule::whole(10, 10 * MINUTE_MS)),
    ("audit.period_ms", Rule::zero_or(1_000, 90 * DAY_MS)),
    ("audit.reread_ms", Rule::rising(1, DAY_MS, 10)),
    ("visits.max_ways", Rule::whole(1, 10_000_000)),
    ("visits.workers", Rule::whole(1, 64)),
    ("visits.poll_ms", Rule::whole(10, MINUTE_MS)),
    ("visits.slot_rest_ms", Rule::whole(0, 90 * DAY_MS)),
    (
        "visits.ask_lease_ms",
        Rule::whole(5_001, HOUR_MS).because("one call to WeCom may take 5 s"),
    ),
    ("visits.look_after_ms", Rule::whole(10, HOUR_MS)),
    ("visits.unknown_for_ms", Rule::whole(10, DAY_MS)),
    ("visits.max_attempts", Rule::whole(1, 100)),
    ("visits.backoff_min_ms", Rule::whole(1, HOUR_MS)),
    ("visits.backoff_max_ms", Rule::whole(1, DAY_MS)),
    ("visits.failed_ms", Rule::whole(1_000, 90 * DAY_MS)),
    ("visits.full_pause_ms", Rule::whole(1_000, 7 * DAY_MS)),
    ("visits.look_up_unionid", Rule::switch()),
    ("visits.pictures_mb", Rule::whole(1, 65_536)),
    ("fission.read_after_ms", Rule::whole(0, 10 * MINUTE_MS)),
    ("fission.read_lag_ms", Rule::whole(0, 10 * MINUTE_MS)),
    ("fission.reads", Rule::whole(1, 64)),
    ("fission.poll_ms", Rule::whole(10, MINUTE_MS)),
    ("fission.period_ms", Rule::zero_or(5_000, 90 * DAY_MS)),
    ("fission.failed_ms", Rule::whole(1_000, 7 * DAY_MS)),
    ("fission.unread_release_ms", Rule::whole(1_000, 7 * DAY_MS)),
    ("fission.memory_ms", Rule::whole(0, 90 * DAY_MS)),
    ("fission.wait_ms", Rule::whole(0, 5_000)),
    ("fission.ways_of_inviter", Rule::whole(1, 100)),
    ("fission.inviter_ways", Rule::whole(0, 400_000)),
    (
        "retention.deliveries_days",
        Rule::zero_or(2, 36_500)
            .because("duplicates are known for a day, and replays need what they repeat"),
    ),
    ("retention.dead_letters", Rule::whole(0, 10_000_000)),
    (
        "corps.*",
        Rule::named("the corp's id, such as ww0123456789abcdef", |text| {
            CorpId::new(text).is_ok()
        }),
    ),
    (
        "corps.*.agent_id",
        Rule::whole(1, u32::MAX as i64)
            .required()
            .because("it is the AgentId on the app's page in WeCom's console"),
    ),
    ("corps.*.secret", Rule::secret().required()),
    (
        "corps.*.utc_offset_minutes",
        Rule::whole(-12 * 60, 14 * 60).because("that is UTC-12 to UTC+14; China is 480"),
    ),
    (
        "corps.*.default_pool",
        Rule::text("the id of a pool: 1 to 64 of A-Z a-z 0-9 _ - ., beginning with a letter or digit", is_pool),
    ),
];

fn is_name(text: &str, signs: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || signs.contains(c))
}

/// As the REST API lets pools be named.
fn is_pool(text: &str) -> bool {
    is_name(text, "_-.") && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// What `card.supply_description` takes.
const SUPPLY_TEXT: &str =
    "text of 1 to 512 characters, {pool} counted as 100, {count} as 4 and {time} as 5";

fn is_supply_text(text: &str) -> bool {
    let text = text.replace("{pool}", &"0".repeat(POOL_CHARS));
    let text = text.replace("{count}", &"0".repeat(COUNT_CHARS));
    is_line(&text.replace("{time}", &"0".repeat(TIME_CHARS)), 512)
}

fn is_line(text: &str, longest: usize) -> bool {
    !text.trim().is_empty() && text.chars().count() <= longest
}

/// `http` or `https` with a host, and no user: a card or a call would carry the password along.
fn is_web(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.username().is_empty()
        && url.password().is_none();
    plain.then_some(url)
}

fn is_base_url(text: &str) -> bool {
    is_web(text).is_some_and(|url| {
        let path = url.path().trim_end_matches('/');
        url.query().is_none() && url.fragment().is_none() && !path.ends_with("/cgi-bin")
    })
}
