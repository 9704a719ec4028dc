//! Whom the visits of a channel pass over: members of the pools that serve it for whom there is no way to show, because WeCom refuses one.

use std::str::FromStr;

use allocation::{ChannelId, CorpId, MemberId};

use super::ContactWays;
use crate::Error;
use crate::row::Columns;

/// To whom WeCom said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Its member gets no way now.
    Member,
    /// Nobody of the corp does.
    Corp,
}

impl Refused {
    pub fn as_str(self) -> &'static str {
        match self {
            Refused::Member => "member",
            Refused::Corp => "corp",
        }
    }
}

impl FromStr for Refused {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "member" => Ok(Refused::Member),
            "corp" => Ok(Refused::Corp),
            other => Err(format!("nobody is refused as {other}")),
        }
    }
}

/// Those of one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    pub channel: ChannelId,
    /// In order.
    pub members: Vec<MemberId>,
    /// Somebody of the pool is none of them.
    pub others: bool,
}

impl ContactWays {
    /// By channel. Who has one way that can be shown is none of them, whatever was said about another. `no_room`: our own
    /// limit lets nothing new be asked for, so who has no row has nothing to wait for.
    pub async fn passed_over(
        &self,
        corp: &CorpId,
        no_room: bool,
    ) -> Result<Vec<PassedOver>, Error> {
        let mut work = self.db.single().await?;
        let query = work
            .query_once(
                concat!(
                    "WITH ",
                    super::serving!(),
                    ", refused AS (
                    SELECT channel_id, member, bool_or(passes_over = 'corp') AS all_of_corp FROM contact_ways
                    WHERE corp_id = $1 AND passes_over IS NOT NULL AND state IN ('wanted', 'asked', 'failed') GROUP BY 1, 2),
                 corp AS (SELECT coalesce(bool_or(all_of_corp), false) AS refused FROM refused),
                 members AS (
                    SELECT DISTINCT s.channel_id, pm.member FROM serving AS s
                    JOIN pool_members AS pm ON pm.corp_id = $1 AND pm.pool_id = s.pool_id AND pm.weight > 0
                    JOIN members AS m ON m.corp_id = $1 AND m.member = pm.member AND m.blocked IS NULL
                    WHERE $2 OR (SELECT refused FROM corp) OR s.channel_id IN (SELECT channel_id FROM refused)),
                 seen AS (
                    SELECT m.channel_id, m.member,
                        (r.member IS NOT NULL OR (SELECT refused FROM corp) OR $2 AND NOT EXISTS (
                            SELECT FROM contact_ways AS w WHERE w.corp_id = $1 AND w.channel_id = m.channel_id
                                AND w.member = m.member AND w.state IN ('wanted', 'asked')))
                        AND NOT EXISTS (
                            SELECT FROM contact_ways AS w WHERE w.corp_id = $1 AND w.channel_id = m.channel_id
                                AND w.member = m.member AND w.kind IN ('slot', 'plain') AND w.state = 'ready')
                        AS is_passed_over
                    FROM members AS m LEFT JOIN refused AS r USING (channel_id, member))
                 SELECT channel_id, array_agg(member) FILTER (WHERE is_passed_over) AS members,
                    NOT bool_and(is_passed_over) AS others
                 FROM seen GROUP BY channel_id HAVING bool_or(is_passed_over) ORDER BY channel_id"
                ),
            )
            .bind(corp.as_str())
            .bind(no_room);
        let rows = work.fetch_all(query).await?;
        work.end().await?;
        rows.iter()
            .map(|row| {
                let members: Vec<String> = row.value("members")?;
                let members: Result<Vec<MemberId>, _> =
                    members.into_iter().map(MemberId::new).collect();
                let mut members =
                    members.map_err(|problem| Error::unreadable("members", problem))?;
                members.sort();
                Ok(PassedOver {
                    channel: row.parsed("channel_id")?,
                    members,
                    others: row.value("others")?,
                })
            })
            .collect()
    }
}
