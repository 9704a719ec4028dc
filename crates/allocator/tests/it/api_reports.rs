//! Fairness over a span of time, through the API and on the command line: from the ledger's log alone.

use std::process::{Command, Output};

use ledger::Role;
use serde_json::{Value, json};

use crate::api_support::World;

/// A span of time that all of a test is in.
const YEARS: &str = "from=2020-01-01T00:00:00Z&to=2020-03-01T00:00:00Z";

/// mA and mB share eight customers 3:1; mB is away for the last two of ten.
async fn ten_customers(world: &World) -> crate::api_support::Console {
    let console = world.operator().await;
    let members = [("mA", 3.0), ("mB", 1.0)];
    world.pool(&console, "p1", &members).await;
    for n in 0..8 {
        console.ask("p1", &format!("wm{n}")).await;
    }
    let off = json!({"members": [{"member": "mB", "online": false}]});
    console.put("/presence", off).await.ok();
    for n in 8..10 {
        console.ask("p1", &format!("wm{n}")).await;
    }
    world.written().await;
    console
}

/// Puts the log into two days of 2020: all but the last two decisions on January 5th in Shanghai, a Sunday.
async fn two_days(world: &World) {
    let sql = "UPDATE log SET at_ms = CASE WHEN seq > (SELECT max(seq) - 2 FROM log)
        THEN 1578240000000 ELSE 1578225600000 END + seq";
    sqlx::raw_sql(sql)
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
}

#[tokio::test]
async fn members_are_compared_with_their_entitlement() {
    let world = World::new().await;
    ten_customers(&world).await;
    let viewer = world.console(Role::Viewer).await;
    let found = viewer
        .get("/reports/fairness?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z")
        .await
        .ok();
    assert_eq!(found["data"], json!([]), "nothing was decided then");

    let now_ms = world.app().now_ms();
    let day = |ms: u64| {
        let at = time::OffsetDateTime::from_unix_timestamp((ms / 1000) as i64).unwrap();
        at.format(&time::format_description::well_known::Rfc3339)
            .unwrap()
    };
    let span = format!(
        "from={}&to={}",
        day(now_ms - 86_400_000),
        day(now_ms + 86_400_000)
    );
    let found = viewer.get(&format!("/reports/fairness?{span}")).await.ok();
    let [pool] = &found["data"].as_array().unwrap()[..] else {
        panic!("{found}")
    };
    assert_eq!(
        (&pool["pool"], &pool["decisions"]),
        (&json!("p1"), &json!(10))
    );
    assert_eq!(
        (&pool["gini"], &pool["jain"]),
        (&json!(0.0), &json!(1.0)),
        "everybody got what was his"
    );
    let numbers = |member: &Value| {
        let fields = ["member", "count", "entitlement", "variance", "share"];
        fields.map(|field| member[field].clone())
    };
    let members = pool["members"].as_array().unwrap();
    let expected = [json!("mA"), json!(8), json!(8.0), json!(0.0), json!(0.8)];
    assert_eq!(numbers(&members[0]), expected);
    let expected = [json!("mB"), json!(2), json!(2.0), json!(0.0), json!(0.2)];
    assert_eq!(numbers(&members[1]), expected);
    // Without a span it is the last week, and for one member the last day.
    let usual = viewer.get("/reports/fairness").await.ok();
    assert_eq!(usual["data"][0]["members"], pool["members"]);
    let usual = viewer.get("/members/mB/shortfall").await.ok();
    assert_eq!(usual["pools"][0]["got"], 2);
    let other = viewer
        .get(&format!("/reports/fairness?{span}&pool=p2"))
        .await;
    assert_eq!(other.ok()["data"], json!([]));

    let found = viewer
        .get(&format!("/members/MB/shortfall?{span}&pool=p1"))
        .await
        .ok();
    assert_eq!(found["member"], "mB");
    let [pool] = &found["pools"].as_array().unwrap()[..] else {
        panic!("{found}")
    };
    let numbers = ["decisions", "eligible", "got", "entitlement"].map(|field| pool[field].clone());
    assert_eq!(numbers, [json!(10), json!(8), json!(2), json!(2.0)]);
    assert_eq!(pool["kept_out"], json!({"away": 2}));
    assert_eq!(pool["more_spans"], false);
    assert_eq!(pool["spans"][0]["reason"], "away");
}

#[tokio::test]
async fn days_are_those_of_the_zone_and_a_spreadsheet_can_read_it() {
    let world = World::new().await;
    let console = ten_customers(&world).await;
    two_days(&world).await;
    let report = |rest: &str| format!("/reports/fairness?{YEARS}&{rest}");
    for (rest, decisions, last_from) in [
        ("", vec![10], "2020-01-01T00:00:00.000Z"),
        ("by=day", vec![10], "2020-01-05T00:00:00.000Z"),
        (
            "by=day&zone=Asia/Shanghai",
            vec![8, 2],
            "2020-01-05T16:00:00.000Z",
        ),
        (
            "by=week&zone=Asia/Shanghai",
            vec![8, 2],
            "2020-01-05T16:00:00.000Z",
        ),
        ("by=week", vec![10], "2020-01-01T00:00:00.000Z"),
    ] {
        let path = report(rest).trim_end_matches('&').to_owned();
        let found = console.get(&path).await.ok();
        let data = found["data"].as_array().unwrap();
        let counts: Vec<_> = data.iter().map(|span| span["decisions"].as_u64()).collect();
        let expected: Vec<_> = decisions.into_iter().map(Some).collect();
        assert_eq!(counts, expected, "{rest}");
        assert_eq!(data.last().unwrap()["from"], last_from, "{rest}");
    }
    let lines = [
        "from,to,pool,member,count,entitlement,variance,share,received,reassigned,expired_holds,closed_early,\
         pool_decisions,pool_gini,pool_jain,pool_largest_deviation,offered,declined,reclaimed,failed,answered,\
         first_response_p50_seconds,first_response_p95_seconds,load,load_ratio",
        "2020-01-04T16:00:00.000Z,2020-01-05T16:00:00.000Z,p1,mA,6,6,0,0.75,0,0,0,0,8,0,1,0,0,0,0,0,,,,8,",
        "2020-01-04T16:00:00.000Z,2020-01-05T16:00:00.000Z,p1,mB,2,2,0,0.25,0,0,0,0,8,0,1,0,0,0,0,0,,,,2,",
        "2020-01-05T16:00:00.000Z,2020-01-06T16:00:00.000Z,p1,mA,2,2,0,1,0,0,0,0,2,0,1,0,0,0,0,0,,,,8,",
        "",
    ];
    let by_day = report("by=day&zone=Asia/Shanghai");
    let asked = console.get(&format!("{by_day}&format=csv")).await;
    asked.ok_text(&lines.join("\r\n"));
    let http = &console.http;
    let key = console.key.clone().unwrap();
    let accepted = http.get(format!("{}{by_day}", console.base));
    let accepted = accepted.bearer_auth(key).header("accept", "text/csv");
    crate::api_support::answer(accepted)
        .await
        .ok_text(&lines.join("\r\n"));
}

impl crate::api_support::Answer {
    fn ok_text(&self, expected: &str) {
        assert!(self.status.is_success(), "{}", self.text);
        assert_eq!(self.header("content-type"), "text/csv; charset=utf-8");
        assert_eq!(self.text, expected);
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_told() {
    let world = World::new().await;
    let console = ten_customers(&world).await;
    for (path, pointer) in [
        ("/reports/fairness?from=yesterday", "query:from"),
        (
            "/reports/fairness?from=2020-03-01T00:00:00Z&to=2020-03-01T00:00:00Z",
            "query:to",
        ),
        (
            "/reports/fairness?from=2020-01-01T00:00:00Z&to=2020-06-01T00:00:00Z",
            "query:to",
        ),
        (
            "/reports/fairness?from=2020-01-01T00:00:00Z&to=2020-03-01T00:00:00Z&zone=Moon",
            "query:zone",
        ),
        (
            "/reports/fairness?from=2020-01-01T00:00:00Z&to=2020-03-01T00:00:00Z&pool=%20",
            "query:pool",
        ),
        (
            "/members/mA/shortfall?from=2020-01-01T00:00:00Z&to=2020-01-09T00:00:00Z",
            "query:to",
        ),
    ] {
        assert_eq!(console.get(path).await.pointers(), [pointer], "{path}");
    }
    let week = "from=2020-01-01T00:00:00Z&to=2020-01-08T00:00:00Z";
    let nobody = console.get(&format!("/members/mZ/shortfall?{week}")).await;
    assert_eq!(nobody.refused().0, 404);
    two_days(&world).await;
    sqlx::raw_sql("DELETE FROM log WHERE seq = 3")
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
    for path in [
        format!("/reports/fairness?{YEARS}"),
        format!("/members/mA/shortfall?{week}"),
    ] {
        let refused = console.get(&path).await.refused();
        assert_eq!(refused, (409, "log_incomplete".to_owned()));
    }
}

fn replay(world: &World, args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_allocator"))
        .args(["replay", "--corp", world.corp.as_str()])
        .args(args)
        .env("PAIDAN_POSTGRES_URL", world.database.url())
        .output();
    output.unwrap()
}

#[tokio::test]
async fn the_rules_give_what_the_log_has() {
    let world = World::new().await;
    let console = ten_customers(&world).await;
    two_days(&world).await;
    let told = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let whole = replay(&world, &[]);
    let n_entries: i64 = sqlx::query_scalar("SELECT count(*) FROM log")
        .fetch_one(&mut world.database.connect().await)
        .await
        .unwrap();
    let expected = format!(
        "{}: {n_entries} entries from 1 on folded again, 0 differences",
        world.corp
    );
    assert!(told(&whole).starts_with(&expected), "{whole:?}");
    assert!(whole.status.success(), "{whole:?}");
    let part = replay(&world, &["--to", "2020-01-05T16:00:00Z"]);
    let expected = format!("{}: {} entries from 1 on", world.corp, n_entries - 2);
    assert!(told(&part).starts_with(&expected), "{part:?}");

    // Somebody wrote into the log that the last customer had to wait.
    let spoil = "UPDATE log SET result = regexp_replace(result, 'ASSIGNED(.*)ma$', 'WAITING\\1')
        WHERE seq = (SELECT max(seq) FROM log WHERE op = 'decide.1')";
    sqlx::raw_sql(spoil)
        .execute(&mut world.database.connect().await)
        .await
        .unwrap();
    let spoilt = replay(&world, &[]);
    assert!(!spoilt.status.success());
    assert!(told(&spoilt).contains("the rules give"), "{spoilt:?}");
    assert!(told(&spoilt).contains(", 1 differences"), "{spoilt:?}");
    let stranger = replay(&world, &["--from", "yesterday"]);
    assert!(!stranger.status.success());
    drop(console);
}

/// How soon members answered, as it was reported: the earliest of several reports counts.
#[tokio::test]
async fn first_answers_are_reported_and_told() {
    let world = World::new().await;
    let console = world.operator().await;
    world.pool(&console, "p1", &[("mA", 1.0)]).await;
    let capped = json!({"cap": 10});
    console.put("/members/mA", capped).await.ok();
    let mut ids = Vec::new();
    for n in 0..3 {
        let asked = console.ask("p1", &format!("wm{n}")).await;
        ids.push(asked["allocation_id"].as_str().unwrap().to_owned());
    }
    world.written().await;
    let row = console.get(&format!("/allocations/{}", ids[0])).await.ok();
    let decided = row["decided_at"].as_str().unwrap().to_owned();
    let format = &time::format_description::well_known::Rfc3339;
    let decided = time::OffsetDateTime::parse(&decided, format).unwrap();
    let after = |seconds: i64| {
        let at = decided + time::Duration::seconds(seconds);
        at.format(format).unwrap()
    };
    let path = |id: &str| format!("/allocations/{id}/first-response");
    for seconds in [50, 20, 40] {
        let told = console
            .post(&path(&ids[0]), json!({"at": after(seconds)}))
            .await;
        assert_eq!(told.ok()["allocation_id"], ids[0].as_str());
    }
    console
        .post(&path(&ids[1]), json!({"at": after(30)}))
        .await
        .ok();
    // Before it was decided, in the future, of nobody's.
    let early = console
        .post(&path(&ids[2]), json!({"at": after(-3600)}))
        .await;
    assert_eq!(early.pointers(), ["/at"]);
    let late = console
        .post(&path(&ids[2]), json!({"at": after(7200)}))
        .await;
    assert_eq!(late.pointers(), ["/at"]);
    let unknown = path("0190b5a2-0000-7000-8000-000000000000");
    assert_eq!(console.post(&unknown, json!({})).await.status, 404);
    let viewer = world.console(Role::Viewer).await;
    assert_eq!(viewer.post(&path(&ids[2]), json!({})).await.status, 403);

    let span = format!("from={}&to={}", after(-3600), after(3600));
    let span = span.replace('+', "%2B");
    let report = viewer.get(&format!("/reports/fairness?{span}")).await.ok();
    let pool = &report["data"][0];
    let times = &pool["first_response"];
    assert_eq!(times["answered"], 2);
    for (field, seconds) in [("p50_seconds", 25.0), ("p95_seconds", 29.5)] {
        let told = times[field].as_f64().unwrap();
        assert!((told - seconds).abs() < 2.0, "{times}");
    }
    assert_eq!(pool["members"][0]["first_response"]["answered"], 2);
    assert_eq!(pool["members"][0]["load_ratio"], 0.3);
    assert_eq!(pool["members"][0]["decline_rate"], json!(null));
    let gauges = viewer
        .get(&format!("/reports/fairness?{span}&format=prometheus"))
        .await;
    let text = gauges.text;
    assert!(
        text.contains("paidan_report_member_load_ratio{") && text.contains("} 0.3\n"),
        "{text}"
    );
    let cut = viewer
        .get(&format!(
            "/reports/fairness?{span}&format=prometheus&by=day"
        ))
        .await;
    assert_eq!(cut.pointers(), ["query:by"]);
}
