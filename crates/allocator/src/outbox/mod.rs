//! Runs effects: claims rows that are due, calls WeCom within the quota, writes what came of it. A row is sent only
//! after `begin` said it is still ours, and ended only by the attempt that holds it.
//!
//! Each kind has a lane of its own, so that a slow transfer never keeps a welcome waiting. When the budget lets nothing
//! go, the lane waits: rows go back in one write and keep their place in the queue.
//!
//! | kind | after a time-out |
//! |---|---|
//! | welcome | never repeated |
//! | transfer | looked up with `transfer_result`, then only what is missing is sent again |
//! | member_card, goal_message | sent again: identical JSON, WeCom's duplicate check |
//! | tag | put on again: it is there once |
//! | event | sent again with the same id, which tells whoever hears it |

mod card;
pub mod event;
mod hands;
mod lane;
mod reward;
mod transfer;
mod transfer_answer;
mod transfer_unknown;
mod verdict;
mod welcome;

pub(crate) use card::enough;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::app::{App, CorpApp};

/// All lanes of one corp, until the program stops.
pub async fn run(app: Arc<App>, corp: Arc<CorpApp>, stop: CancellationToken) {
    tokio::join!(
        lane::run(&app, &corp, &stop, lane::Lane::Welcome),
        lane::run(&app, &corp, &stop, lane::Lane::Transfer),
        lane::run(&app, &corp, &stop, lane::Lane::Card),
        lane::run(&app, &corp, &stop, lane::Lane::Tag),
        lane::run(&app, &corp, &stop, lane::Lane::GoalMessage),
        event::run(&app, &corp, &stop),
        lane::reap(&app, &corp, &stop),
    );
}
