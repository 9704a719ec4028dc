//! Who brought the most.

use allocation::{CampaignId, CorpId};

use super::{
    Inviters,
    inviters::{Inviter, read, select},
};
use crate::Error;
use crate::cursor::{Page, PageRequest, Window};
use crate::row::signed;
use crate::times::at;

const LIST: &str = "leaderboard";
/// Between the two parts of a cursor's id.
const WITHIN: char = ' ';

const FORWARD: &str = select!(
    "AND i.blocked_at IS NULL AND ($3::bigint IS NULL OR (-i.qualified, i.ranked_at, i.inviter_id) > (-$3, $4, $5))
     ORDER BY i.qualified DESC, i.ranked_at, i.inviter_id LIMIT $6"
);
const BACKWARD: &str = select!(
    "AND i.blocked_at IS NULL AND (-i.qualified, i.ranked_at, i.inviter_id) < (-$3, $4, $5)
     ORDER BY i.qualified, i.ranked_at DESC, i.inviter_id DESC LIMIT $6"
);
/// By id, for who wants all of them.
const NEXT: &str = select!("AND i.inviter_id > $3 ORDER BY i.inviter_id LIMIT $4");

impl Inviters {
    /// Without those who are blocked. Whose count is greater comes first, of two with the same number who has it longer. Who rises meanwhile may be seen on two
    /// pages, or on none.
    pub async fn leaderboard(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        page: &PageRequest,
    ) -> Result<Page<Inviter>, Error> {
        let window = Window::read(page, LIST)?;
        let position = window.id().map(|id| {
            let (qualified, id) = id.split_once(WITHIN).ok_or(Error::Cursor)?;
            let qualified: u64 = qualified.parse().map_err(|_| Error::Cursor)?;
            Ok::<_, Error>((signed(qualified), id.to_owned()))
        });
        let (qualified, id) = position.transpose()?.unzip();
        let mut work = self.db.single().await?;
        let query = work
            .query_once(if window.is_backward() {
                BACKWARD
            } else {
                FORWARD
            })
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(qualified)
            .bind(window.time())
            .bind(id)
            .bind(window.fetch());
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        let inviters = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(window.page(LIST, inviters, |one| {
            let id = format!("{}{WITHIN}{}", one.qualified, one.id);
            (at(one.ranked_ms), id)
        }))
    }

    /// The next `limit` after this id, by their ids.
    pub async fn after(
        &self,
        corp: &CorpId,
        campaign: &CampaignId,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Inviter>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query(NEXT)
            .bind(corp.as_str())
            .bind(campaign.as_str().to_owned())
            .bind(after.to_owned())
            .bind(i64::from(limit));
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter().map(read).collect()
    }
}
