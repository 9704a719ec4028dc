//! Tags for those who came into a group and for inviters, and messages about goals. A tag is put on in the name of a member who has
//! the customer, and a member is whom the app can write to: so of a customer it must be known who has him. For a tag the ledger says it
//! where one was given to a member; where it does not, or WeCom says otherwise, WeCom is asked. For a message it is always asked: nothing
//! would tell that the wrong member got it, and whom a customer was given to has him only when his transfer is done.

use allocation::{MemberId, SubjectKey};
use ledger::{Finish, Inviter, InviterKind, OutboxRow, Outcome};
use quota::Urgency;
use wecom::{
    client::{AppMessage, MarkTag, MessageContent, Recipients, api},
    error::Class,
};

use super::{
    card,
    hands::Hands,
    verdict::{self, Error},
};
use crate::{
    app::{App, CorpApp},
    effect::{Effect, OfInviter},
    permit,
    reception::intake::WECOM,
};

/// Bytes of text that WeCom takes.
const TEXT_BYTES: usize = 2_048;

/// Whom it is for.
enum Whom {
    Member(String),
    Customer {
        external_id: String,
        name: String,
    },
    /// Nothing can be done for him, and why.
    Nobody(&'static str),
}

/// Who has a customer.
enum Has {
    /// As the ledger says, or as WeCom does.
    Member {
        userid: String,
        is_sure: bool,
    },
    Nobody,
    /// It cannot be asked before.
    Later(u64),
    Failed(wecom::Error),
}

/// A row of either lane; each goes to WeCom in a call of its own.
pub(super) async fn give(hands: &Hands, rows: Vec<OutboxRow>, until_ms: u64) -> Result<(), Error> {
    for row in rows {
        one(hands, row, until_ms).await?;
    }
    Ok(())
}

async fn one(hands: &Hands, row: OutboxRow, until_ms: u64) -> Result<(), Error> {
    let (app, corp, kind) = (&hands.app, &hands.corp, hands.lane.kind());
    let effect = serde_json::from_value::<Effect>(row.payload.clone()).ok();
    let whom = match &effect {
        Some(effect) => whom(app, corp, effect).await?,
        None => Whom::Nobody("the row cannot be read"),
    };
    let (userid, external_id, name, is_sure) = match whom {
        Whom::Nobody(why) => return failed(hands, &row, why).await,
        Whom::Member(_) if matches!(effect, Some(Effect::Tag { .. })) => {
            return failed(hands, &row, "a member has no tags of customers").await;
        }
        Whom::Member(userid) => (userid, None, String::new(), true),
        Whom::Customer { external_id, name } => {
            let ask = row.tries > 0 || matches!(effect, Some(Effect::GoalMessage { .. }));
            match who_has(app, corp, &external_id, ask).await? {
                Has::Member { userid, is_sure } => (userid, Some(external_id), name, is_sure),
                Has::Nobody => return failed(hands, &row, "no member has this customer").await,
                Has::Later(due_ms) => {
                    return verdict::put_off(app, corp, kind, &[row], due_ms).await;
                }
                Has::Failed(error) => {
                    let outcome = verdict::after_refusal(app, corp, &error, row.tries + 1);
                    let finish = verdict::finish(row.held(), outcome, Some(&error));
                    return verdict::write(app, corp, kind, &[finish]).await;
                }
            }
        }
    };
    let Some(permit) = hands.permit(until_ms).await else {
        return hands.put_back(&[row]).await;
    };
    let is_message = matches!(effect, Some(Effect::GoalMessage { .. }));
    if is_message && let Some(due_ms) = card::enough(app, corp, &userid).await? {
        hands.unused(&permit).await;
        return verdict::put_off(app, corp, kind, &[row], due_ms).await;
    }
    let (outbox, rows) = (app.ledger.outbox(), [row.held()]);
    let begun = outbox.begin(&rows, app.config.outbox.lease_ms, app.now_ms());
    if begun.await?.is_empty() {
        hands.unused(&permit).await;
        return Ok(());
    }
    let answer = match effect {
        Some(Effect::Tag { tag, .. }) => {
            let mark = MarkTag {
                userid,
                external_userid: external_id.unwrap_or_default(),
                add_tag: vec![tag],
                remove_tag: Vec::new(),
            };
            corp.client.mark_tag(&mark).await.map(|()| true)
        }
        Some(Effect::GoalMessage { text, inviter }) => {
            let text = match external_id {
                Some(_) => asks(app, &name, &inviter, &text),
                None => text,
            };
            let content = MessageContent::Text {
                content: cut(text).into(),
            };
            let message = AppMessage::new(Recipients::user(userid), content);
            let sent = corp.client.send_message(&message).await;
            sent.map(|sent| sent.invaliduser.is_empty())
        }
        _ => Ok(false),
    };
    hands.done(&permit, &answer).await;
    let tries = row.tries + 1;
    let outcome = match &answer {
        Ok(true) => Outcome::Done,
        // He left, or the app may not see him.
        Ok(false) => Outcome::Failed,
        // Done twice is done once.
        Err(error) if error.may_have_acted() => verdict::again(app, tries),
        // One that was made a moment ago may not be known everywhere yet.
        Err(error) if matches!(error.errcode(), Some(40068 | 41110)) => verdict::again(app, tries),
        // Another may have him by now: WeCom is asked the next time.
        Err(error) if !is_sure && error.class() == Class::PermanentCustomer => {
            verdict::again(app, tries)
        }
        Err(error) => verdict::after_refusal(app, corp, error, tries),
    };
    let finish = verdict::finish(row.held(), outcome, answer.as_ref().err());
    verdict::write(app, corp, kind, &[finish]).await
}

async fn failed(hands: &Hands, row: &OutboxRow, why: &str) -> Result<(), Error> {
    let finish = Finish {
        error: Some(why.to_owned()),
        ..Finish::new(row.held(), Outcome::Failed)
    };
    verdict::write(&hands.app, &hands.corp, hands.lane.kind(), &[finish]).await
}

async fn whom(app: &App, corp: &CorpApp, effect: &Effect) -> Result<Whom, Error> {
    let of = match effect {
        Effect::Tag {
            external_id: Some(external_id),
            ..
        } => {
            return Ok(Whom::Customer {
                external_id: external_id.clone(),
                name: String::new(),
            });
        }
        Effect::Tag {
            inviter: Some(of), ..
        }
        | Effect::GoalMessage { inviter: of, .. } => of,
        _ => return Ok(Whom::Nobody("the row names nobody")),
    };
    let inviters = app.ledger.inviters();
    let inviter = inviters.get(&corp.id, &of.campaign, &of.inviter).await?;
    let Some(inviter) = inviter else {
        return Ok(Whom::Nobody("the inviter is no more"));
    };
    match (inviter.kind, &inviter.userid) {
        (InviterKind::Member, Some(userid)) => Ok(Whom::Member(userid.clone())),
        _ => customer(app, corp, inviter).await,
    }
}

/// By WeCom's id of him, which is known of whoever was named by it, or came into a group himself.
async fn customer(app: &App, corp: &CorpApp, inviter: Inviter) -> Result<Whom, Error> {
    let subject = match (inviter.person, inviter.kind) {
        (Some(person), _) => person.0,
        (None, InviterKind::ExternalId) => inviter.subject,
        _ => {
            return Ok(Whom::Nobody(
                "WeCom's id of the inviter is not known: he never came into a group himself",
            ));
        }
    };
    let known = app.ledger.customers().find(&corp.id, &subject).await?;
    let known = known.filter(|known| known.kind == WECOM);
    Ok(match known.and_then(|known| known.external_id) {
        Some(external_id) => Whom::Customer {
            external_id,
            name: inviter.name,
        },
        None => Whom::Nobody("WeCom's id of the inviter is not known"),
    })
}

/// `ask`: the ledger's word does not do. Of several who have him it is whom the ledger gave him to.
async fn who_has(app: &App, corp: &CorpApp, external_id: &str, ask: bool) -> Result<Has, Error> {
    let subject = SubjectKey::new(&corp.id, WECOM, external_id);
    let owners = app.ledger.allocations();
    let owners = owners
        .last_owners(&corp.id, &[(subject, app.now_ms())])
        .await?;
    let given = owners.into_iter().next().flatten();
    let given = given.map(|member| userid(corp, &member));
    if !ask && let Some(userid) = given {
        return Ok(Has::Member {
            userid,
            is_sure: false,
        });
    }
    let api = api::GET_CUSTOMER;
    let permit = match permit::take(app, corp, api, Urgency::Ordinary).await {
        Ok(permit) => permit,
        Err(due_ms) => return Ok(Has::Later(due_ms)),
    };
    let answer = corp.client.get_customer(external_id, None).await;
    permit::done(app, corp, api, &permit, &answer).await;
    Ok(match answer {
        Ok(customer) => {
            let mut have = customer.follow_user.into_iter().map(|one| one.userid);
            let first = have.next();
            let userid = match given {
                Some(given) if first.as_ref() != Some(&given) => {
                    have.find(|userid| *userid == given).or(first)
                }
                _ => first,
            };
            userid.map_or(Has::Nobody, |userid| Has::Member {
                userid,
                is_sure: true,
            })
        }
        Err(error) if error.class() == Class::PermanentCustomer => Has::Nobody,
        Err(error) => Has::Failed(error),
    })
}

fn userid(corp: &CorpApp, member: &MemberId) -> String {
    corp.names.userid(member)
}

/// What the member who has him is asked to tell him.
fn asks(app: &App, name: &str, inviter: &OfInviter, text: &str) -> String {
    let name = if name.is_empty() {
        "客户 customer"
    } else {
        name
    };
    let head = app.config.card.goal.replace("{name}", name);
    format!("{}\n{text}", head.replace("{goal}", &inviter.goal))
}

/// So much as WeCom takes.
fn cut(mut text: String) -> String {
    let mut end = text.len().min(TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_between_letters() {
        assert_eq!(cut("短".to_owned()), "短");
        assert_eq!(cut("长".repeat(1_000)).len(), TEXT_BYTES - 2);
    }

    /// The ledger writes these rows by itself.
    #[test]
    fn rows_of_the_ledger_are_read() {
        let of = serde_json::json!({"campaign": "spring", "inviter": "i1", "goal": "three"});
        let with = |kind: &str, name: &str| {
            let mut row = of.clone();
            row["kind"] = kind.into();
            row[name] = "x".into();
            serde_json::from_value(row).unwrap()
        };
        for effect in [with(ledger::TAG, "tag"), with(ledger::GOAL_MESSAGE, "text")] {
            let of = match effect {
                Effect::Tag {
                    inviter,
                    external_id: None,
                    ..
                } => inviter.unwrap(),
                Effect::GoalMessage { inviter, .. } => inviter,
                _ => panic!("{effect:?}"),
            };
            assert_eq!((of.inviter.as_str(), of.goal.as_str()), ("i1", "three"));
        }
        let joined = serde_json::json!({"kind": "tag", "tag": "t", "external_id": "wm1"});
        let Effect::Tag {
            inviter,
            external_id,
            ..
        } = serde_json::from_value(joined).unwrap()
        else {
            panic!("no tag");
        };
        assert!(inviter.is_none() && external_id.is_some());
    }
}
