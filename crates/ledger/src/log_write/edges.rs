//! Whom inviters brought into groups: follows from who came into groups and who left them, in the transaction that writes that.
//! So a crash loses none and makes none twice, and of two who bring each other the one who came second does not count.
//!
//! There is one edge for each campaign and person, whatever he does. Whoever left and is back soon never left (he was moved, or a
//! read was late); later he earns nothing more. Nobody is taken for gone whose group is none of ours any more, nor while he is in
//! another group of the campaign's pool.

mod book;
mod read;
mod save;

use std::collections::{BTreeMap, BTreeSet};

use allocation::{ChatId, CorpId, PersonKey, SeatId, Via};

use crate::Error;
use crate::change::{PeopleChange, Who};
use crate::connection::Work;
use crate::fission::INVITER_STATE;
use crate::seats::CameAs;

/// What a batch does to those who may have been brought by somebody.
#[derive(Debug, Default)]
pub(super) struct FoldedEdges<'b> {
    steps: Vec<Step<'b>>,
    /// Groups that were none of ours any more: nobody left them.
    gone: BTreeSet<&'b ChatId>,
    /// Rows are brought to what Redis has: whoever comes so was there all the time.
    pub(super) is_mend: bool,
}

#[derive(Debug)]
struct Step<'b> {
    seq: u64,
    at_ms: u64,
    chat: &'b ChatId,
    person: PersonKey,
    what: What<'b>,
}

#[derive(Debug)]
enum What<'b> {
    Left,
    Came {
        seat: Option<SeatId>,
        /// State of an inviter's way, of somebody whom no seat explains.
        via: Option<&'b Via>,
        who: Option<&'b Who>,
    },
}

/// What became of edges, and goals that were reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgesWritten {
    /// By state and reason ("" where there is none).
    pub states: BTreeMap<(&'static str, &'static str), u64>,
    pub goals: u64,
    /// Something is to be done outside.
    pub effects: u64,
}

impl<'b> FoldedEdges<'b> {
    pub(super) fn add(&mut self, seq: u64, at_ms: u64, change: &'b PeopleChange) {
        let mut step = |chat, person, what| {
            self.steps.push(Step {
                seq,
                at_ms,
                chat,
                person,
                what,
            });
        };
        match change {
            PeopleChange::Left { chat, person } => step(chat, *person, What::Left),
            PeopleChange::Joined {
                chat,
                person,
                came,
                via,
                who,
                ..
            } => {
                let via = via.as_ref().filter(|via| {
                    *came == Some(CameAs::Direct) && via.as_str().starts_with(INVITER_STATE)
                });
                let what = What::Came {
                    seat: came.and_then(CameAs::seat),
                    via,
                    who: who.as_ref(),
                };
                step(chat, *person, what);
            }
            PeopleChange::Corrected { chat, person, came } => {
                let seat = came.and_then(CameAs::seat);
                let (via, who) = (None, None);
                step(chat, *person, What::Came { seat, via, who });
            }
            PeopleChange::Gone { chat } => {
                self.gone.insert(chat);
            }
            PeopleChange::Counted(_) => {}
        }
    }
}

/// After seats and people.
pub(super) async fn write(
    work: &mut Work,
    corp: &CorpId,
    folded: &FoldedEdges<'_>,
) -> Result<EdgesWritten, Error> {
    if folded.steps.is_empty() {
        return Ok(EdgesWritten::default());
    }
    let tagged = save::tags(work, corp, folded).await?;
    let Some(mut book) = read::book(work, corp, folded).await? else {
        return Ok(EdgesWritten {
            effects: tagged,
            ..EdgesWritten::default()
        });
    };
    for step in &folded.steps {
        book.step(step, folded);
    }
    let mut written = save::save(work, corp, book).await?;
    written.effects += tagged;
    Ok(written)
}
