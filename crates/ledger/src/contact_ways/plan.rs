//! What should be there against what is there: missing ways are written down as wanted, superfluous ones retire.

use std::collections::HashMap;

use allocation::{ChannelId, CorpId, MemberId};

use super::{ContactWays, WayKind};
use crate::Error;
use crate::connection::Work;
use crate::error::retry;
use crate::log_write::column;
use crate::row::{Columns, signed};
use crate::times::at;

/// Among the locks of this database; with the corp's hash. The number means nothing.
const LOCK: i64 = 7_023_362;
/// Members of channels that one plan looks at; the rest comes with the next.
const PAIRS: i64 = 20_000;

/// Bounds of one plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanLimits {
    /// Ways of the corp, those that rest counted too.
    pub ways: u64,
    /// New rows of one plan.
    pub batch: usize,
    /// How long a way that is no longer given out stays at WeCom.
    pub rest_ms: u64,
}

/// What a plan did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlannedWays {
    pub wanted: u64,
    /// Resting ones that are given out again.
    pub revived: u64,
    pub retired: u64,
    /// They were not asked for yet.
    pub dropped: u64,
    /// No room under the limit of the corp.
    pub refused: u64,
    /// Another plan is needed at once.
    pub more: bool,
    /// Somebody else plans for this corp now.
    pub busy: bool,
}

/// A member of a channel who has too many or too few of a kind.
struct Pair {
    channel: ChannelId,
    member: MemberId,
    kind: WayKind,
    want: u64,
    live: u64,
}

impl ContactWays {
    /// Compares channels, pools and members with the rows. One at a time for a corp; a paused corp gets no new rows.
    pub async fn plan(
        &self,
        corp: &CorpId,
        limits: PlanLimits,
        now_ms: u64,
    ) -> Result<PlannedWays, Error> {
        retry(|| self.try_plan(corp, limits, now_ms)).await
    }

    async fn try_plan(
        &self,
        corp: &CorpId,
        limits: PlanLimits,
        now_ms: u64,
    ) -> Result<PlannedWays, Error> {
        let mut work = self.db.transaction().await?;
        let query = work
            .query("SELECT pg_try_advisory_xact_lock(hashtextextended($1, $2)) AS mine")
            .bind(corp.as_str())
            .bind(LOCK);
        if !work.fetch_one(query).await?.value("mine")? {
            work.roll_back().await?;
            return Ok(PlannedWays {
                busy: true,
                ..PlannedWays::default()
            });
        }
        try_again(&mut work, corp, now_ms).await?;
        let pairs = differences(&mut work, corp).await?;
        let mut planned = PlannedWays {
            more: pairs.len() as i64 == PAIRS,
            ..PlannedWays::default()
        };
        retire(&mut work, corp, &pairs, limits, now_ms, &mut planned).await?;
        let mut missing: Vec<(&Pair, u64)> = pairs
            .iter()
            .filter(|pair| pair.want > pair.live)
            .map(|pair| (pair, pair.want - pair.live))
            .collect();
        if !missing.is_empty() {
            revive(&mut work, corp, &mut missing, now_ms, &mut planned).await?;
            add(&mut work, corp, &missing, limits, now_ms, &mut planned).await?;
        }
        work.commit().await?;
        Ok(planned)
    }
}

/// What was given up long ago.
async fn try_again(work: &mut Work, corp: &CorpId, now_ms: u64) -> Result<(), Error> {
    let query = work
        .query(
            "UPDATE contact_ways SET state = CASE WHEN config_id IS NULL THEN 'wanted' ELSE 'asked' END,
                tries = 0, picture_tries = 0, next_try_at = $2
             WHERE corp_id = $1 AND state = 'failed' AND next_try_at <= $2",
        )
        .bind(corp.as_str())
        .bind(at(now_ms));
    work.execute(query).await?;
    Ok(())
}

async fn differences(work: &mut Work, corp: &CorpId) -> Result<Vec<Pair>, Error> {
    let query = work
        .query_once(concat!(
            "WITH ",
            super::serving!(),
            ", members AS (
                SELECT s.channel_id, pm.member, max(s.slots) AS slots
                FROM serving AS s
                JOIN pool_members AS pm ON pm.corp_id = $1 AND pm.pool_id = s.pool_id
                JOIN members AS m ON m.corp_id = $1 AND m.member = pm.member AND m.blocked IS NULL
                GROUP BY 1, 2),
             want AS (
                SELECT channel_id, member, 'slot' AS kind, slots AS want FROM members
                UNION ALL SELECT channel_id, member, 'plain', 1 FROM members),
             have AS (
                SELECT channel_id, member, kind, count(*) AS live FROM contact_ways
                WHERE corp_id = $1 AND state <> 'gone' AND state <> 'retiring' GROUP BY 1, 2, 3)
             SELECT channel_id, member, kind, coalesce(want, 0) AS want, coalesce(live, 0) AS live
             FROM want FULL JOIN have USING (channel_id, member, kind)
             WHERE coalesce(want, 0) <> coalesce(live, 0) LIMIT $2"
        ))
        .bind(corp.as_str())
        .bind(PAIRS);
    let rows = work.fetch_all(query).await?;
    rows.iter()
        .map(|row| {
            let (channel, member) = super::owner(row)?;
            Ok(Pair {
                channel,
                member,
                kind: row.parsed("kind")?,
                want: row.number("want")?,
                live: row.number("live")?,
            })
        })
        .collect()
}

/// What is too much. Of an `asked` row without an answer nobody knows whether it is at WeCom: it waits for that.
async fn retire(
    work: &mut Work,
    corp: &CorpId,
    pairs: &[Pair],
    limits: PlanLimits,
    now_ms: u64,
    planned: &mut PlannedWays,
) -> Result<(), Error> {
    let excess: Vec<(&Pair, u64)> = pairs
        .iter()
        .filter(|pair| pair.live > pair.want)
        .map(|pair| (pair, pair.live - pair.want))
        .collect();
    if excess.is_empty() {
        return Ok(());
    }
    let query = work
        .query_once(
            "WITH picked AS (
                SELECT way, config_id IS NULL AS unmade FROM (
                    SELECT w.way, w.config_id, x.n, row_number() OVER (
                        PARTITION BY w.channel_id, w.member, w.kind
                        ORDER BY w.state = 'wanted' DESC, w.state = 'failed' DESC, w.place DESC, w.way) AS nth
                    FROM contact_ways AS w
                    JOIN unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) AS x (channel_id, member, kind, n)
                        USING (channel_id, member, kind)
                    WHERE w.corp_id = $1 AND (w.state IN ('wanted', 'ready', 'failed')
                        OR w.state = 'asked' AND w.config_id IS NOT NULL)) AS ranked
                WHERE nth <= n),
             dropped AS (
                DELETE FROM contact_ways AS w USING picked AS p
                WHERE w.corp_id = $1 AND w.way = p.way AND p.unmade AND w.state IN ('wanted', 'failed')
                    AND w.config_id IS NULL
                RETURNING w.way),
             retired AS (
                UPDATE contact_ways AS w SET state = 'retiring', roster_generation = 0,
                    changed_by = pg_current_xact_id(),
                    next_try_at = CASE WHEN w.kind = 'plain' OR w.state <> 'ready' THEN $6 END,
                    rests_since = CASE WHEN w.state = 'ready' THEN $7 ELSE w.rests_since END
                FROM picked AS p
                WHERE w.corp_id = $1 AND w.way = p.way AND w.config_id IS NOT NULL
                    AND w.state IN ('asked', 'ready', 'failed')
                RETURNING w.way)
             SELECT (SELECT count(*) FROM dropped) AS dropped, (SELECT count(*) FROM retired) AS retired",
        )
        .bind(corp.as_str())
        .bind(column(&excess, |(pair, _)| pair.channel.to_string()))
        .bind(column(&excess, |(pair, _)| pair.member.to_string()))
        .bind(column(&excess, |(pair, _)| pair.kind.as_str()))
        .bind(column(&excess, |(_, n)| signed(*n)))
        .bind(at(now_ms.saturating_add(limits.rest_ms)))
        .bind(at(now_ms));
    let row = work.fetch_one(query).await?;
    planned.dropped = row.number("dropped")?;
    planned.retired = row.number("retired")?;
    Ok(())
}

/// Those that rest are there already: cheaper than new ones. One that is about to be deleted is left to it.
async fn revive(
    work: &mut Work,
    corp: &CorpId,
    missing: &mut Vec<(&Pair, u64)>,
    now_ms: u64,
    planned: &mut PlannedWays,
) -> Result<(), Error> {
    const ABOUT_TO_GO_MS: u64 = 60_000;
    let query = work
        .query_once(
            "WITH picked AS (
                SELECT way FROM (
                    SELECT w.way, x.n, row_number() OVER (
                        PARTITION BY w.channel_id, w.member, w.kind ORDER BY w.place, w.way) AS nth
                    FROM contact_ways AS w
                    JOIN unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) AS x (channel_id, member, kind, n)
                        USING (channel_id, member, kind)
                    WHERE w.corp_id = $1 AND w.state = 'retiring' AND w.picture IS NOT NULL
                        AND (w.next_try_at IS NULL OR w.next_try_at > $6)) AS ranked
                WHERE nth <= n)
             UPDATE contact_ways AS w SET state = 'ready', next_try_at = NULL, roster_generation = 0,
                changed_by = pg_current_xact_id()
             FROM picked AS p WHERE w.corp_id = $1 AND w.way = p.way
             RETURNING w.channel_id, w.member, w.kind",
        )
        .bind(corp.as_str())
        .bind(column(missing, |(pair, _)| pair.channel.to_string()))
        .bind(column(missing, |(pair, _)| pair.member.to_string()))
        .bind(column(missing, |(pair, _)| pair.kind.as_str()))
        .bind(column(missing, |(_, n)| signed(*n)))
        .bind(at(now_ms.saturating_add(ABOUT_TO_GO_MS)));
    let mut revived: HashMap<(ChannelId, MemberId, WayKind), u64> = HashMap::new();
    for row in work.fetch_all(query).await? {
        let (channel, member) = super::owner(&row)?;
        *revived
            .entry((channel, member, row.parsed("kind")?))
            .or_default() += 1;
        planned.revived += 1;
    }
    for (pair, n) in missing.iter_mut() {
        let key = (pair.channel.clone(), pair.member.clone(), pair.kind);
        *n -= revived.get(&key).copied().unwrap_or_default().min(*n);
    }
    missing.retain(|(_, n)| *n > 0);
    Ok(())
}

/// Everybody's plain way first, then everybody's first slot, and so on: a plan that ends early is fair.
async fn add(
    work: &mut Work,
    corp: &CorpId,
    missing: &[(&Pair, u64)],
    limits: PlanLimits,
    now_ms: u64,
    planned: &mut PlannedWays,
) -> Result<(), Error> {
    let query = work
        .query(
            "SELECT (SELECT count(*) FROM contact_ways WHERE corp_id = $1 AND state <> 'gone')
                    + (SELECT count(*) FROM join_ways WHERE corp_id = $1 AND state <> 'gone') AS ways,
                EXISTS (SELECT FROM contact_ways WHERE corp_id = $1 AND pauses_corp_until > $2) AS paused",
        )
        .bind(corp.as_str())
        .bind(at(now_ms));
    let row = work.fetch_one(query).await?;
    if row.value("paused")? {
        return Ok(());
    }
    let room = limits.ways.saturating_sub(row.number("ways")?);
    let lacking: u64 = missing.iter().map(|(_, n)| n).sum();
    planned.refused = lacking.saturating_sub(room);
    let fits = usize::try_from(room).unwrap_or(usize::MAX);
    let all = first_places(missing, fits.min(limits.batch));
    planned.more |= (all.len() as u64) < lacking.min(room);
    let query = work
        .query(
            "INSERT INTO contact_ways (corp_id, way, channel_id, member, kind, state, place, next_try_at, created_at)
             SELECT $1, n.way, n.channel_id, n.member, n.kind, 'wanted', n.place, $7, $7
             FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::integer[])
                AS n (way, channel_id, member, kind, place)
             ON CONFLICT DO NOTHING",
        )
        .bind(corp.as_str())
        .bind(column(&all, |(_, pair)| new_state(pair.kind)))
        .bind(column(&all, |(_, pair)| pair.channel.to_string()))
        .bind(column(&all, |(_, pair)| pair.member.to_string()))
        .bind(column(&all, |(_, pair)| pair.kind.as_str()))
        .bind(column(&all, |(place, _)| i32::try_from(*place).unwrap_or(i32::MAX)))
        .bind(at(now_ms));
    planned.wanted = work.execute(query).await?;
    Ok(())
}

/// The first so many that are missing, by place. Of millions only those are looked at: a channel may want far more than there
/// is room for.
fn first_places<'p>(missing: &[(&'p Pair, u64)], n: usize) -> Vec<(u64, &'p Pair)> {
    let mut by_first: Vec<(u64, u64, &Pair)> = missing
        .iter()
        .map(|(pair, n)| match pair.kind {
            WayKind::Plain => (0, *n, *pair),
            WayKind::Slot => (pair.want - n + 1, pair.want + 1, *pair),
        })
        .collect();
    by_first.sort_by(|(one, _, a), (other, _, b)| {
        (one, &a.channel, &a.member).cmp(&(other, &b.channel, &b.member))
    });
    let mut rest = by_first.into_iter().peekable();
    let mut all: Vec<(u64, &Pair)> = Vec::new();
    let mut open: Vec<(u64, &Pair)> = Vec::new();
    let mut place = 0;
    while all.len() < n && (!open.is_empty() || rest.peek().is_some()) {
        if open.is_empty()
            && let Some((first, ..)) = rest.peek()
        {
            place = *first;
        }
        while let Some((_, end, pair)) = rest.next_if(|(first, ..)| *first <= place) {
            open.push((end, pair));
        }
        open.retain(|(end, _)| *end > place);
        open.sort_by(|(_, a), (_, b)| (&a.channel, &a.member).cmp(&(&b.channel, &b.member)));
        all.extend(
            open.iter()
                .map(|(_, pair)| (place, *pair))
                .take(n - all.len()),
        );
        place += 1;
    }
    all
}

/// A State that nobody has had: `pv.` for a slot, `pw.` for a plain way.
fn new_state(kind: WayKind) -> String {
    let head = match kind {
        WayKind::Slot => "pv.",
        WayKind::Plain => "pw.",
    };
    format!("{head}{}", crate::text::random(12))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(member: &str, kind: WayKind, want: u64) -> Pair {
        Pair {
            channel: ChannelId::new("page").unwrap(),
            member: MemberId::new(member).unwrap(),
            kind,
            want,
            live: 0,
        }
    }

    #[test]
    fn everybody_gets_his_first_before_anybody_gets_a_second() {
        let pairs = [
            (pair("mc", WayKind::Slot, 1_000_000), 1_000_000),
            (pair("ma", WayKind::Slot, 3), 2),
            (pair("mb", WayKind::Slot, 9), 1),
            (pair("mb", WayKind::Plain, 1), 1),
        ];
        let missing: Vec<(&Pair, u64)> = pairs.iter().map(|(pair, n)| (pair, *n)).collect();
        let first = |n| {
            let all = first_places(&missing, n);
            let all = all
                .iter()
                .map(|(place, pair)| format!("{}{place}", pair.member));
            all.collect::<Vec<_>>()
        };
        assert_eq!(first(7), ["mb0", "mc1", "ma2", "mc2", "ma3", "mc3", "mc4"]);
        assert_eq!(first(10)[7..], ["mc5", "mc6", "mc7"]);
        assert_eq!(first(12)[9..], ["mc7", "mc8", "mb9"]);
        assert_eq!(first(0), [""; 0]);
        assert_eq!(first_places(&missing[1..3], 9).len(), 3);
    }
}
