//! Seats from own landing pages and mini programs: which group does this visitor see?

use allocation::{CampaignId, ChatId, GroupTag, MAX_SEAT_TAGS, SeatId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{Ctx, Operator},
    docs::Refusals,
    extract::{Json, Path},
    inviters,
    problem::Problem,
    validate::{self, Fields},
    when::When,
};
use crate::{
    fission::{
        asking::{self, Shown},
        campaigns::Gives,
        join_ways,
    },
    reception::{
        slots,
        visits::{self, Visitor, VisitorKind},
    },
};

/// Until a campaign's first join way is there.
const PREPARING_S: u32 = 3;

/// Decided in Redis alone; the visitor is what makes a repeat the same, so no key is needed.
pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(create))
}

#[derive(Debug, Deserialize)]
struct CampaignPath {
    campaign_id: String,
}

/// What names the visitor.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PersonId {
    /// WeChat's, the same in all apps of a company: he is known by it when he comes into the group.
    Unionid,
    /// WeCom's, of a customer of the corp: the same.
    ExternalId,
    /// WeChat's, of one app: when somebody comes into the group it is guessed that it is he.
    Openid,
}

impl From<PersonId> for VisitorKind {
    fn from(id: PersonId) -> Self {
        match id {
            PersonId::Unionid => Self::Unionid,
            PersonId::ExternalId => Self::ExternalId,
            PersonId::Openid => Self::Openid,
        }
    }
}

/// Who asks. The same visitor keeps his seat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SeatVisitor {
    kind: PersonId,
    /// 1 to 128 characters.
    id: String,
}

/// Somebody asks for a seat.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewSeat {
    visitor: SeatVisitor,
    /// Groups with the first of these tags that has room; if none has, any group where the pool says so. Without tags any group.
    #[serde(default)]
    #[schema(max_items = 8)]
    tags: Vec<String>,
    /// Who brought him: the id of an inviter of the campaign, or the code of his page. Whoever has a seat keeps the one who brought
    /// him when it began.
    inviter: Option<String>,
}

/// What he is to see.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum SeatState {
    /// The group's code. While `picture` is null it is still being made: ask again.
    Held,
    /// No group has room: ask again before `until`, and he keeps his place. If there is a `picture` show it, too.
    Waiting,
    /// He is in the group.
    Joined,
    /// The campaign has no code to show yet, and nothing was reserved: ask again in some seconds.
    Preparing,
}

/// Which group a visitor sees.
#[derive(Debug, Serialize, ToSchema)]
struct SeatView {
    state: SeatState,
    /// Null while the campaign is being prepared.
    #[schema(required)]
    seat_id: Option<String>,
    /// WeCom's id of the group.
    #[schema(required)]
    chat_id: Option<String>,
    /// How the group is called, where that is known.
    #[schema(required)]
    group_name: Option<String>,
    /// The picture of the code, as WeCom has it; null while there is none.
    #[schema(required)]
    qr_code: Option<String>,
    /// The same from here: a path on the public listener. A few of those who are `waiting` have one: the code of a full group, for
    /// which WeCom opens a new one when they scan it. They keep their place.
    #[schema(required)]
    picture: Option<String>,
    /// His place in the waiting room, counted from 1.
    #[schema(required)]
    position: Option<u32>,
    /// When the seat ends, or by when to ask again.
    #[schema(required)]
    until: Option<When>,
}

/// Decides which group a visitor of a campaign sees, at once. Asked again for the same visitor, it answers the same until the
/// seat ends; then he is decided anew.
#[utoipa::path(post, path = "/campaigns/{campaign_id}/seats", tag = "seats", operation_id = "create_seat",
    params(("campaign_id" = String, Path)), request_body = NewSeat,
    responses((status = 200, body = SeatView), Refusals))]
async fn create(
    Operator(ctx): Operator,
    Path(path): Path<CampaignPath>,
    Json(new): Json<NewSeat>,
) -> Result<axum::Json<SeatView>, Problem> {
    let campaign: CampaignId = validate::in_path("campaign_id", &path.campaign_id)?;
    let mut fields = Fields::default();
    fields.subject_id("/visitor/id", &new.visitor.id);
    let tags = preferred(&mut fields, &new.tags);
    fields.check()?;
    let visitor = Visitor {
        kind: new.visitor.kind.into(),
        id: new.visitor.id,
    };
    let inviter = match &new.inviter {
        Some(name) => Some(inviters::known(&ctx, &campaign, name).await?),
        None => None,
    };
    let shown = asking::ask(&ctx.app, &ctx.corp, &campaign, &visitor, tags, inviter).await;
    let shown = shown.map_err(|error| match error {
        visits::Error::NotReady => ctx.roster(roster::Error::NotReady),
        visits::Error::Roster(error) => ctx.roster(error),
        visits::Error::Reason(error) => Problem::internal(&error),
    })?;
    Ok(axum::Json(view(&ctx, shown).await?))
}

/// In their order, which says which is better.
fn preferred(fields: &mut Fields, wanted: &[String]) -> Vec<GroupTag> {
    if wanted.len() > MAX_SEAT_TAGS {
        let message = format!("at most {MAX_SEAT_TAGS} tags are possible");
        fields.wrong("/tags", "too_many", message);
    }
    let mut tags: Vec<GroupTag> = Vec::new();
    for (index, tag) in wanted.iter().enumerate() {
        let pointer = format!("/tags/{index}");
        let Some(tag) = fields.parse::<GroupTag>(pointer.clone(), tag) else {
            continue;
        };
        if tags.contains(&tag) {
            fields.wrong(pointer, "duplicate", "is named twice");
        }
        tags.push(tag);
    }
    tags
}

async fn view(ctx: &Ctx, shown: Shown) -> Result<SeatView, Problem> {
    let none = |state, seat: Option<SeatId>| SeatView {
        state,
        seat_id: seat.map(|seat| seat.to_string()),
        chat_id: None,
        group_name: None,
        qr_code: None,
        picture: None,
        position: None,
        until: None,
    };
    let named =
        |chat: &ChatId| Some(ctx.corp.campaigns.name_of(chat)).filter(|name| !name.is_empty());
    Ok(match shown {
        Shown::Held(hold) => {
            let picture = match &hold.way {
                Some(way) => join_ways::picture_of(&ctx.app, &ctx.corp, way).await?,
                None => None,
            };
            let there = hold.way.filter(|_| picture.is_some());
            SeatView {
                group_name: named(&hold.chat),
                chat_id: Some(hold.chat.into()),
                qr_code: picture.map(|picture| picture.qr_code.clone()),
                picture: there.map(|way| slots::picture_path(&way)),
                until: Some(When(hold.until_ms)),
                ..none(SeatState::Held, Some(hold.seat))
            }
        }
        Shown::Waiting {
            seat,
            position,
            until_ms,
            opens,
        } => {
            let picture = match &opens {
                Some(way) => join_ways::picture_of(&ctx.app, &ctx.corp, way).await?,
                None => None,
            };
            let there = opens.filter(|_| picture.is_some());
            SeatView {
                qr_code: picture.map(|picture| picture.qr_code.clone()),
                picture: there.map(|way| slots::picture_path(&way)),
                position: Some(position),
                until: Some(When(until_ms)),
                ..none(SeatState::Waiting, Some(seat))
            }
        }
        Shown::Joined { seat, chat } => SeatView {
            group_name: named(&chat),
            chat_id: Some(chat.into()),
            ..none(SeatState::Joined, Some(seat))
        },
        Shown::Preparing => none(SeatState::Preparing, None),
        Shown::Shut(Gives::NotYet { .. }) => {
            let detail = "The campaign has not begun: see `starts_at`.";
            return Err(Problem::conflict("campaign_not_begun", detail));
        }
        Shown::Shut(Gives::NoMore) => {
            let detail = "The campaign is over: see `ends_at`.";
            return Err(Problem::conflict("campaign_over", detail));
        }
        Shown::Shut(_) => {
            let detail = "The campaign is closed: put it with the state `open`.";
            return Err(Problem::conflict("campaign_closed", detail));
        }
        // A campaign's pool exists; Redis has not heard of it yet.
        Shown::NoPool => {
            let detail = "The group pool is not in use yet. Try again.";
            return Err(Problem::unavailable("not_ready", detail, PREPARING_S));
        }
        Shown::NoCampaign => return Err(Problem::not_found("campaign")),
    })
}
