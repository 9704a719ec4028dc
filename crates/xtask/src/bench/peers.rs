//! Other servers of callbacks, written as one writes them with the libraries at hand: verify, decrypt, `XADD`, 200.
//!
//! - **P7-…** the gateway's callbacks a second ÷ theirs, 64 connections, Redis `everysec`, the same requests: Go net/http
//!   with silenceper/wechat and redigo, Node's http and express with @wecom/crypto and ioredis, FastAPI with wechatpy and
//!   redis-py (one worker and two).
//!
//! Their sources are in `peers/`. What they need is installed into `.paidan/bench-peers` when this group is asked for by
//! name, as far as node, python3 and go are there; without a name only what is installed already is measured.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

use super::callbacks::{AES_KEY, CORP, Connections, Requests, TOKEN};
use super::load;
use super::row::Sample;
use super::servers::{Ready, Server};
use super::store::{Fsync, Store};
use super::{Bench, Group, Samples, runtime};
use crate::process::find;
use crate::progress::say;
use crate::root;
use crate::services::Keep;

const CONNECTIONS: usize = 64;
/// What was installed is written here, last.
const STAMP: &str = "installed";

/// Name, contents.
type Source = (&'static str, &'static str);

const NODE: [Source; 3] = [
    ("package.json", include_str!("peers/package.json")),
    ("node.mjs", include_str!("peers/node.mjs")),
    ("express.mjs", include_str!("peers/express.mjs")),
];
const PYTHON: [Source; 2] = [
    ("requirements.txt", include_str!("peers/requirements.txt")),
    ("fastapi_server.py", include_str!("peers/fastapi_server.py")),
];
const GO: [Source; 2] = [
    ("go.mod", include_str!("peers/go/go.mod")),
    ("main.go", include_str!("peers/go/main.go")),
];

/// A language, its sources, and how to make them run.
struct Kind {
    name: &'static str,
    program: &'static str,
    sources: &'static [Source],
    install: &'static [&'static [&'static str]],
    peers: &'static [Peer],
}

struct Peer {
    row: &'static str,
    command: &'static [&'static str],
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "node",
        program: "npm",
        sources: &NODE,
        install: &[&[
            "npm",
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ]],
        peers: &[
            Peer {
                row: "P7-node",
                command: &["node", "node.mjs"],
            },
            Peer {
                row: "P7-express",
                command: &["node", "express.mjs"],
            },
        ],
    },
    Kind {
        name: "python",
        program: "python3",
        sources: &PYTHON,
        install: &[
            &["python3", "-m", "venv", "--clear", "venv"],
            &[
                "venv/bin/python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--requirement",
                "requirements.txt",
            ],
        ],
        peers: &[
            Peer {
                row: "P7-fastapi-1",
                command: &[
                    "venv/bin/python",
                    "-m",
                    "uvicorn",
                    "fastapi_server:app",
                    "--workers",
                    "1",
                    "--host",
                    "{host}",
                    "--port",
                    "{port}",
                    "--no-access-log",
                ],
            },
            Peer {
                row: "P7-fastapi-2",
                command: &[
                    "venv/bin/python",
                    "-m",
                    "uvicorn",
                    "fastapi_server:app",
                    "--workers",
                    "2",
                    "--host",
                    "{host}",
                    "--port",
                    "{port}",
                    "--no-access-log",
                ],
            },
        ],
    },
    Kind {
        name: "go",
        program: "go",
        sources: &GO,
        install: &[&["go", "mod", "tidy"], &["go", "build", "-o", "peer", "."]],
        peers: &[Peer {
            row: "P7-go",
            command: &["./peer"],
        }],
    },
];

pub(super) fn run(bench: &Bench, named: bool, samples: &mut Samples) -> anyhow::Result<()> {
    let folder = root::folder("bench-peers")?;
    let mut peers = Vec::new();
    for kind in &KINDS {
        let inside = folder.join(kind.name);
        match installed(kind, &inside, named) {
            Ok(()) => peers.extend(kind.peers.iter().map(|peer| (peer, inside.clone()))),
            Err(why) => say("Left out", &format!("{}: {why:#}", kind.name)),
        }
    }
    if peers.is_empty() {
        return Ok(());
    }
    let mut store = Store::start(&bench.place.folder, Keep::Everything)?;
    store.fsync(Fsync::EverySecond)?;
    let gateway = Server::gateway(&bench.place, &store.url())?;
    let runtime = runtime()?;
    for round in 0..bench.rounds {
        let count = bench.size(20_000, 300);
        let ours = runtime.block_on(measure(&gateway, &mut store, count))?;
        for (peer, folder) in &peers {
            let server = start(bench, peer, folder, &store.url())?;
            // They are slower, and less is enough to see how much.
            let theirs = runtime.block_on(measure(&server, &mut store, count / 4))?;
            server.stop()?;
            samples.add(peer.row, Sample::ratio(ours, theirs));
        }
        samples.tell(Group::Peers, round, bench.rounds);
    }
    Ok(())
}

async fn measure(server: &Server, store: &mut Store, count: usize) -> anyhow::Result<f64> {
    store.empty()?;
    let warm = Requests::new(count / 4, Connections::Kept)?;
    load::kept(server.address, &warm, CONNECTIONS)
        .await?
        .all("warming up")?;
    let requests = Requests::new(count, Connections::Kept)?;
    let outcome = load::kept(server.address, &requests, CONNECTIONS)
        .await?
        .all("P7")?;
    Ok(outcome.per_second())
}

/// An error says why it is not.
fn installed(kind: &Kind, folder: &Path, install: bool) -> anyhow::Result<()> {
    anyhow::ensure!(
        find(kind.program).is_some(),
        "no {} on the search path",
        kind.program
    );
    let wanted: String = kind.sources.iter().map(|(_, text)| *text).collect();
    let stamp = folder.join(STAMP);
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    anyhow::ensure!(install, "not installed; cargo xtask bench peers does it");
    std::fs::create_dir_all(folder)?;
    for (name, text) in kind.sources {
        std::fs::write(folder.join(name), text)?;
    }
    say("Installing", kind.name);
    for words in kind.install {
        let (program, args) = words.split_first().context("no command")?;
        let mut command = Command::new("env");
        command.arg("-C").arg(folder).arg(program).args(args);
        let output = command.stdin(Stdio::null()).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{}: {errors}", words.join(" "));
    }
    std::fs::write(stamp, wanted)?;
    Ok(())
}

fn start(bench: &Bench, peer: &Peer, folder: &Path, redis_url: &str) -> anyhow::Result<Server> {
    Server::start(&bench.place, peer.row, Ready::Listens, |address, _| {
        let mut args = vec!["-C".to_owned(), folder.display().to_string()];
        args.extend([
            format!("PEERS={}", folder.display()),
            format!("TOKEN={TOKEN}"),
            format!("AES_KEY={AES_KEY}"),
            format!("CORP={CORP}"),
            format!("LISTEN={address}"),
            format!("REDIS={redis_url}"),
            "NODE_ENV=production".to_owned(),
        ]);
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        args.extend(peer.command.iter().map(|word| match *word {
            "{host}" => host.clone(),
            "{port}" => port.clone(),
            word => word.to_owned(),
        }));
        Ok(("env".into(), args))
    })
}
