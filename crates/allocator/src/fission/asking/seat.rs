//! How a seat is asked of Redis for a visitor, and the way that he is shown for it: his inviter's own, or the campaign's.

use allocation::{
    ChatId, GroupTags, ReserveSeat, Reserved, SeatId, Via,
    model::{SeatPlace, SeatView},
};
use ledger::INVITER_STATE;
use uuid::Uuid;

use super::{Hold, Shown, WAIT_MS, Who};
use crate::{
    app::{App, CorpApp},
    fission::{campaigns::Campaign, waiting},
    payload::{Context, Payload},
    reception::visits::{Error, Visitor, VisitorKind},
};

/// `own`: the State of an inviter's way that he is to be shown; None: the campaign's.
pub(super) async fn reserve(
    corp: &CorpApp,
    campaign: &Campaign,
    who: &Who<'_>,
    tags: &GroupTags,
    own: Option<Via>,
) -> Result<Reserved, Error> {
    let asked = ReserveSeat {
        seat: SeatId(Uuid::now_v7()),
        campaign: campaign.id.clone(),
        pool: campaign.pool.clone(),
        subject: who.visitor.subject(corp),
        anonymous: !who.visitor.kind.is_known_at_wecom(),
        via: own.or_else(|| campaign.via.clone()),
        tags: tags.clone(),
        hold_ms: campaign.hold_ms,
        wait_ms: WAIT_MS,
    };
    let payload = Payload {
        contexts: vec![Context {
            inviter: who.inviter.cloned().map(String::from),
            ..context(who.visitor)
        }],
        ..Payload::default()
    };
    let applied = corp
        .roster
        .reserve_seats(vec![asked], &payload.text(), None)
        .await?;
    waiting::applied(corp, &applied);
    let reserved = applied.answer.into_iter().next();
    Ok(reserved.unwrap_or(Reserved::NoPool))
}

/// State of his inviter's own ways, where those have any.
pub(super) fn own_via(
    app: &App,
    corp: &CorpApp,
    campaign: &Campaign,
    who: &Who<'_>,
) -> Option<Via> {
    let inviter = who.inviter.filter(|_| campaign.own_ways)?;
    app.inviter_pages.via(&corp.id, &campaign.id, inviter)
}

/// State of the inviter's way that he was shown, if it was one.
pub(super) fn shown_by(standing: &SeatView) -> Option<&Via> {
    let SeatPlace::Held { via, .. } = &standing.place else {
        return None;
    };
    let via = via.as_ref()?;
    via.as_str().starts_with(INVITER_STATE).then_some(via)
}

/// `own`: the State of the inviter's way that he is shown, None: the campaign's.
pub(super) fn held(
    corp: &CorpApp,
    campaign: &Campaign,
    own: Option<&Via>,
    seat: SeatId,
    chat: ChatId,
    until_ms: u64,
) -> Shown {
    Shown::Held(Hold {
        seat,
        way: match own {
            Some(own) => corp.join_ways.own(own, &chat),
            None => corp.join_ways.of(&campaign.id, &chat),
        },
        chat,
        until_ms,
    })
}

fn context(visitor: &Visitor) -> Context {
    Context {
        source: "seat".to_owned(),
        subject_kind: visitor.kind.as_str().to_owned(),
        // A cookie's id says nothing to anybody: it need not be kept.
        subject_id: match visitor.kind {
            VisitorKind::Cookie => String::new(),
            VisitorKind::Unionid | VisitorKind::Openid | VisitorKind::ExternalId => {
                visitor.id.clone()
            }
        },
        ..Context::default()
    }
}
