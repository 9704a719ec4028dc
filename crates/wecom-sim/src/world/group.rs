//! A customer group: who is in it, and what `groupchat/get` shows of it, which is a moment older.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::admin::{GroupMemberState, GroupState};

use super::member::Member;

/// Invited by somebody, brought by a link, scanned a code: `join_scene` of `groupchat/get`.
pub(crate) const INVITED: i64 = 1;
pub(crate) const BY_LINK: i64 = 2;
pub(crate) const SCANNED: i64 = 3;

/// Somebody in a group. Shared between what is and what is shown, and never changed.
#[derive(Debug)]
pub(crate) struct Person {
    /// userid or external_userid.
    pub(crate) id: Arc<str>,
    /// A member of the corp.
    pub(crate) employee: bool,
    pub(crate) name: String,
    pub(crate) unionid: Option<String>,
    pub(crate) joined_ms: i64,
    pub(crate) scene: i64,
    /// The member of the corp who brought him.
    pub(crate) invitor: Option<Arc<str>>,
    pub(crate) state: Option<Arc<str>>,
}

impl Person {
    pub(crate) fn employee(member: &Member, invitor: Option<&Arc<str>>, now_ms: i64) -> Self {
        Self {
            id: Arc::clone(&member.userid),
            employee: true,
            name: (member.def.get().name.clone()).unwrap_or_else(|| member.userid.to_string()),
            unionid: None,
            joined_ms: now_ms,
            scene: INVITED,
            invitor: invitor.cloned(),
            state: None,
        }
    }

    fn state(&self) -> GroupMemberState {
        GroupMemberState {
            id: self.id.to_string(),
            employee: self.employee,
            unionid: self.unionid.clone(),
            joined_ms: self.joined_ms,
            join_scene: self.scene,
            invitor: self.invitor.as_deref().map(str::to_owned),
            state: self.state.as_deref().map(str::to_owned),
        }
    }
}

/// What a group looks like at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    pub(crate) name: String,
    pub(crate) owner: Arc<Member>,
    pub(crate) notice: String,
    /// In the order in which they came.
    pub(crate) people: Vec<Arc<Person>>,
    pub(crate) version: Arc<str>,
    pub(crate) dismissed: bool,
}

impl Book {
    pub(crate) fn has(&self, id: &str) -> bool {
        self.people.iter().any(|person| *person.id == *id)
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Join(people, version) => {
                self.people.extend(people.iter().cloned());
                self.version = Arc::clone(version);
            }
            Change::Leave(ids, version) => {
                self.people.retain(|person| !ids.contains(&person.id));
                self.version = Arc::clone(version);
            }
            Change::Owner(owner) => self.owner = Arc::clone(owner),
            Change::Name(name) => self.name.clone_from(name),
            Change::Notice(notice) => self.notice.clone_from(notice),
            Change::Dismiss => {
                self.dismissed = true;
                self.people.clear();
            }
        }
    }
}

/// A change of a group. Those of the list bring its new version.
#[derive(Debug)]
pub(crate) enum Change {
    Join(Vec<Arc<Person>>, Arc<str>),
    Leave(Vec<Arc<str>>, Arc<str>),
    Owner(Arc<Member>),
    Name(String),
    Notice(String),
    Dismiss,
}

/// How its inheritance stands, beside whether its owner is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inheritance {
    None,
    Running,
    Done,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) chat_id: Arc<str>,
    /// Its place in lists.
    pub(crate) rank: u64,
    pub(crate) created_ms: i64,
    /// The join way that opened it.
    pub(crate) opened_by: Option<Arc<str>>,
    pub(crate) inheritance: Inheritance,
    /// Accepted moves to another owner in service, oldest first.
    pub(crate) moves_ms: Vec<i64>,
    now: Book,
    shown: Book,
    /// What is not shown yet, with the time from when it is.
    late: VecDeque<(i64, Change)>,
}

impl Group {
    pub(crate) fn new(
        chat_id: Arc<str>,
        rank: u64,
        name: String,
        owner: &Arc<Member>,
        version: Arc<str>,
        now_ms: i64,
    ) -> Self {
        let book = Book {
            name,
            owner: Arc::clone(owner),
            notice: String::new(),
            people: vec![Arc::new(Person::employee(owner, None, now_ms))],
            version,
            dismissed: false,
        };
        Self {
            chat_id,
            rank,
            created_ms: now_ms,
            opened_by: None,
            inheritance: Inheritance::None,
            moves_ms: Vec::new(),
            shown: book.clone(),
            now: book,
            late: VecDeque::new(),
        }
    }

    /// As it is.
    pub(crate) fn now(&self) -> &Book {
        &self.now
    }

    /// Changes it now, and what is shown `lag_ms` later. What changed earlier is never shown later.
    pub(crate) fn change(&mut self, change: Change, now_ms: i64, lag_ms: i64) {
        self.now.apply(&change);
        let not_before = self.late.back().map_or(i64::MIN, |(due_ms, _)| *due_ms);
        let due_ms = now_ms.saturating_add(lag_ms.max(0)).max(not_before);
        self.late.push_back((due_ms, change));
        self.catch_up(now_ms);
    }

    /// As `groupchat/get` shows it.
    pub(crate) fn shown(&mut self, now_ms: i64) -> &Book {
        self.catch_up(now_ms);
        &self.shown
    }

    fn catch_up(&mut self, now_ms: i64) {
        while let Some((due_ms, _)) = self.late.front()
            && *due_ms <= now_ms
            && let Some((_, change)) = self.late.pop_front()
        {
            self.shown.apply(&change);
        }
    }

    /// As `groupchat/list` shows it.
    pub(crate) fn status(&self) -> u8 {
        match self.inheritance {
            Inheritance::Running => 2,
            _ if !self.now.owner.in_service() => 1,
            Inheritance::Done => 3,
            Inheritance::None => 0,
        }
    }

    pub(crate) fn state(&self, with_members: bool) -> GroupState {
        let people = &self.now.people;
        GroupState {
            chat_id: self.chat_id.to_string(),
            name: self.now.name.clone(),
            owner: self.now.owner.userid.to_string(),
            created_ms: self.created_ms,
            opened_by: self.opened_by.as_deref().map(str::to_owned),
            status: self.status(),
            dismissed: self.now.dismissed,
            size: people.len(),
            outside: people.iter().filter(|person| !person.employee).count(),
            member_version: self.now.version.to_string(),
            members: if with_members {
                people.iter().map(|person| person.state()).collect()
            } else {
                Vec::new()
            },
        }
    }
}
