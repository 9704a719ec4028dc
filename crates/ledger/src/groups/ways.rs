//! Which groups codes lead into.

use allocation::CorpId;

use super::Groups;
use crate::Error;
use crate::error::retry;
use crate::times::at;

impl Groups {
    /// Writes down of which groups it is new that a code leads into them: one that can be shown, of a campaign that gives seats
    /// out of their pool or will. Their versions rise. It stays so, though the code be changed or its campaign end: whoever was
    /// shown the group has his seat. Answers how many those are.
    pub async fn led(&self, corp: &CorpId, now_ms: u64) -> Result<u64, Error> {
        retry(|| async {
            let mut work = self.db.single().await?;
            let query = work
                .query(
                    "WITH new AS (
                        SELECT g.chat_id FROM groups AS g
                        WHERE g.corp_id = $1 AND g.way_at IS NULL AND g.group_pool_id IS NOT NULL AND g.deleted_at IS NULL
                            AND (g.group_pool_id, g.chat_id) IN (
                                SELECT c.group_pool_id, t.chat
                                FROM join_ways AS w JOIN campaigns AS c USING (corp_id, campaign_id),
                                    unnest(w.told_chats) AS t (chat)
                                WHERE w.corp_id = $1 AND w.inviter_id IS NULL AND w.state = 'ready' AND t.chat = ANY(w.chats)
                                    AND c.deleted_at IS NULL AND c.state = 'open' AND (c.ends_at IS NULL OR c.ends_at > $2))
                        ORDER BY g.chat_id FOR UPDATE)
                     UPDATE groups AS g SET way_at = $2, version = g.version + 1
                     FROM new AS n WHERE g.corp_id = $1 AND g.chat_id = n.chat_id",
                )
                .bind(corp.as_str())
                .bind(at(now_ms));
            let led = work.execute(query).await?;
            work.end().await?;
            Ok(led)
        })
        .await
    }
}
