//! Ctrl-C and SIGTERM: the first asks for an end in order and says so at once, the second ends everything that was
//! started without waiting. Children are in groups of their own ([`process`]), so that only we hear of
//! it and end them in the order that suits them.

use std::process::ExitCode;
use std::sync::{LazyLock, OnceLock};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::process;
use crate::progress::say;

static ASKED_BY: OnceLock<Asker> = OnceLock::new();
static ASKED: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    CtrlC,
    Terminate,
}

impl Asker {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Asker::CtrlC => "Ctrl-C",
            Asker::Terminate => "SIGTERM",
        }
    }

    /// As a shell reports a program that the signal ended.
    fn status(self) -> u8 {
        match self {
            Asker::CtrlC => 130,
            Asker::Terminate => 143,
        }
    }

    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(self.status())
    }
}

/// From here on signals are heard. `waits_for` is told with the first of them.
pub(crate) fn watch(waits_for: &'static str) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        )
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            let first = next(&mut interrupt, &mut terminate).await;
            // First of all, so that nobody draws over what is said now.
            ASKED_BY.set(first).ok();
            say(
                "Ending",
                &format!("by {}: {waits_for}; once more ends at once", first.name()),
            );
            ASKED.cancel();
            let second = next(&mut interrupt, &mut terminate).await;
            say("Ending", "at once");
            process::kill_all();
            std::process::exit(i32::from(second.status()));
        });
    });
    Ok(())
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> Asker {
    tokio::select! {
        _ = interrupt.recv() => Asker::CtrlC,
        _ = terminate.recv() => Asker::Terminate,
    }
}

/// Who asked us to end, if anybody did.
pub(crate) fn asked() -> Option<Asker> {
    ASKED_BY.get().copied()
}

/// For work that does not wait for [`wait`]: an error once we are to end.
pub(crate) fn check() -> anyhow::Result<()> {
    match asked() {
        None => Ok(()),
        Some(asker) => anyhow::bail!("ended by {}", asker.name()),
    }
}

/// Waits until somebody asks us to end.
pub(crate) async fn wait() {
    ASKED.cancelled().await;
}
