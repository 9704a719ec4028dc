//! The plaintext of events (callbacks.md 4).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::world::Member;

/// A `change_external_contact` event before it is written for one app.
#[derive(Debug)]
pub(crate) struct Event {
    change: &'static str,
    member: Arc<Member>,
    customer: Arc<str>,
    state: Option<String>,
    extra: Option<(&'static str, &'static str)>,
    welcome: BTreeMap<u32, Arc<str>>,
}

impl Event {
    pub(crate) fn new(change: &'static str, member: &Arc<Member>, customer: &Arc<str>) -> Self {
        Self {
            change,
            member: Arc::clone(member),
            customer: Arc::clone(customer),
            state: None,
            extra: None,
            welcome: BTreeMap::new(),
        }
    }

    pub(crate) fn with(self, name: &'static str, value: &'static str) -> Self {
        Self {
            extra: Some((name, value)),
            ..self
        }
    }

    pub(crate) fn state(self, state: Option<&str>) -> Self {
        Self {
            state: state.map(str::to_owned),
            ..self
        }
    }

    /// The WelcomeCode of each app.
    pub(crate) fn welcome(self, welcome: BTreeMap<u32, Arc<str>>) -> Self {
        Self { welcome, ..self }
    }

    pub(crate) fn member_key(&self) -> &str {
        &self.member.key
    }

    pub(crate) fn plaintext(&self, corp_id: &str, agent_id: u32, now_ms: i64) -> String {
        let mut xml = Xml::event(corp_id, "sys", now_ms, "change_external_contact");
        xml.text("ChangeType", self.change);
        if let Some((name, value)) = self.extra {
            xml.text(name, value);
        }
        xml.text("UserID", &self.member.userid);
        xml.text("ExternalUserID", &self.customer);
        if let Some(state) = &self.state {
            xml.text("State", state);
        }
        if let Some(code) = self.welcome.get(&agent_id) {
            xml.text("WelcomeCode", code);
        }
        xml.end()
    }
}

/// A member entered (`subscribe`) or left (`unsubscribe`) the app's range.
pub(crate) fn presence(
    corp_id: &str,
    agent_id: u32,
    userid: &str,
    present: bool,
    now_ms: i64,
) -> String {
    let event = if present { "subscribe" } else { "unsubscribe" };
    let mut xml = Xml::event(corp_id, userid, now_ms, event);
    xml.number("AgentID", i64::from(agent_id));
    xml.end()
}

/// A corp tag or group changed in the admin console.
pub(crate) fn tag(corp_id: &str, change: &str, id: &str, kind: &str, now_ms: i64) -> String {
    let mut xml = Xml::event(corp_id, "sys", now_ms, "change_external_tag");
    xml.text("Id", id);
    xml.text("TagType", kind);
    xml.text("ChangeType", change);
    xml.end()
}

/// What happened to a group.
#[derive(Debug)]
pub(crate) enum ChatEvent<'a> {
    Create,
    Dismiss,
    /// `change_owner`, `change_name`, `change_notice`.
    Detail(&'static str),
    /// `add_member`, `del_member`.
    Members(MembersChange<'a>),
}

/// Who came or went, and the versions of the list before and after.
#[derive(Debug)]
pub(crate) struct MembersChange<'a> {
    pub(crate) joined: bool,
    /// JoinScene of those who came, QuitScene of those who went.
    pub(crate) scene: i64,
    pub(crate) ids: &'a [Arc<str>],
    pub(crate) last: &'a str,
    pub(crate) current: &'a str,
}

/// A `change_external_chat` event, in the shape of a captured one.
pub(crate) fn chat(corp_id: &str, chat_id: &str, event: &ChatEvent<'_>, now_ms: i64) -> String {
    let mut xml = Xml::event(corp_id, "sys", now_ms, "change_external_chat");
    xml.text("ChatId", chat_id);
    let change = match event {
        ChatEvent::Create => "create",
        ChatEvent::Dismiss => "dismiss",
        ChatEvent::Detail(_) | ChatEvent::Members(_) => "update",
    };
    xml.text("ChangeType", change);
    match event {
        ChatEvent::Create | ChatEvent::Dismiss => {}
        ChatEvent::Detail(detail) => xml.text("UpdateDetail", detail),
        ChatEvent::Members(change) => {
            let (detail, scene) = if change.joined {
                ("add_member", "JoinScene")
            } else {
                ("del_member", "QuitScene")
            };
            xml.text("UpdateDetail", detail);
            xml.number(scene, change.scene);
            let count = i64::try_from(change.ids.len()).unwrap_or(i64::MAX);
            xml.number("MemChangeCnt", count);
            xml.0.push_str("<MemChangeList>");
            for id in change.ids {
                xml.text("Item", id);
            }
            xml.0.push_str("</MemChangeList>");
            xml.text("LastMemVer", change.last);
            xml.text("CurMemVer", change.current);
        }
    }
    xml.end()
}

struct Xml(String);

impl Xml {
    fn event(corp_id: &str, from: &str, now_ms: i64, event: &str) -> Self {
        let mut xml = Self(String::with_capacity(512));
        xml.0.push_str("<xml>");
        xml.text("ToUserName", corp_id);
        xml.text("FromUserName", from);
        xml.number("CreateTime", now_ms.div_euclid(1_000));
        xml.text("MsgType", "event");
        xml.text("Event", event);
        xml
    }

    fn text(&mut self, name: &str, value: &str) {
        self.0.push('<');
        self.0.push_str(name);
        self.0.push_str("><![CDATA[");
        if value.contains("]]>") {
            // The end marker may not stand inside: it is split over two sections.
            self.0.push_str(&value.replace("]]>", "]]]]><![CDATA[>"));
        } else {
            self.0.push_str(value);
        }
        self.0.push_str("]]></");
        self.0.push_str(name);
        self.0.push('>');
    }

    fn number(&mut self, name: &str, value: i64) {
        // Writing to a String cannot fail.
        let _infallible = write!(self.0, "<{name}>{value}</{name}>");
    }

    fn end(mut self) -> String {
        self.0.push_str("</xml>");
        self.0
    }
}
