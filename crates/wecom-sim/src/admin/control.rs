//! What a test may do besides what people do: rules, members, clock, tokens, callbacks.

use std::sync::Arc;

use serde_json::Value;

use crate::Error;
use crate::callback::{self, Outbound};
use crate::clock::advance_to;
use crate::config::{Config, CorpConfig, MemberConfig};
use crate::world::{Customer, Member, World, end_now};

use super::{
    ClockReply, ClockRequest, CustomerScript, CustomerState, GroupState, SendRequest, StateDump,
    TagChange, TagRequest, TransferEnd, Verified,
};

impl World {
    /// The live configuration.
    pub(crate) fn config(&self) -> Config {
        Config {
            corps: self
                .corps
                .get()
                .values()
                .map(|corp| corp.config())
                .collect(),
            faults: self
                .faults
                .list()
                .into_iter()
                .map(|armed| armed.fault)
                .collect(),
            ..(*self.rules.get()).clone()
        }
    }

    /// Replaces the configuration. Faults are replaced too when they differ; what the corps hold stays.
    pub(crate) fn put_config(&self, config: Config) -> Result<(), Error> {
        config.check()?;
        let live = self.config();
        if config.clock != live.clock {
            return Err(Error::config(
                "clock",
                "is fixed at the start; move it with POST /sim/clock",
            ));
        }
        self.set_corps(&config)?;
        if config.faults != live.faults {
            self.faults.remove(None);
            for fault in &config.faults {
                self.faults.add(fault.clone(), self.now_ms())?;
            }
        }
        self.rules.set(Config {
            corps: Vec::new(),
            faults: Vec::new(),
            ..config
        });
        Ok(())
    }

    /// Changes parts of the configuration (RFC 7386: objects are merged, lists replaced).
    pub(crate) fn patch_config(&self, patch: &Value) -> Result<(), Error> {
        let mut whole = serde_json::to_value(self.config())
            .map_err(|error| Error::Request(error.to_string()))?;
        crate::merge::merge(&mut whole, patch);
        let config = serde_json::from_value(whole)
            .map_err(|error| Error::config("patch", error.to_string()))?;
        self.put_config(config)
    }

    /// Adds a corp, or replaces what the configuration says about it.
    pub(crate) fn put_corp(&self, corp: CorpConfig) -> Result<(), Error> {
        let mut config = self.config();
        config.corps.retain(|other| other.id != corp.id);
        config.corps.push(corp);
        self.put_config(config)
    }

    /// Changes one member (RFC 7386). Leaving and coming back tell the apps that see him.
    pub(crate) fn patch_member(
        self: &Arc<Self>,
        corp: Option<&str>,
        userid: &str,
        patch: &Value,
    ) -> Result<MemberConfig, Error> {
        let corp = self.corp(corp)?;
        let member = corp.member(userid);
        let before = match &member {
            Some(member) => (*member.def.get()).clone(),
            None => MemberConfig {
                status: 4,
                ..MemberConfig::new(userid)
            },
        };
        let mut whole =
            serde_json::to_value(&before).map_err(|error| Error::Request(error.to_string()))?;
        crate::merge::merge(&mut whole, patch);
        let mut after: MemberConfig = serde_json::from_value(whole)
            .map_err(|error| Error::config("member", error.to_string()))?;
        if !after.userid.eq_ignore_ascii_case(&before.userid) {
            return Err(Error::config("member.userid", "cannot be changed"));
        }
        if member.is_none() && patch.get("status").is_none() {
            after.status = 1;
        }
        if after.status == 5 && after.resigned_ms.is_none() {
            after.resigned_ms = Some(self.now_ms());
        }
        if after.status != 5 {
            after.resigned_ms = None;
        }
        let member = match member {
            Some(member) => member,
            None => corp.members.update(|members| {
                let member = Arc::new(Member::new(after.clone()));
                let mut members = members.clone();
                let member = Arc::clone(members.entry(Arc::clone(&member.key)).or_insert(member));
                (members, member)
            }),
        };
        member.def.set(after.clone());
        if (before.status == 1) != (after.status == 1) {
            for app in corp
                .apps
                .get()
                .values()
                .filter(|app| app.def.get().sees(&member.key))
            {
                let present = after.status == 1;
                let plaintext = callback::presence(
                    &corp.id,
                    app.agent_id,
                    &member.userid,
                    present,
                    self.now_ms(),
                );
                self.emit(Outbound {
                    corp: Arc::clone(&corp),
                    app: Arc::clone(app),
                    plaintext: plaintext.into(),
                    names_app: true,
                });
            }
        }
        Ok(after)
    }

    pub(crate) fn script(
        &self,
        corp: Option<&str>,
        customer: &str,
        script: Option<CustomerScript>,
    ) -> Result<(), Error> {
        let corp = self.corp(corp)?;
        // A script may come before the customer does.
        corp.customers
            .part(customer)
            .entry(customer.into())
            .or_insert_with(Customer::default)
            .script = script;
        Ok(())
    }

    pub(crate) fn end_transfer(
        self: &Arc<Self>,
        corp: Option<&str>,
        customer: &str,
        end: TransferEnd,
    ) -> Result<(), Error> {
        let corp = self.corp(corp)?;
        if end_now(self, &corp, customer, end) {
            Ok(())
        } else {
            Err(Error::unknown("running transfer of customer", customer))
        }
    }

    pub(crate) fn customer(
        &self,
        corp: Option<&str>,
        customer: &str,
    ) -> Result<CustomerState, Error> {
        let corp = self.corp(corp)?;
        let part = corp.customers.part(customer);
        part.get(customer)
            .map(|found| found.state(customer))
            .ok_or_else(|| Error::unknown("customer", customer))
    }

    pub(crate) fn groups(&self, corp: Option<&str>) -> Result<Vec<GroupState>, Error> {
        Ok(self.corp(corp)?.groups.state(false))
    }

    pub(crate) fn group(&self, corp: Option<&str>, chat_id: &str) -> Result<GroupState, Error> {
        let corp = self.corp(corp)?;
        let part = corp.groups.by_id.part(chat_id);
        part.get(chat_id)
            .map(|group| group.state(true))
            .ok_or_else(|| Error::unknown("group", chat_id))
    }

    pub(crate) fn change_tags(
        self: &Arc<Self>,
        request: &TagRequest,
    ) -> Result<Vec<String>, Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let mut changed: Vec<(String, &str, &str)> = Vec::new();
        match &request.change {
            TagChange::Create { group, name } => {
                let made = corp.console_tag(self, group, name);
                if made.new_group {
                    changed.push((made.group_id.to_string(), "create", "tag_group"));
                }
                if made.new_tag {
                    changed.push((made.tag_id.to_string(), "create", "tag"));
                }
            }
            TagChange::Rename { id, name } => {
                let mut book = corp.tags.lock();
                let tag = book.tag_mut(id).ok_or_else(|| Error::unknown("tag", id))?;
                tag.name.clone_from(name);
                changed.push((id.clone(), "update", "tag"));
            }
            TagChange::Delete { id } => {
                let mut book = corp.tags.lock();
                if book.remove_tag(id) {
                    changed.push((id.clone(), "delete", "tag"));
                } else if book.remove_group(id) {
                    // Not one event per tag.
                    changed.push((id.clone(), "delete", "tag_group"));
                } else {
                    return Err(Error::unknown("tag or group", id));
                }
            }
        }
        for (id, change, kind) in &changed {
            self.emit_to_all(
                &corp,
                &callback::tag(&corp.id, change, id, kind, self.now_ms()).into(),
            );
        }
        Ok(changed.into_iter().map(|(id, ..)| id).collect())
    }

    pub(crate) fn send(self: &Arc<Self>, request: &SendRequest) -> Result<u64, Error> {
        let corp = self.corp(request.corp.as_deref())?;
        let apps = corp.apps.get();
        let mut sent = 0;
        for app in apps
            .values()
            .filter(|app| request.agent_id.is_none_or(|id| app.agent_id == id))
        {
            if app.def.get().sealer.is_none() {
                continue;
            }
            self.emit(Outbound {
                corp: Arc::clone(&corp),
                app: Arc::clone(app),
                plaintext: request.plaintext.as_str().into(),
                names_app: true,
            });
            sent += 1;
        }
        if sent == 0 {
            return Err(Error::unknown("app with a callback in corp", &*corp.id));
        }
        Ok(sent)
    }

    pub(crate) async fn verify_urls(
        &self,
        corp: Option<&str>,
        agent_id: Option<u32>,
    ) -> Result<Vec<Verified>, Error> {
        let corp = self.corp(corp)?;
        let mut results = Vec::new();
        for app in corp
            .apps
            .get()
            .values()
            .filter(|app| agent_id.is_none_or(|id| app.agent_id == id))
        {
            results.extend(callback::verify(self, app).await);
        }
        Ok(results)
    }

    pub(crate) fn clock_reply(&self) -> ClockReply {
        ClockReply {
            now_ms: self.now_ms(),
            mode: self.clock.mode(),
            scheduled: self.schedule.len(),
            callbacks_pending: self.callbacks.pending(),
        }
    }

    pub(crate) async fn move_clock(
        self: &Arc<Self>,
        request: &ClockRequest,
    ) -> Result<ClockReply, Error> {
        let now_ms = self.now_ms();
        let to_ms = match (request.advance_ms, request.now_ms) {
            (Some(by), None) if by >= 0 => now_ms.saturating_add(by),
            (None, Some(to)) if to >= now_ms => to,
            (None, None) if request.wait => now_ms,
            (Some(_), None) | (None, Some(_)) => {
                return Err(Error::Request(format!(
                    "the clock only moves forward; it is {now_ms}"
                )));
            }
            _ => {
                return Err(Error::Request(
                    "give advance_ms or now_ms, not both".to_owned(),
                ));
            }
        };
        advance_to(self, to_ms).await;
        if request.wait {
            self.callbacks.idle().await;
        }
        Ok(self.clock_reply())
    }

    pub(crate) fn state(&self, corp: Option<&str>) -> Result<StateDump, Error> {
        let corps = match corp {
            Some(id) => std::iter::once((id.to_owned(), self.corp(Some(id))?.state())).collect(),
            None => self
                .corps
                .get()
                .iter()
                .map(|(id, corp)| (id.clone(), corp.state()))
                .collect(),
        };
        Ok(StateDump {
            now_ms: self.now_ms(),
            corps,
        })
    }
}
