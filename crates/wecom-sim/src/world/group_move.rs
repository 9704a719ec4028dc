//! Groups get another owner by API (api.md 6.4): at once in service, after a while when the owner has left.

use std::sync::Arc;

use crate::callback::ChatEvent;
use crate::config::Config;
use crate::random::For;

use super::World;
use super::corp::Corp;
use super::group::{Change, Group, Inheritance, Person};
use super::groups::add;
use super::member::Member;

const DAY_MS: i64 = 86_400_000;

/// One call.
pub(crate) struct GroupMove<'a> {
    pub(crate) new_owner: &'a Arc<Member>,
    /// Of owners who have left.
    pub(crate) resigned: bool,
    /// Whether the app sees this member.
    pub(crate) sees: &'a dyn Fn(&str) -> bool,
}

impl World {
    /// Moves one group: its code, 0 when that was accepted.
    pub(crate) fn move_group(
        self: &Arc<Self>,
        corp: &Arc<Corp>,
        call: &GroupMove<'_>,
        chat_id: &str,
        rules: &Config,
        now_ms: i64,
    ) -> i32 {
        let mut part = corp.groups.by_id.part(chat_id);
        let Some(group) = part.get_mut(chat_id) else {
            return 90501;
        };
        let code = check(group, call, rules, now_ms);
        if code != 0 {
            return code;
        }
        if !count(corp, &group.now().owner, rules, now_ms) {
            return rules.groups.moves_per_day_code;
        }
        if !call.resigned {
            group.moves_ms.push(now_ms);
        }
        let totals = &corp.groups.totals;
        add(&totals.moves_accepted, 1);
        let mut random = self.random(For::GroupMove, self.number());
        if random.chance(rules.groups.move_ignored_rate) {
            add(&totals.moves_ignored, 1);
            return 0;
        }
        if !call.resigned {
            let change = self.take_over(group, call.new_owner, None);
            drop(part);
            self.tell_of_owner(corp, call.new_owner, chat_id, change);
            return 0;
        }
        group.inheritance = Inheritance::Running;
        let chat_id = Arc::clone(&group.chat_id);
        drop(part);
        let (corp, heir) = (Arc::clone(corp), Arc::clone(call.new_owner));
        let inherit = move |world: &Arc<Self>| world.inherit(&corp, &chat_id, &heir);
        self.at(now_ms + rules.groups.inherit_ms, Box::new(inherit));
        0
    }

    /// An inheritance ends; the owner who left is no longer in the group.
    fn inherit(self: &Arc<Self>, corp: &Arc<Corp>, chat_id: &str, heir: &Arc<Member>) {
        let mut part = corp.groups.by_id.part(chat_id);
        let Some(group) = part.get_mut(chat_id).filter(|group| !group.now().dismissed) else {
            return;
        };
        group.inheritance = Inheritance::Done;
        let gone = Arc::clone(&group.now().owner.userid);
        let change = self.take_over(group, heir, Some(gone));
        drop(part);
        self.tell_of_owner(corp, heir, chat_id, change);
    }

    /// What an API brings about changes the list without an event of members.
    fn take_over(&self, group: &mut Group, heir: &Arc<Member>, gone: Option<Arc<str>>) -> bool {
        let now_ms = self.now_ms();
        if !group.now().has(&heir.userid) {
            let person = Arc::new(Person::employee(heir, None, now_ms));
            let change = Change::Join(vec![person], self.group_version());
            group.change(change, now_ms, self.group_lag_ms());
        }
        let changed = group.now().owner.key != heir.key;
        group.change(Change::Owner(Arc::clone(heir)), now_ms, self.group_lag_ms());
        if let Some(gone) = gone.filter(|gone| *gone != heir.userid) {
            let change = Change::Leave(vec![gone], self.group_version());
            group.change(change, now_ms, self.group_lag_ms());
        }
        changed
    }

    fn tell_of_owner(
        self: &Arc<Self>,
        corp: &Arc<Corp>,
        owner: &Member,
        chat_id: &str,
        changed: bool,
    ) {
        if changed && self.rules.get().groups.move_events {
            self.emit_chat(corp, owner, chat_id, &ChatEvent::Detail("change_owner"));
        }
    }
}

/// WeCom's order is not known.
fn check(group: &Group, call: &GroupMove<'_>, rules: &Config, now_ms: i64) -> i32 {
    let (book, groups) = (group.now(), &rules.groups);
    let owner = &book.owner;
    if book.dismissed {
        return 49008;
    }
    if !owner.def.get().customer_contact {
        return 90501;
    }
    if !(call.sees)(&owner.key) {
        return 60011;
    }
    if group.inheritance == Inheritance::Running {
        return 90507;
    }
    if call.resigned && owner.in_service() {
        return match group.inheritance {
            Inheritance::Done => 90508,
            Inheritance::Running | Inheritance::None => 90500,
        };
    }
    if call.resigned {
        let code = owner.resigned_giver_code(now_ms);
        if code != 0 {
            return code;
        }
    } else if !owner.in_service() {
        return 90502;
    }
    if owner.key == call.new_owner.key {
        return 90504;
    }
    if book.people.len() >= groups.hard_cap && !book.has(&call.new_owner.userid) {
        return 90503;
    }
    let today = day(rules, now_ms);
    let recent = |moved: &&i64| today - day(rules, **moved) < groups.window_days;
    let moves = group.moves_ms.iter().filter(recent).count();
    if !call.resigned && groups.max_moves > 0 && moves >= groups.max_moves {
        return groups.max_moves_code;
    }
    0
}

/// One more group of this owner that moves today, unless that is too many.
fn count(corp: &Corp, owner: &Member, rules: &Config, now_ms: i64) -> bool {
    let today = day(rules, now_ms);
    let mut moves = corp.groups.moves.lock();
    let (of_day, moved) = moves.entry(Arc::clone(&owner.key)).or_insert((today, 0));
    if *of_day != today {
        (*of_day, *moved) = (today, 0);
    }
    let most = rules.groups.moves_per_day;
    let room = most == 0 || *moved < most;
    *moved += u64::from(room);
    room
}

/// The natural day.
fn day(rules: &Config, ms: i64) -> i64 {
    ms.saturating_add(rules.transfers.zone_minutes * 60_000)
        .div_euclid(DAY_MS)
}
