//! How Redis is set up: what the promises of the inbox and the roster stand on. Judged apart from asking, so that every
//! finding can be tested.

use redis::InfoDict;

use super::{Check, Verdict};
use crate::{app::Redis, redis_setup};

const FSYNC: &str = "appendfsync";
const TRUNCATED: &str = "aof-load-truncated";
const POLICY: &str = "maxmemory-policy";
const LIMIT: &str = "maxmemory";
/// Above this share of its limit a surge may find no room.
const FULL_PERCENT: u64 = 80;

/// What a server says of itself. A setting is None when it may not be read.
#[derive(Debug, Clone)]
struct Setup {
    version: String,
    appendonly: bool,
    used_memory: u64,
    host_memory: u64,
    appendfsync: Option<String>,
    aof_load_truncated: Option<String>,
    maxmemory_policy: Option<String>,
    maxmemory: Option<String>,
}

pub(super) async fn checks(redis: &Redis) -> Vec<Check> {
    match ask(redis).await {
        Ok(setup) => judge(&setup),
        Err(error) => {
            let mend = "check redis.url and redis.mode, and that the server runs";
            vec![Check::failed("redis", &error, mend)]
        }
    }
}

async fn ask(redis: &Redis) -> redis::RedisResult<Setup> {
    let info: InfoDict = redis::cmd("INFO").query_async(&mut redis.clone()).await?;
    let text = |name: &str| info.get::<String>(name).unwrap_or_default();
    let number = |name: &str| text(name).parse().unwrap_or_default();
    let setting = async |name: &str| redis_setup::setting(redis, name).await.ok().flatten();
    Ok(Setup {
        version: text("redis_version"),
        appendonly: text("aof_enabled") == "1",
        used_memory: number("used_memory"),
        host_memory: number("total_system_memory"),
        appendfsync: setting(FSYNC).await,
        aof_load_truncated: setting(TRUNCATED).await,
        maxmemory_policy: setting(POLICY).await,
        maxmemory: setting(LIMIT).await,
    })
}

fn judge(setup: &Setup) -> Vec<Check> {
    vec![
        version(setup),
        appendonly(setup),
        appendfsync(setup),
        truncated(setup),
        eviction(setup),
        memory(setup),
    ]
}

fn version(setup: &Setup) -> Check {
    let major = setup.version.split('.').next().map(str::parse::<u32>);
    let verdict = match major {
        Some(Ok(7..)) => Verdict::Ok,
        _ => Verdict::Failed,
    };
    let mend = "Paidan needs Redis 7.0 or newer";
    Check::new("redis version", verdict, setup.version.clone(), mend)
}

fn appendonly(setup: &Setup) -> Check {
    let (verdict, found) = if setup.appendonly {
        (Verdict::Ok, "on")
    } else {
        let found = "off: a restart loses acknowledged callbacks";
        (Verdict::Failed, found)
    };
    let mend = "start Redis with --appendonly yes --appendfsync always";
    Check::new("redis AOF", verdict, found, mend)
}

fn appendfsync(setup: &Setup) -> Check {
    let mend = match setup.appendfsync.as_deref() {
        Some("no") => {
            "set appendfsync always: as it is, half a minute of acknowledged callbacks is lost when the machine fails"
        }
        _ => {
            "set appendfsync always, or accept that a second of acknowledged callbacks is lost when the machine fails; the slow audit finds their customers"
        }
    };
    let verdict = |value: &str| match value {
        "always" => Verdict::Ok,
        "no" => Verdict::Failed,
        _ => Verdict::Warning,
    };
    setting(FSYNC, setup.appendfsync.as_deref(), verdict, mend)
}

/// Whether a file that was checked before the start can be seen from here: no. But a Redis with `no` refuses one that
/// was not.
fn truncated(setup: &Setup) -> Check {
    let mend = "after a power failure the append-only file can end in the middle of one of our calls, and Redis would go on \
                from there: half of what the call did comes back with a later restart, for example a customer who counts for a \
                member and whom nobody has. Set aof-load-truncated no, so that Redis refuses such a file, and run \
                `redis-check-aof appendonlydir/appendonly.aof.manifest` before every start, and once more with --fix, which cuts \
                the whole call off, when it finds a few bytes to cut off (diff=) and not hours; docker-compose.yml does it all";
    let verdict = |value: &str| match value {
        "no" => Verdict::Ok,
        _ => Verdict::Warning,
    };
    setting(
        TRUNCATED,
        setup.aof_load_truncated.as_deref(),
        verdict,
        mend,
    )
}

fn eviction(setup: &Setup) -> Check {
    let limited = setup.maxmemory.as_deref().is_some_and(|limit| limit != "0");
    let verdict = |value: &str| match value {
        "noeviction" => Verdict::Ok,
        // Without a limit nothing is evicted, until somebody sets one.
        _ if limited => Verdict::Failed,
        _ => Verdict::Warning,
    };
    let mend = "set maxmemory-policy noeviction: a full Redis must refuse writes (the gateway then answers 503 and WeCom sends \
                again), not throw away locks and the memory of duplicates";
    setting(POLICY, setup.maxmemory_policy.as_deref(), verdict, mend)
}

fn memory(setup: &Setup) -> Check {
    let name = format!("redis {LIMIT}");
    let Some(limit) = setup.maxmemory.as_deref().map(str::parse::<u64>) else {
        return unknown(name);
    };
    let (used, host) = (setup.used_memory, setup.host_memory);
    let (verdict, found, mend) = match limit {
        Ok(0) => (
            Verdict::Warning,
            format!("no limit, {} in use", megabytes(used)),
            "when the host runs out of memory its kernel kills Redis, or something else: set maxmemory below what the host can \
             spare, at most half of it where Redis rewrites its file beside other programs; with noeviction a full Redis refuses \
             writes and goes on",
        ),
        Ok(limit) if used.saturating_mul(100) >= limit.saturating_mul(FULL_PERCENT) => (
            Verdict::Warning,
            format!("{} of {} in use", megabytes(used), megabytes(limit)),
            "little is left for a surge: see which key grows (redis-cli --bigkeys; an inbox that is not read is the usual one), \
             then raise maxmemory",
        ),
        Ok(limit) if host > 0 && limit > host => (
            Verdict::Warning,
            format!("{}, the host has {}", megabytes(limit), megabytes(host)),
            "the limit is above what the host has, so it is none: set it below",
        ),
        Ok(limit) => (
            Verdict::Ok,
            format!("{} of {} in use", megabytes(used), megabytes(limit)),
            "",
        ),
        Err(_) => return unknown(name),
    };
    Check::new(name, verdict, found, mend)
}

fn setting(
    name: &str,
    value: Option<&str>,
    verdict: impl Fn(&str) -> Verdict,
    mend: &str,
) -> Check {
    let name = format!("redis {name}");
    match value {
        Some(value) => Check::new(name, verdict(value), value, mend),
        None => unknown(name),
    }
}

fn unknown(name: String) -> Check {
    let mend = "CONFIG GET is refused or does not know it; check it by hand";
    Check::new(name, Verdict::Warning, "cannot be read", mend)
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn good() -> Setup {
        Setup {
            version: "7.2.4".into(),
            appendonly: true,
            used_memory: 500_000_000,
            host_memory: 8_000_000_000,
            appendfsync: Some("always".into()),
            aof_load_truncated: Some("no".into()),
            maxmemory_policy: Some("noeviction".into()),
            maxmemory: Some("2000000000".into()),
        }
    }

    #[test]
    fn a_good_setup_has_nothing_to_mend() {
        for check in judge(&good()) {
            assert_eq!(
                (check.verdict, check.mend.as_str()),
                (Verdict::Ok, ""),
                "{}",
                check.name
            );
        }
    }

    #[rstest]
    #[case::old("redis version", Verdict::Failed, |s: &mut Setup| s.version = "6.2.14".into())]
    #[case::no_version("redis version", Verdict::Failed, |s: &mut Setup| s.version = String::new())]
    #[case::no_file("redis AOF", Verdict::Failed, |s: &mut Setup| s.appendonly = false)]
    #[case::a_second("redis appendfsync", Verdict::Warning, |s: &mut Setup| s.appendfsync = Some("everysec".into()))]
    #[case::half_a_minute("redis appendfsync", Verdict::Failed, |s: &mut Setup| s.appendfsync = Some("no".into()))]
    #[case::half_a_call("redis aof-load-truncated", Verdict::Warning, |s: &mut Setup| s.aof_load_truncated = Some("yes".into()))]
    #[case::evicts("redis maxmemory-policy", Verdict::Failed, |s: &mut Setup| s.maxmemory_policy = Some("volatile-lru".into()))]
    #[case::full("redis maxmemory", Verdict::Warning, |s: &mut Setup| s.used_memory = 1_600_000_000)]
    #[case::too_much("redis maxmemory", Verdict::Warning, |s: &mut Setup| s.maxmemory = Some("9000000000".into()))]
    #[case::no_limit("redis maxmemory", Verdict::Warning, |s: &mut Setup| s.maxmemory = Some("0".into()))]
    #[case::hidden("redis maxmemory", Verdict::Warning, |s: &mut Setup| s.maxmemory = None)]
    #[case::hidden_too("redis aof-load-truncated", Verdict::Warning, |s: &mut Setup| s.aof_load_truncated = None)]
    fn each_fault_is_named_alone_and_says_how_to_mend_it(
        #[case] name: &str,
        #[case] verdict: Verdict,
        #[case] break_it: fn(&mut Setup),
    ) {
        let mut setup = good();
        break_it(&mut setup);
        let mut found = judge(&setup);
        found.retain(|check| check.verdict != Verdict::Ok);
        let [check] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((check.name.as_str(), check.verdict), (name, verdict));
        assert!(!check.mend.is_empty());
    }

    /// Nothing is evicted as long as there is no limit.
    #[test]
    fn an_evicting_policy_without_a_limit_is_a_warning() {
        let mut setup = good();
        setup.maxmemory_policy = Some("allkeys-lru".into());
        setup.maxmemory = Some("0".into());
        let check = eviction(&setup);
        assert_eq!(check.verdict, Verdict::Warning, "{check:?}");
    }

    /// The names are those that a server knows, and what is set there is what is found.
    #[tokio::test]
    async fn a_real_server_is_asked() {
        let server = test_redis::Server::start(test_redis::Options {
            appendonly: test_redis::AppendOnly::EverySec,
            maxmemory: Some("100mb".into()),
            ..test_redis::Options::default()
        });
        let config = inbox::connect::Config::single(&server.url());
        let redis = inbox::connect::connect(&config).await.unwrap();
        server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        let found = ask(&redis).await.unwrap();
        assert!(
            found.appendonly && found.used_memory > 0 && found.host_memory > 0,
            "{found:?}"
        );
        assert_eq!(found.version.split('.').count(), 3, "{found:?}");
        let settings = [
            &found.appendfsync,
            &found.aof_load_truncated,
            &found.maxmemory_policy,
            &found.maxmemory,
        ];
        let settings = settings.map(|setting| setting.as_deref().unwrap());
        assert_eq!(settings, ["everysec", "yes", "allkeys-lru", "104857600"]);
        server.kill();
        let checks = checks(&redis).await;
        assert_eq!((checks.len(), checks[0].verdict), (1, Verdict::Failed));
    }
}
