//! Breaking the promises about seats, each on purpose and for one invariant.

use allocation::{Answer, Op, Reserved, SeatOp, SeatResult};
use anyhow::Context;

use super::log::Log;
use crate::prove::checks;
use crate::stage::{CORP, Stage, change_one};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeatSabotage {
    /// A confirmed seat has no row.
    RowGone,
    /// A group has one person less, in Redis.
    Count,
    /// A hold has no end.
    Endless,
    /// One visitor has two seats.
    Twice,
    /// A group was opened a second time.
    OpenedTwice,
    /// Somebody was shown a group that was full.
    ShownFull,
}

impl SeatSabotage {
    /// The log last: whatever is behind an entry that is wrong cannot be folded.
    pub(in crate::prove) const ALL: [Self; 6] = [
        Self::RowGone,
        Self::Count,
        Self::Endless,
        Self::Twice,
        Self::OpenedTwice,
        Self::ShownFull,
    ];

    /// The invariant that must not hold afterwards.
    pub(in crate::prove) fn breaks(self) -> &'static str {
        match self {
            Self::RowGone => "rows of seats are what the log says",
            Self::Count => "folding the ledger's log gives Redis, byte for byte",
            Self::Endless => "every hold and every wait has ended",
            Self::Twice => "every visitor has one seat",
            Self::OpenedTwice => "as many groups are opened as are needed, each once",
            Self::ShownFull => "no group is shown while it has no free seat",
        }
    }
}

pub(crate) async fn carry_out(stage: &Stage, sabotage: SeatSabotage) -> anyhow::Result<()> {
    let pool = stage.ledger.pool();
    match sabotage {
        SeatSabotage::RowGone => {
            change_one(
                pool,
                "DELETE FROM seats WHERE seat_id = (SELECT seat_id FROM seats WHERE state = 'confirmed' AND matched = 'state' LIMIT 1)",
            )
            .await
        }
        SeatSabotage::Count => count(stage).await,
        SeatSabotage::Endless => {
            change_one(
                pool,
                "UPDATE seats SET state = 'held', ended_at = NULL, reason = NULL
                 WHERE seat_id = (SELECT seat_id FROM seats WHERE state = 'expired' LIMIT 1)",
            )
            .await
        }
        SeatSabotage::Twice => {
            change_one(
                pool,
                "INSERT INTO seats SELECT (jsonb_populate_record(s, jsonb_build_object('seat_id', gen_random_uuid()))).*
                 FROM seats AS s WHERE state = 'confirmed' LIMIT 1",
            )
            .await
        }
        SeatSabotage::OpenedTwice => opened_twice(stage).await,
        SeatSabotage::ShownFull => shown_full(stage).await,
    }
}

async fn count(stage: &Stage) -> anyhow::Result<()> {
    const PEOPLE: usize = 8;
    let chat: String =
        sqlx::query_scalar("SELECT chat_id FROM group_counts ORDER BY people DESC LIMIT 1")
            .fetch_one(stage.ledger.pool())
            .await?;
    let key = format!("{{{CORP}}}:v1:group:{chat}");
    let mut redis = stage.redis.clone();
    let text: String = redis::cmd("GET").arg(&key).query_async(&mut redis).await?;
    let mut fields: Vec<String> = text.split('\u{1f}').map(str::to_owned).collect();
    let people = fields.get_mut(PEOPLE).context("no people")?;
    *people = (people.parse::<u32>()? - 1).to_string();
    redis::cmd("SET")
        .arg(&key)
        .arg(fields.join("\u{1f}"))
        .query_async::<()>(&mut redis)
        .await?;
    Ok(())
}

/// The first word about a group that was in stock says that it is open.
async fn opened_twice(stage: &Stage) -> anyhow::Result<()> {
    let (log, _) = super::checks::read(stage).await?;
    let mut found = None;
    checks::each_entry(stage, |row| {
        if found.is_none()
            && let Ok(entry) = row.parse()
            && let Op::Seats(SeatOp::SetGroup(set)) = &entry.op
            && !set.open()
            && log.opened.contains_key(set.chat())
        {
            let mut entry = entry.clone();
            entry.op = Op::Seats(SeatOp::SetGroup(set.clone().with_open(true)));
            found = Some((row.seq, entry.parts().1));
        }
    })
    .await?;
    let (seq, args) = found.context("no group of the stock was opened")?;
    write(stage, "UPDATE log SET args = $2 WHERE seq = $1", seq, args).await
}

/// A visitor was shown a group, and the log says another one, which was full.
async fn shown_full(stage: &Stage) -> anyhow::Result<()> {
    let mut log = Log::default();
    let mut found = None;
    checks::each_entry(stage, |row| {
        let Ok(entry) = row.parse() else { return };
        if let (Op::Seats(SeatOp::Reserve(_)), Answer::Seats(answer)) =
            (&entry.op, &entry.outcome.answer)
            && let SeatResult::Reserved(reserved) = &answer.result
            && let [Reserved::Held { chat, .. }] = &reserved[..]
            && let Some(full) = log.full_one()
            && found.is_none()
        {
            let result = row.result.replace(chat.as_str(), full.as_str());
            found = Some((row.seq, result));
        }
        log.entry(&entry);
    })
    .await?;
    let (seq, result) = found.context("no group was full")?;
    write(
        stage,
        "UPDATE log SET result = $2 WHERE seq = $1",
        seq,
        result,
    )
    .await
}

async fn write(
    stage: &Stage,
    statement: &'static str,
    seq: u64,
    text: String,
) -> anyhow::Result<()> {
    let changed = sqlx::query(statement)
        .bind(i64::try_from(seq)?)
        .bind(text)
        .execute(stage.ledger.pool())
        .await?
        .rows_affected();
    anyhow::ensure!(changed == 1, "{changed} rows changed");
    Ok(())
}
