//! `demo`: everything on one machine, driven by real sealed callbacks, watched live.

mod figures;
mod show;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use time::OffsetDateTime;

use crate::ending;
use crate::numbers::whole;
use crate::progress::{print, say};
use crate::prove::checks::{self, Invariant};
use crate::prove::surge;
use crate::stage::{Build, Stage, Wishes};
use figures::Figures;
use show::Live;

const MOST_CUSTOMERS: u64 = 1_000_000;
const MOST_SECONDS: u64 = 86_400;
/// How long the last figures may take once we are to end.
const LAST_LOOK: Duration = Duration::from_secs(5);

/// Start private stores, the fake WeCom, two gateways and two allocators; let a surge of customers come; watch.
///
/// Ends by itself with a summary; the exit status says whether every promise held. Ctrl-C ends everything in order at
/// any time, a second one at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Customers who scan the poster, at most a million.
    #[arg(long, default_value_t = 600, allow_negative_numbers = true, value_parser = whole(1, MOST_CUSTOMERS))]
    customers: u64,
    /// Over how many seconds they come, at most a day.
    #[arg(long, default_value_t = 20, allow_negative_numbers = true, value_parser = whole(1, MOST_SECONDS))]
    seconds: u64,
    /// Stay up afterwards, until Ctrl-C, and print where to look.
    #[arg(long)]
    keep: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    ending::watch("programs first, then the stores, then a summary")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(show(&args))
}

/// The promises, and what was there when they were checked.
struct Checked {
    invariants: Vec<Invariant>,
    figures: Figures,
    at: OffsetDateTime,
}

async fn show(args: &Args) -> anyhow::Result<ExitCode> {
    let started = tokio::task::block_in_place(|| Stage::start("demo", wishes(), Build::Debug, 1));
    let mut stage = match (started, ending::asked()) {
        (Ok(stage), _) => stage,
        (Err(_), Some(asker)) => {
            print(&show::verdict(None, Some(asker), 0, args.customers));
            return Ok(asker.exit_code());
        }
        (Err(error), None) => return Err(error),
    };
    let mut checked = None;
    let driven = tokio::select! {
        driven = drive(&stage, args, &mut checked) => driven,
        never = stage.keep_online() => match never {},
        never = stage.watch() => match never {},
        () = ending::wait() => Ok(()),
    };
    tokio::task::block_in_place(|| stage.end_programs());
    // Of a demo that stayed nothing later is shown: whoever tried it has changed the figures, and not the promises.
    let last = match &checked {
        Some(checked) => checked.figures.clone(),
        None => {
            let last = tokio::time::timeout(LAST_LOOK, Figures::read(&stage)).await;
            last.ok().and_then(Result::ok).unwrap_or_default()
        }
    };
    let members = stage.members.clone();
    let folder = stage.folder().to_owned();
    tokio::task::block_in_place(|| drop(stage));
    print("");
    if let (Some(checked), true) = (&checked, args.keep) {
        print(&show::as_checked(checked.at));
    }
    for line in show::table(&members, &last, args.customers) {
        print(&line);
    }
    say("Logs", &folder.display().to_string());
    driven?;
    let asker = ending::asked();
    let invariants = checked.map(|checked| checked.invariants);
    let line = show::verdict(invariants.as_deref(), asker, last.decided, args.customers);
    print(&line);
    Ok(match (invariants, asker) {
        (Some(all), _) if all.iter().all(|one| one.holds) => ExitCode::SUCCESS,
        (None, Some(asker)) => asker.exit_code(),
        _ => ExitCode::FAILURE,
    })
}

fn wishes() -> Wishes {
    Wishes {
        members: [("zhangsan", 4), ("lisi", 3), ("wangwu", 2), ("zhaoliu", 1)]
            .map(|(member, weight)| (member.to_owned(), weight))
            .to_vec(),
        // For those who try the REST API as the README shows it.
        others: ["XiaoMing", "LiHua", "WangFang"]
            .map(str::to_owned)
            .to_vec(),
        sim: "[callbacks]\nconnections = 64\nduplicate_rate = 0.2\nduplicate_copies = 3\n"
            .to_owned(),
        allocator: String::new(),
        gateways: 2,
        allocators: 2,
    }
}

/// The surge, and the promises at its end. With `--keep` it never returns.
async fn drive(stage: &Stage, args: &Args, checked: &mut Option<Checked>) -> anyhow::Result<()> {
    stage.prepare().await?;
    look_at(stage);
    stage
        .sim(
            "scan",
            &json!({"member": "desk", "state": "poster", "count": args.customers,
                "over_ms": args.seconds * 1000, "quiet": true}),
        )
        .await?;
    let begun = Instant::now();
    let limit = Duration::from_secs(args.seconds + 120);
    let mut live = Live::new();
    loop {
        let now = Figures::read(stage).await?;
        live.draw(&stage.members, &now, args.customers);
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
    surge::settle(stage).await?;
    let figures = Figures::read(stage).await?;
    live.draw(&stage.members, &figures, args.customers);
    let invariants = checks::all(stage, args.customers).await?;
    print("");
    let on_terminal = std::io::stdout().is_terminal();
    for one in &invariants {
        for line in show::promise(one, on_terminal) {
            print(&line);
        }
    }
    *checked = Some(Checked {
        invariants,
        figures,
        at: OffsetDateTime::now_utc(),
    });
    if args.keep {
        look_at(stage);
        for_the_shell(stage);
        say("Running", "until Ctrl-C");
        std::future::pending::<()>().await;
    }
    Ok(())
}

fn look_at(stage: &Stage) {
    print("");
    print(&format!("  REST API       {}/docs", stage.console()));
    print(&format!("  its key        {}", stage.key()));
    for (n, url) in stage.callback_urls().into_iter().enumerate() {
        let what = if n == 0 { "callbacks go" } else { "or" };
        print(&format!("  {what:<14} {url}"));
    }
    for (n, url) in stage.page_urls().into_iter().enumerate() {
        let what = if n == 0 { "public pages" } else { "or" };
        print(&format!("  {what:<14} {url}/c/<public_code>"));
    }
    print(&format!("  fake WeCom     {}/sim", stage.sim_url));
    print(&format!("  logs, config   {}", stage.folder().display()));
    print("");
}

/// The README's examples work as they are written where these were pasted.
fn for_the_shell(stage: &Stage) {
    print("For the examples of the README, in another shell:");
    print("");
    print(&format!("  console={}", stage.console()));
    print(&format!("  key={}", stage.key()));
    if let Some(url) = stage.callback_urls().first() {
        print(&format!("  gateway={url}"));
    }
    print(&format!("  sim={}/sim", stage.sim_url));
    print(&format!("  {}", stage.allocator_function()));
    print("");
}
