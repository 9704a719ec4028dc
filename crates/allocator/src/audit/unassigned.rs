//! Customers whose member has left, as WeCom lists them: who appears there has left, though no event told of it.

use std::collections::BTreeSet;

use allocation::{MemberId, Reason};
use quota::Urgency;
use wecom::client::{Pager, api};

use crate::{
    app::{App, CorpApp},
    handover::{LEFT, end},
    permit,
    reread::{self, Error},
};

/// Pages of a thousand customers that are read of one list. Members of whom nobody took over stand there for years.
const MOST_PAGES: usize = 1_000;

/// Looks at every known member of the list who is not known to have left; answers how many those were. Somebody may have
/// come back under his old userid, so WeCom is asked about each.
pub async fn unassigned(app: &App, corp: &CorpApp) -> Result<usize, Error> {
    let listed: Vec<MemberId> = listed(app, corp).await?.into_iter().collect();
    let known = app.ledger.members().get_many(&corp.id, &listed).await?;
    let mut looked = 0;
    for member in known {
        if member.blocked.as_ref().map(Reason::as_str) != Some(LEFT) {
            reread::read_listed_member(app, corp, &member.userid).await?;
            looked += 1;
        }
    }
    Ok(looked)
}

async fn listed(app: &App, corp: &CorpApp) -> Result<BTreeSet<MemberId>, Error> {
    let mut members = BTreeSet::new();
    let mut pager = Pager::new(api::GET_UNASSIGNED_LIST);
    for _ in 0..MOST_PAGES {
        let Some(cursor) = pager.next() else {
            return Ok(members);
        };
        let permit = permit::take(app, corp, api::GET_UNASSIGNED_LIST, Urgency::Ordinary)
            .await
            .map_err(|until_ms| end::Error::Budget { until_ms })?;
        let answer = corp.client.get_unassigned_list(cursor).await;
        permit::done(app, corp, api::GET_UNASSIGNED_LIST, &permit, &answer).await;
        let page = match answer {
            Ok(page) => page,
            Err(error) => {
                pager.restart_after(error).map_err(end::Error::Wecom)?;
                continue;
            }
        };
        let ids = page.info.into_iter();
        members.extend(ids.filter_map(|row| MemberId::new(row.handover_userid).ok()));
        let next = if page.is_last {
            String::new()
        } else {
            page.next_cursor
        };
        pager.advance(next).map_err(end::Error::Wecom)?;
    }
    tracing::warn!(corp = %corp.id, "the list of customers whose member has left is longer than is read");
    Ok(members)
}
