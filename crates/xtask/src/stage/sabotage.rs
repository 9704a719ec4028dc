//! Breaking each promise on purpose: a proof that does not notice proves nothing.

use serde_json::{Value, json};

use super::{CORP, SECRET, Stage};
use crate::progress::say;
use crate::prove::Sabotage;
use crate::prove::seats::sabotage::carry_out;

impl Stage {
    /// Breaks a promise behind everybody's back.
    pub(crate) async fn sabotage(&self, sabotage: Sabotage) -> anyhow::Result<()> {
        say("Breaking", &format!("{sabotage:?}, on purpose"));
        let pool = self.ledger.pool();
        match sabotage {
            Sabotage::Load => {
                // One member's entry becomes a copy of another's, load and pools included.
                let key = |member: &str| format!("{{{CORP}}}:v1:member:{member}");
                redis::cmd("COPY")
                    .arg(key(&self.members[1].0))
                    .arg(key(&self.members[0].0))
                    .arg("REPLACE")
                    .query_async::<()>(&mut self.redis.clone())
                    .await?;
            }
            Sabotage::Twice => {
                sqlx::query(
                    "INSERT INTO allocations (id, corp_id, pool_id, customer_id, subject, member, source, decided_at,
                        assigned_at, decided_seq, changed_seq)
                     SELECT gen_random_uuid(), corp_id, 'other', customer_id, subject, member, 'sabotage', now(), now(),
                        decided_seq, changed_seq FROM allocations WHERE state = 'open' LIMIT 1",
                )
                .execute(pool)
                .await?;
            }
            Sabotage::Log => {
                sqlx::query("DELETE FROM log WHERE seq = (SELECT max(seq) - 1 FROM log)")
                    .execute(pool)
                    .await?;
            }
            Sabotage::SlotKept => {
                let slot: String = sqlx::query_scalar(
                    "SELECT way FROM contact_ways WHERE kind = 'slot' AND state = 'ready' LIMIT 1",
                )
                .fetch_one(pool)
                .await?;
                let key = format!("{{{CORP}}}:v1:slot:{slot}");
                let mut redis = self.redis.clone();
                let text: String = redis::cmd("GET").arg(&key).query_async(&mut redis).await?;
                let lent = text.replace("\u{1f}F\u{1f}", "\u{1f}B\u{1f}");
                anyhow::ensure!(lent != text, "{slot} is lent");
                redis::cmd("SET")
                    .arg(&key)
                    .arg(lent)
                    .query_async::<()>(&mut redis)
                    .await?;
            }
            Sabotage::OtherVisitor => {
                change_one(
                    pool,
                    "UPDATE visits SET visitor = (SELECT visitor FROM visits WHERE matched IS NULL LIMIT 1)
                     WHERE allocation_id = (SELECT allocation_id FROM visits WHERE matched = 'slot' LIMIT 1)",
                )
                .await?;
            }
            Sabotage::SlotTwice => {
                change_one(
                    pool,
                    "WITH two AS (
                        SELECT one.allocation_id AS id, other.slot AS slot FROM visits AS one
                        JOIN visits AS other ON other.slot <> one.slot
                            AND other.held_until - other.hold_ms * interval '1 ms' < one.ended_at
                            AND one.held_until - one.hold_ms * interval '1 ms' < other.ended_at
                        LIMIT 1)
                     UPDATE visits SET slot = two.slot FROM two WHERE allocation_id = two.id",
                )
                .await?;
            }
            Sabotage::Endless => {
                change_one(
                    pool,
                    "UPDATE visits SET ended_at = NULL, ended_as = NULL
                     WHERE allocation_id = (SELECT allocation_id FROM visits WHERE ended_as = 'expired' LIMIT 1)",
                )
                .await?;
            }
            Sabotage::Seats(one) => carry_out(self, one).await?,
            Sabotage::Transfer => {
                // No fault of the scenario may come between.
                self.http
                    .delete(format!("{}/sim/faults", self.sim_url))
                    .send()
                    .await?;
                // A day later, so that the first transfer is over and a second one is accepted.
                self.sim("clock", &json!({"advance_ms": 90_000_000}))
                    .await?;
                let token = self.http.get(format!(
                    "{}/cgi-bin/gettoken?corpid={CORP}&corpsecret={SECRET}",
                    self.sim_url
                ));
                let token: Value = token.send().await?.json().await?;
                let token = token["access_token"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let customer: Option<String> =
                    sqlx::query_scalar("SELECT external_id FROM customers LIMIT 1")
                        .fetch_one(pool)
                        .await?;
                let url = format!(
                    "{}/cgi-bin/externalcontact/transfer_customer?access_token={token}",
                    self.sim_url
                );
                for (taker, _) in &self.members {
                    for giver in self
                        .members
                        .iter()
                        .map(|(giver, _)| giver)
                        .filter(|giver| *giver != taker)
                    {
                        let body = json!({"handover_userid": giver, "takeover_userid": taker, "external_userid": [customer]});
                        self.http.post(&url).json(&body).send().await?;
                    }
                }
            }
        }
        Ok(())
    }
}

pub(crate) async fn change_one(pool: &sqlx::PgPool, statement: &'static str) -> anyhow::Result<()> {
    let changed = sqlx::query(statement).execute(pool).await?.rows_affected();
    anyhow::ensure!(changed == 1, "{changed} rows changed");
    Ok(())
}
