//! Messages of an app to members, and of webhook robots.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::admin::MessageRecord;
use crate::config::{Config, Rate};
use crate::quota::Verdict;
use crate::world::{Corp, Member, World};

use super::call::answer;
use super::{Call, Fields, Reply};

const DAY_MS: i64 = 86_400_000;
/// Natural days are China's.
const ZONE_MS: i64 = 8 * 3_600_000;
/// Bodies under duplicate check that are kept before old ones are swept.
const SWEEP_AT: usize = 100_000;

/// message/send: partial failure is success; what a member cannot take any more vanishes without a word.
pub(crate) fn send(call: &Call<'_>) -> Reply {
    answer((|| {
        let fields = call.fields;
        if fields.int("agentid") != Some(i64::from(call.app.agent_id)) {
            return Err(301_002);
        }
        check_message(fields)?;
        let (recipients, invalid) = recipients(call)?;
        if recipients.is_empty() {
            return Err(81013);
        }
        charge_app(call, recipients.len() as u64)?;
        let mut reply = Reply::done()
            .with("invaliduser", invalid.join("|"))
            .with("invalidparty", "")
            .with("invalidtag", fields.filled("totag").unwrap_or_default())
            .with("unlicenseduser", "")
            .with("msgid", &*call.world.fresh_id("msg"));
        if is_duplicate(call) {
            call.corp
                .totals
                .messages_duplicate
                .fetch_add(1, Ordering::Relaxed);
            reply.effect = false;
            return Ok(reply);
        }
        for member in recipients {
            deliver(call, &member);
        }
        Ok(reply)
    })())
}

fn check_message(fields: &Fields) -> Result<(), i32> {
    let kind = fields.filled("msgtype").ok_or(40063)?;
    let content = fields.object(kind).ok_or(40063)?;
    let text = |name: &str| {
        content
            .get(name)
            .and_then(|value| value.as_str())
            .unwrap_or_default()
    };
    // Longer text and markdown are cut, not refused.
    let needed: &[&str] = match kind {
        "text" | "markdown" => &["content"],
        "textcard" => &["title", "description", "url"],
        "template_card" => &["card_type"],
        _ => &[],
    };
    if needed.iter().any(|name| text(name).is_empty()) {
        return Err(40063);
    }
    let chars = |name: &str| text(name).chars().count();
    let card = kind == "textcard";
    if card
        && (chars("title") > 128
            || chars("description") > 512
            || text("url").len() > 2_048
            || chars("btntxt") > 4)
    {
        return Err(40058);
    }
    Ok(())
}

/// Who gets it, and who of `touser` cannot (lower case, as WeCom lists them).
fn recipients(call: &Call<'_>) -> Result<(Vec<Arc<Member>>, Vec<String>), i32> {
    let fields = call.fields;
    let to_users = fields.filled("touser");
    let to_parties = fields.filled("toparty");
    if to_users.is_none() && to_parties.is_none() && fields.filled("totag").is_none() {
        return Err(82001);
    }
    let members = call.corp.members.get();
    let reachable = |member: &&Arc<Member>| member.def.get().status == 1 && call.sees(member);
    if to_users == Some("@all") {
        return Ok((
            members.values().filter(reachable).cloned().collect(),
            Vec::new(),
        ));
    }
    let named: Vec<&str> = to_users
        .map(|list| list.split('|').collect())
        .unwrap_or_default();
    let parties: Vec<u32> = to_parties
        .map(|list| list.split('|').filter_map(|id| id.parse().ok()).collect())
        .unwrap_or_default();
    if named.len() > 1_000 || parties.len() > 100 {
        return Err(40058);
    }
    let (mut found, mut invalid, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for userid in named {
        match call.corp.member(userid).as_ref().filter(reachable) {
            Some(member) if seen.insert(Arc::clone(&member.key)) => found.push(Arc::clone(member)),
            Some(_) => {}
            None => invalid.push(userid.to_ascii_lowercase()),
        }
    }
    if !parties.is_empty() {
        let of_party = members.values().filter(reachable).filter(|member| {
            member
                .def
                .get()
                .departments
                .iter()
                .any(|id| parties.contains(id))
        });
        for member in of_party {
            if seen.insert(Arc::clone(&member.key)) {
                found.push(Arc::clone(member));
            }
        }
    }
    Ok((found, invalid))
}

/// account cap × 200 person-times per app and day.
fn charge_app(call: &Call<'_>, person_times: u64) -> Result<(), i32> {
    let limits = &call.rules.limits;
    let most = call
        .corp
        .settings
        .get()
        .account_cap
        .saturating_mul(limits.messages_per_account);
    if !limits.enabled || most == 0 {
        return Ok(());
    }
    let today = (call.now_ms + ZONE_MS).div_euclid(DAY_MS);
    let mut sent = call.app.sent_today.lock();
    if sent.0 != today {
        *sent = (today, 0);
    }
    if sent.1 + person_times > most {
        return Err(45009);
    }
    sent.1 += person_times;
    Ok(())
}

/// The same JSON within the interval, when the check is asked for.
fn is_duplicate(call: &Call<'_>) -> bool {
    if call.fields.int("enable_duplicate_check") != Some(1) {
        return false;
    }
    let interval_s = call
        .fields
        .int("duplicate_check_interval")
        .unwrap_or(1_800)
        .clamp(1, 14_400);
    let mut sent = call.corp.sent_bodies.lock();
    if sent.len() >= SWEEP_AT {
        sent.retain(|_, until_ms| call.now_ms < *until_ms);
    }
    let until_ms = sent
        .entry((call.app.agent_id, call.body.to_vec()))
        .or_insert(i64::MIN);
    if call.now_ms < *until_ms {
        return true;
    }
    *until_ms = call.now_ms + interval_s * 1_000;
    false
}

fn deliver(call: &Call<'_>, member: &Member) {
    let limits = &call.rules.limits;
    let delivered = {
        let mut messages = member.messages.lock();
        let delivered = !limits.enabled
            || messages
                .allowance
                .take(&limits.member_messages, limits.window, call.now_ms);
        if delivered {
            messages.delivered += 1;
        } else {
            messages.dropped += 1;
        }
        delivered
    };
    if call.rules.log.messages > 0 {
        let record = MessageRecord {
            at_ms: call.now_ms,
            corp: call.corp.id.to_string(),
            agent_id: Some(call.app.agent_id),
            kind: "app".to_owned(),
            to: member.userid.to_string(),
            delivered,
            body: call.fields.all(),
        };
        call.world.messages.push(record, call.rules.log.messages);
    }
}

/// webhook/send: no token, the key is the secret. 20 a minute per key.
pub(crate) fn webhook(
    world: &Arc<World>,
    corp: &Arc<Corp>,
    number: usize,
    key: &str,
    fields: &Fields,
    rules: &Config,
    now_ms: i64,
) -> Reply {
    if let Err(code) = fields
        .filled("msgtype")
        .ok_or(40063)
        .and_then(|kind| fields.object(kind).ok_or(40063))
    {
        return Reply::error(code);
    }
    let limits = &rules.limits;
    if limits.enabled && limits.webhook_minute > 0 {
        let meter = Arc::clone(
            corp.webhook_meters
                .part(key)
                .entry(key.to_owned())
                .or_default(),
        );
        if meter.take(&Rate::new(limits.webhook_minute, 0), limits, now_ms) != Verdict::Free {
            return Reply::error(45009);
        }
    }
    corp.totals.webhook_messages.fetch_add(1, Ordering::Relaxed);
    let record = MessageRecord {
        at_ms: now_ms,
        corp: corp.id.to_string(),
        agent_id: None,
        kind: "webhook".to_owned(),
        to: format!("webhook-{}", number + 1),
        delivered: true,
        body: fields.all(),
    };
    world.messages.push(record, rules.log.messages);
    Reply::done()
}
