//! Everybody is on, and stays so for as long as the stage stands.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CORP, Stage};
use crate::progress::say;

/// The longest that the REST API takes. A machine that sleeps over lunch finds everybody where he was.
const LEASE_S: u64 = 86_400;
const RENEW_EVERY: Duration = Duration::from_secs(600);

impl Stage {
    /// Everybody is on.
    pub(crate) async fn heartbeat(&self) -> anyhow::Result<()> {
        let members = self.members.iter().map(|(member, _)| on(member)).collect();
        self.be_on(self.console(), members).await
    }

    /// Renews for ever, and says when that fails.
    pub(crate) async fn keep_online(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(RENEW_EVERY).await;
            if let Err(error) = self.renew().await {
                say(
                    "Warning",
                    &format!("the members' presence was not renewed: {error:#}"),
                );
            }
        }
    }

    /// Over the first allocator that answers.
    async fn renew(&self) -> anyhow::Result<()> {
        let consoles = self.allocators().map(|node| node.url.as_str());
        first_that_answers(consoles, |console| self.renew_at(console)).await
    }

    async fn renew_at(&self, console: &str) -> anyhow::Result<()> {
        let url = format!("{console}/api/v1/corps/{CORP}/presence?limit=100");
        let answer = self.http.get(url).bearer_auth(&self.key).send().await?;
        let listed: Value = answer.error_for_status()?.json().await?;
        let members = renewals(&self.members, &listed);
        if members.is_empty() {
            return Ok(());
        }
        self.be_on(console, members).await
    }

    async fn be_on(&self, console: &str, members: Vec<Value>) -> anyhow::Result<()> {
        let body = json!({"members": members});
        self.put_at(console, "presence", &body).await
    }
}

/// Asks one after the other until one call succeeds; else the error of the last.
async fn first_that_answers<'a, Fut>(
    consoles: impl Iterator<Item = &'a str>,
    mut call: impl FnMut(&'a str) -> Fut,
) -> anyhow::Result<()>
where
    Fut: Future<Output = anyhow::Result<()>>,
{
    let mut last = Err(anyhow::anyhow!("there is no allocator"));
    for console in consoles {
        last = call(console).await;
        if last.is_ok() {
            break;
        }
    }
    last
}

fn on(member: &str) -> Value {
    json!({"member": member, "online": true, "lease_seconds": LEASE_S})
}

/// For ours who are still on: whom somebody took off stays off, and others keep their own leases.
fn renewals(ours: &[(String, u32)], listed: &Value) -> Vec<Value> {
    let on_now: Vec<&str> = listed["data"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| row["member"].as_str())
        .collect();
    ours.iter()
        .filter(|(member, _)| on_now.iter().any(|on| on.eq_ignore_ascii_case(member)))
        .map(|(member, _)| on(member))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_allocator_that_is_gone_does_not_stop_the_renewal() {
        let mut asked = Vec::new();
        let done = first_that_answers(["gone", "there", "spare"].into_iter(), |console| {
            asked.push(console);
            async move {
                anyhow::ensure!(console != "gone", "{console} does not answer");
                Ok(())
            }
        });
        done.await.unwrap();
        assert_eq!(asked, ["gone", "there"]);
        let all_gone = first_that_answers(["a", "b"].into_iter(), |console| async move {
            anyhow::bail!("{console} does not answer")
        });
        let error = all_gone.await.unwrap_err().to_string();
        assert_eq!(error, "b does not answer");
    }

    #[test]
    fn only_ours_who_are_on_are_renewed() {
        let ours = [("zhangsan".to_owned(), 4), ("lisi".to_owned(), 3)];
        let listed = json!({"data": [
            {"member": "ZhangSan", "online": true, "lease_until": null},
            {"member": "xiaoming", "online": true, "lease_until": null},
        ]});
        assert_eq!(
            renewals(&ours, &listed),
            [json!({"member": "zhangsan", "online": true, "lease_seconds": 86_400})]
        );
        assert!(renewals(&ours, &json!({"data": []})).is_empty());
    }
}
