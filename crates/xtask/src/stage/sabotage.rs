//! Breaking each promise on purpose: a proof that does not notice proves nothing.

use serde_json::{Value, json};

use super::{CORP, SECRET, Stage};
use crate::progress::say;
use crate::prove::Sabotage;

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
                        decided_seq, changed_seq FROM allocations LIMIT 1",
                )
                .execute(pool)
                .await?;
            }
            Sabotage::Log => {
                sqlx::query("DELETE FROM log WHERE seq = (SELECT max(seq) - 1 FROM log)")
                    .execute(pool)
                    .await?;
            }
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
