//! Taking a group or a campaign away that visitors have open seats in is asked for twice.

use allocation::{CampaignId, ChatId};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use super::{access::Ctx, problem::Problem};

/// Whether open seats may be lost.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Force {
    /// Also while visitors hold or wait for seats: these end.
    #[serde(default)]
    #[param(required = false)]
    force: bool,
}

impl Force {
    /// A group that is in no pool any more is filled by nobody: the seats that are held in it end.
    pub(super) async fn check_group(&self, ctx: &Ctx, chat: &ChatId) -> Result<(), Problem> {
        if self.force {
            return Ok(());
        }
        let held = ctx.app.ledger.seats().held_in(ctx.id(), chat).await?;
        if held == 0 {
            return Ok(());
        }
        let detail = format!(
            "{held} visitors hold a seat in it, which would end. Put it with state closed, and repeat this when they have come or \
             their time is over; or repeat it with ?force=true."
        );
        Err(Problem::conflict("group_has_seats", detail).with_current(json!({"held": held})))
    }

    /// Nobody who comes is counted for a campaign that is gone.
    pub(super) async fn check_campaign(&self, ctx: &Ctx, id: &CampaignId) -> Result<(), Problem> {
        if self.force {
            return Ok(());
        }
        let open = ctx.app.ledger.seats().open_of(ctx.id(), id).await?;
        if open.is_empty() {
            return Ok(());
        }
        let (held, waiting) = (open.held, open.waiting);
        let detail = format!(
            "{held} visitors hold a seat by it and {waiting} wait for one; nobody of them would be counted for an inviter any more. \
             Put it with state closed, and repeat this when they have come or their time is over; or repeat it with ?force=true."
        );
        let current = json!({"held": held, "waiting": waiting});
        Err(Problem::conflict("campaign_has_seats", detail).with_current(current))
    }
}
