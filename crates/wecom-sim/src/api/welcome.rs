//! The welcome message: one per new relation, within 20 s, by the first app that asks.

use std::sync::atomic::Ordering;

use crate::admin::MessageRecord;

use super::call::answer;
use super::{Call, Reply};

pub(crate) fn send(call: &Call<'_>) -> Reply {
    answer((|| {
        let value = call.fields.filled("welcome_code").ok_or(41049)?;
        check_content(call)?;
        let mut part = call.corp.codes.part(value);
        let code = part.get_mut(value).ok_or(41050)?;
        code.calls += 1;
        let mut sent = code.welcome.sent.lock();
        let by_us = sent.is_some_and(|(agent_id, _)| agent_id == call.app.agent_id);
        if by_us {
            call.corp
                .totals
                .welcomes_repeated
                .fetch_add(1, Ordering::Relaxed);
        }
        let old = call.now_ms.saturating_sub(code.issued_ms) > call.rules.people.welcome_life_ms;
        if old || code.agent_id != call.app.agent_id {
            return Err(41050);
        }
        match *sent {
            Some(_) if by_us => return Err(41051),
            Some((_, at_ms))
                if call.now_ms < at_ms.saturating_add(call.rules.people.distributing_ms) =>
            {
                return Err(41096);
            }
            Some(_) => return Err(41051),
            None => *sent = Some((call.app.agent_id, call.now_ms)),
        }
        drop(sent);
        let to = code.customer.to_string();
        drop(part);
        call.corp
            .totals
            .welcomes_delivered
            .fetch_add(1, Ordering::Relaxed);
        let record = MessageRecord {
            at_ms: call.now_ms,
            corp: call.corp.id.to_string(),
            agent_id: Some(call.app.agent_id),
            kind: "welcome".to_owned(),
            to,
            delivered: true,
            body: call.fields.all(),
        };
        call.world.messages.push(record, call.rules.log.messages);
        Ok(Reply::done())
    })())
}

fn check_content(call: &Call<'_>) -> Result<(), i32> {
    let text = call
        .fields
        .object("text")
        .and_then(|text| text.get("content"))
        .and_then(|content| content.as_str());
    let attachments = call.fields.objects("attachments").unwrap_or_default();
    if text.is_none_or(str::is_empty) && attachments.is_empty() {
        return Err(40063);
    }
    if text.is_some_and(|text| text.len() > 4_000) || attachments.len() > 9 {
        return Err(40058);
    }
    for attachment in attachments {
        let kind = attachment
            .get("msgtype")
            .and_then(|kind| kind.as_str())
            .ok_or(40035)?;
        let known = ["image", "link", "miniprogram", "video", "file"].contains(&kind);
        let content = attachment
            .get(kind)
            .and_then(|content| content.as_object())
            .filter(|_| known)
            .ok_or(40035)?;
        let filled = |name: &str| {
            content
                .get(name)
                .and_then(|value| value.as_str())
                .is_some_and(|text| !text.is_empty())
        };
        let fits = |name: &str, most: usize| {
            content
                .get(name)
                .and_then(|value| value.as_str())
                .is_none_or(|text| text.len() <= most)
        };
        let complete = match kind {
            "image" => filled("media_id") || filled("pic_url"),
            "link" => filled("title") && filled("url"),
            "miniprogram" => ["title", "pic_media_id", "appid", "page"]
                .iter()
                .all(|name| filled(name)),
            _ => filled("media_id"),
        };
        if !complete {
            return Err(40063);
        }
        let title = if kind == "miniprogram" { 64 } else { 128 };
        if !fits("title", title) || !fits("desc", 512) {
            return Err(40058);
        }
    }
    Ok(())
}
