//! The whole path on one screen. For every corp, in every allocator:
//!
//! | loop | takes → gives | what makes it safe |
//! |---|---|---|
//! | [`record`] | delivery → row | acknowledged after the commit; writing twice is writing once |
//! | [`decide`] | delivery → request → decision, in one script call a batch | acknowledged after the script; one open allocation per subject and pool |
//! | [`writer`] | log → rows and effects, one transaction | the place in the log is in the row that the writer holds |
//! | [`outbox`] | effect → WeCom → outcome | lease, fence, budget; unknown outcomes by kind |
//! | [`handover`] | transfer → `transfer_result` → settled | polled to an end; settling twice is settling once |
//! | [`reread`] | doubtful pair or member → what WeCom says now | durable marks; WeCom's state outranks events |
//! | [`audit`] | every member's customers, slowly → what events never said | within what the budget leaves |
//! | [`audit::seat_rows`] | rows of seats against Redis → mended rows | looked at twice, and mended while nobody writes the log |
//! | [`reception::tasks`] | waiting customers → free members; loads whose window passed, and what the ledger refused → closed | heals lost wake-ups and writers that died |
//! | [`reception::sweep`] | visits whose time is over → expired | an end is once, in one script call |
//! | [`reception::reclaim`] | offers whose time is over, or whose member has gone → the next member, or a person | an offer moves once, in one script call |
//! | [`reception::advance`] | plans of those who wait, when they go on → other pools, fewer skills, a person | a step opens once, in one script call |
//! | [`reception::drip`] | pools that hand out slowly, when the next is due → free members | the script holds the time |
//! | [`reception::alerts`] | who waits too long → figures, a warning | only reads |
//! | [`reception::slots`] | channels with a page → contact ways at WeCom → slots in the roster, pictures | the intent is written before the call; a lost answer is looked up |
//! | [`people`] | pools, members, channels → roster | versions compared; truth is Postgres |
//! | [`people::hours`] | schedules, leaves, what was said → presence | leases are short and end with the hours; sent twice is sent once |
//! | [`operations`](crate::api::work) | long work a console asked for → progress | lease and cursor; done again is done once |
//! | [`fission`](crate::api::work::run_imports) | groups that there are at WeCom → rows | in the order of their ids, from a cursor; known ones are only refreshed |
//! | [`fission::told`] | group pools, groups → roster | versions compared; truth is Postgres |
//! | [`fission::reader`] | groups in doubt, and slowly all → who is in them, and whose seats that were | durable marks; Redis takes it only if nothing changed meanwhile |
//! | [`fission::timers`] | seats and waiting places whose time is over → given back, once their group was read | an end names what it ends |
//! | [`fission::supply`] | pools that lack groups → groups out of stock, rooms that WeCom opens, people who make some | one process under a lease; rows carry its fence |
//! | [`fission::waiting`] | seats given to those whose requests wait → their answers | waited for with a bound |
//! | [`fission::inviters`] | those whom somebody brought → who stayed counts, goals → effects | counts, goals and effects are one transaction under the inviter's row |
//! | [`fission::join_ways`] | campaigns, groups → join ways at WeCom, pictures | the intent is written before the call; a lost answer is counted, and asked for once more |
//! | [`housekeeping`] | what is done with → away | only what both groups acknowledged, or what has an outcome |
//! | [`guard`] | whole or closed | generation and sequence number |
//!
//! All loops end when the token is cancelled, after the piece of work they hold.

use std::{future::Future, sync::Arc, time::Duration};

use allocation::CorpId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    api,
    app::{App, CorpApp},
    audit, decide, fission, guard, handover, housekeeping, outbox, people, reception, record,
    reread, writer,
};

/// Before a loop that broke is started again.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts every loop. A loop that panics is started again: one corp's surprise must not stop the others. A loop that
/// returns has nothing to do here (it is switched off) and stays ended.
pub fn start(app: &Arc<App>, stop: &CancellationToken) -> JoinSet<()> {
    let mut loops = JoinSet::new();
    for corp in app.corps.values() {
        keep(&mut loops, "guard", app, corp, stop, guard::run);
        keep(&mut loops, "record", app, corp, stop, record::run);
        keep(&mut loops, "decide", app, corp, stop, decide::run);
        keep(&mut loops, "writer", app, corp, stop, writer::run);
        keep(&mut loops, "outbox", app, corp, stop, outbox::run);
        keep(
            &mut loops,
            "handover",
            app,
            corp,
            stop,
            handover::tasks::run,
        );
        keep(&mut loops, "reread", app, corp, stop, reread::run);
        keep(&mut loops, "audit", app, corp, stop, audit::run);
        keep(
            &mut loops,
            "seat_rows",
            app,
            corp,
            stop,
            audit::seat_rows::run,
        );
        keep(
            &mut loops,
            "waiting",
            app,
            corp,
            stop,
            reception::tasks::run,
        );
        keep(&mut loops, "sweep", app, corp, stop, reception::sweep::run);
        keep(
            &mut loops,
            "reclaim",
            app,
            corp,
            stop,
            reception::reclaim::run,
        );
        keep(
            &mut loops,
            "advance",
            app,
            corp,
            stop,
            reception::advance::run,
        );
        keep(&mut loops, "drip", app, corp, stop, reception::drip::run);
        keep(
            &mut loops,
            "alerts",
            app,
            corp,
            stop,
            reception::alerts::run,
        );
        keep(&mut loops, "slots", app, corp, stop, reception::slots::run);
        keep(&mut loops, "people", app, corp, stop, people::run);
        keep(&mut loops, "hours", app, corp, stop, people::hours::run);
        keep(&mut loops, "operations", app, corp, stop, api::work::run);
        keep(
            &mut loops,
            "simulations",
            app,
            corp,
            stop,
            api::work::run_simulations,
        );
        keep(
            &mut loops,
            "group imports",
            app,
            corp,
            stop,
            api::work::run_imports,
        );
        keep(&mut loops, "groups", app, corp, stop, fission::told::run);
        keep(
            &mut loops,
            "group reads",
            app,
            corp,
            stop,
            fission::reader::run,
        );
        keep(&mut loops, "seats", app, corp, stop, fission::timers::run);
        keep(&mut loops, "supply", app, corp, stop, fission::supply::run);
        keep(
            &mut loops,
            "seat waiters",
            app,
            corp,
            stop,
            fission::waiting::run,
        );
        keep(
            &mut loops,
            "inviters",
            app,
            corp,
            stop,
            fission::inviters::run,
        );
        keep(
            &mut loops,
            "join ways",
            app,
            corp,
            stop,
            fission::join_ways::run,
        );
        keep(
            &mut loops,
            "housekeeping",
            app,
            corp,
            stop,
            housekeeping::run,
        );
    }
    loops
}

fn keep<F>(
    loops: &mut JoinSet<()>,
    name: &'static str,
    app: &Arc<App>,
    corp: &Arc<CorpApp>,
    stop: &CancellationToken,
    run: fn(Arc<App>, Arc<CorpApp>, CancellationToken) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (app, corp, stop) = (Arc::clone(app), Arc::clone(corp), stop.clone());
    loops.spawn(async move {
        let one = || run(Arc::clone(&app), Arc::clone(&corp), stop.clone());
        until_it_returns(name, &corp.id, &stop, PAUSE, one).await;
    });
}

async fn until_it_returns<F>(
    name: &'static str,
    corp: &CorpId,
    stop: &CancellationToken,
    pause: Duration,
    run: impl Fn() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    while !stop.is_cancelled() {
        let Err(error) = tokio::spawn(run()).await else {
            return;
        };
        metrics::counter!("paidan_loop_panics_total", "loop" => name).increment(1);
        tracing::error!(corp = %corp, r#loop = name, error = %error, "a loop broke and is started again");
        crate::backoff::sleep(pause, stop).await;
    }
}

/// Waits until all loops have ended.
pub async fn drained(mut loops: JoinSet<()>) {
    while loops.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    async fn started(breaks: usize) -> usize {
        let count = Arc::new(AtomicUsize::new(0));
        let corp = CorpId::new("ww1").expect("an id");
        let stop = CancellationToken::new();
        until_it_returns("test", &corp, &stop, Duration::ZERO, || {
            let count = Arc::clone(&count);
            async move { assert!(count.fetch_add(1, Relaxed) >= breaks, "broken on purpose") }
        })
        .await;
        count.load(Relaxed)
    }

    /// A loop that is switched off returns at once: starting it again and again would burn a core.
    #[tokio::test]
    async fn a_loop_that_returns_stays_ended() {
        assert_eq!(started(0).await, 1);
    }

    #[tokio::test]
    async fn a_loop_that_breaks_is_started_again() {
        assert_eq!(started(2).await, 3);
    }
}
