//! `demo`: everything on one machine, driven by real sealed callbacks, watched live.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::progress::{print, say};
use crate::prove::{checks, surge};
use crate::stage::{Stage, Wishes};

/// Start private stores, the fake WeCom, two gateways and two allocators; let a surge of customers come; watch.
///
/// Ends by itself with a summary; the exit status says whether every promise held. Ctrl-C ends everything at any time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Customers who scan the poster.
    #[arg(long, default_value_t = 600)]
    customers: u64,
    /// Over how many seconds they come.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Stay up afterwards, until Ctrl-C, and print where to look.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        args.customers > 0 && args.seconds > 0,
        "--customers and --seconds must be above 0"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        tokio::select! {
            shown = show(&args) => shown,
            _ = tokio::signal::ctrl_c() => {
                print("");
                say("Ending", "everything");
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

async fn show(args: &Args) -> anyhow::Result<ExitCode> {
    let wishes = Wishes {
        members: [("ZhangSan", 4), ("LiSi", 3), ("WangWu", 2), ("ZhaoLiu", 1)]
            .map(|(member, weight)| (member.to_lowercase(), weight))
            .to_vec(),
        sim: "[callbacks]\nconnections = 64\nduplicate_rate = 0.2\nduplicate_copies = 3\n"
            .to_owned(),
        allocator: String::new(),
        gateways: 2,
        allocators: 2,
    };
    let stage = tokio::task::block_in_place(|| Stage::start("demo", wishes, false, 1))?;
    stage.prepare().await?;
    look_at(&stage);
    stage
        .sim(
            "scan",
            &json!({"member": "desk", "state": "poster", "count": args.customers,
                "over_ms": args.seconds * 1000, "quiet": true}),
        )
        .await?;
    let begun = Instant::now();
    let limit = Duration::from_secs(args.seconds + 120);
    let mut live = Live::default();
    loop {
        let now = Figures::read(&stage).await?;
        live.draw(&stage, &now, args.customers);
        if now.decided >= args.customers {
            break;
        }
        anyhow::ensure!(
            begun.elapsed() < limit,
            "not all customers got somebody; logs are in {}",
            stage.folder().display()
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    surge::settle(&stage).await?;
    live.draw(&stage, &Figures::read(&stage).await?, args.customers);
    let invariants = checks::all(&stage, args.customers).await?;
    print("");
    for one in &invariants {
        let mark = if one.holds { "holds " } else { "BROKEN" };
        print(&format!(
            "{mark} {:<58} {:>7} checked  {}",
            one.name, one.checked, one.found
        ));
    }
    let passed = invariants.iter().all(|one| one.holds);
    if args.keep {
        look_at(&stage);
        say("Running", "until Ctrl-C");
        std::future::pending::<()>().await;
    }
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn look_at(stage: &Stage) {
    print("");
    print(&format!("  REST API       {}/docs", stage.console()));
    print(&format!("  its key        {}", stage.key()));
    print(&format!(
        "  callbacks go   {}",
        stage.callback_urls().join(", ")
    ));
    print(&format!("  fake WeCom     {}/sim", stage.sim_url));
    print(&format!("  logs, config   {}", stage.folder().display()));
    print("");
}

/// What is shown.
#[derive(Debug, Default)]
struct Figures {
    acknowledged: u64,
    deliveries: u64,
    decided: u64,
    done: u64,
    by_member: BTreeMap<String, u64>,
    /// From receipt to decision, milliseconds.
    p50_ms: f64,
    p99_ms: f64,
}

impl Figures {
    async fn read(stage: &Stage) -> anyhow::Result<Self> {
        let callbacks: Value = stage.sim_get("counters").await?["callbacks"].clone();
        let pool = stage.ledger.pool();
        let (deliveries, p50_ms, p99_ms): (i64, Option<f64>, Option<f64>) = sqlx::query_as(
            "SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY ms), percentile_cont(0.99) WITHIN GROUP (ORDER BY ms)
             FROM (SELECT extract(epoch FROM a.decided_at - d.received_at)::float8 * 1000 AS ms
                FROM deliveries AS d LEFT JOIN allocations AS a ON a.delivery = d.id) AS taken",
        )
        .fetch_one(pool)
        .await?;
        let done: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox WHERE state = 'done'")
            .fetch_one(pool)
            .await?;
        let by_member = stage
            .ledger
            .allocations()
            .open_by_member(&stage.corp)
            .await?;
        let by_member: BTreeMap<String, u64> = by_member
            .into_iter()
            .map(|(member, count)| (member.to_string(), count))
            .collect();
        Ok(Self {
            acknowledged: callbacks["acked"].as_u64().unwrap_or_default(),
            deliveries: u64::try_from(deliveries)?,
            decided: by_member.values().sum(),
            done: u64::try_from(done)?,
            by_member,
            p50_ms: p50_ms.unwrap_or_default(),
            p99_ms: p99_ms.unwrap_or_default(),
        })
    }
}

/// Draws over what it drew before, on a terminal; else one line a second.
#[derive(Debug, Default)]
struct Live {
    lines: usize,
    said: Option<Instant>,
}

impl Live {
    fn draw(&mut self, stage: &Stage, now: &Figures, customers: u64) {
        let mut lines = vec![format!(
            "callbacks acknowledged {:>6} · stored {:>6} · decided {:>6}/{customers} · effects done {:>6} · received → decided p50 {:.1} ms, p99 {:.1} ms",
            now.acknowledged, now.deliveries, now.decided, now.done, now.p50_ms, now.p99_ms
        )];
        if !std::io::stdout().is_terminal() {
            if self
                .said
                .is_none_or(|said| said.elapsed() >= Duration::from_secs(1))
                || now.decided >= customers
            {
                print(&lines[0]);
                self.said = Some(Instant::now());
            }
            return;
        }
        let weights: u32 = stage.members.iter().map(|(_, weight)| weight).sum();
        for (member, weight) in &stage.members {
            let got = now.by_member.get(member).copied().unwrap_or_default();
            let share = now.decided as f64 * f64::from(*weight) / f64::from(weights);
            let width = usize::try_from(got * 40 / customers.max(1)).unwrap_or_default();
            lines.push(format!(
                "  {member:<10} weight {weight}  has {got:>5}  share {share:>8.2}  distance {:>6.2}  {}",
                got as f64 - share,
                "█".repeat(width)
            ));
        }
        let mut out = std::io::stdout().lock();
        let mut text = String::new();
        if self.lines > 0 {
            text.push_str(&format!("\x1b[{}A", self.lines));
        }
        for line in &lines {
            text.push_str(&format!("\x1b[2K{line}\n"));
        }
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .ok();
        self.lines = lines.len();
    }
}
