//! The keys of this crate. The scripts derive all of them from `KEYS[1]`, the log.
//!
//! | key | type | what |
//! |---|---|---|
//! | `ready` | string | generation of the state, as text; absent: closed |
//! | `rebuilding` | string | generation of the rebuild under way |
//! | `log` | stream | one entry `<seq>-0` for each operation |
//! | `corp` | packed | sequence number, time of the last operation, earliest lease end, turn counter |
//! | `leases` | zset | member → end of his presence lease |
//! | `member:<m>` | packed | load, turn of the last pick, cap, lease, eligible, pools with weight and credit |
//! | `pool:<p>` | packed | strategy, fairness clock, weight sum, length of the waiting list, classes |
//! | `config:<p>` | text | version and configuration |
//! | `class:<l>:<p>` | zset | eligible members of one weight (`a` the largest), score = picks |
//! | `least:<p>` | zset | eligible members, score = load / weight |
//! | `waiting:<p>` | zset | waiting subjects, score = turn |
//! | `gate:<c>`, `gates` | packed, zset | what a channel with limits gave; channels that gave what they may → until when |
//! | `gated:<c>` | zset | queues of those who came through such a channel |
//! | `open:<subject>` | text | open and waiting allocations of a subject |
//! | `request:<id>` | text | a remembered answer, 24 h |
//! | `gpool:<p>`, `groups:<p>` | text, zset | a group pool, its groups |
//! | `gfree:<p>`, `gfree:<p>`+tag | zset | groups that have room, the next one first |
//! | `group:<c>`, `people:<c>` | text, hash | a customer group, who is in it |
//! | `seat:<campaign>`+subject | text | a visitor's seat |
//! | `gheld:<c>`, `ganon:<c>`, `ganon:<c>`+way | zset | held seats of a group, those that nothing names |
//! | `gwait:<p>`+tags, `gqueues:<p>` | zset | who waits for a seat, which queues there are |
//! | `gends`, `gpast` | zset | ends of held seats; of waiting places and memories |

use allocation::CorpId;

#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
    log: String,
}

impl Keys {
    pub(crate) fn new(corp: &CorpId) -> Self {
        let prefix = format!("{{{corp}}}:v1:");
        let log = format!("{prefix}log");
        Self { prefix, log }
    }

    pub(crate) fn log(&self) -> &str {
        &self.log
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}
