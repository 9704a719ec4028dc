//! What only WeCom can tell: whether secret, agent id, address and permissions are right.

use std::sync::Arc;

use secrecy::SecretString;
use wecom::{
    Error,
    client::{App, Client, MemoryTokenStore, http_client},
};

use super::{Check, Verdict};
use crate::config;

/// A client that asks WeCom for a token of its own. The shared one was got with whatever secret was right then, so it
/// proves nothing; and it is left as it is, for those who work with it.
pub(super) fn client(
    base_url: &str,
    corp_id: &str,
    corp: &config::Corp,
    secret: SecretString,
) -> Result<Client, Error> {
    let app = App {
        corp_id: corp_id.to_owned(),
        agent_id: corp.agent_id,
        secret,
    };
    let tokens = Arc::new(MemoryTokenStore::default());
    Client::new(http_client()?, base_url, app, tokens)
}

/// The secret, the app, its permission. What cannot be known without what failed before is not asked.
pub(super) async fn checks(client: &Client) -> Vec<Check> {
    let corp = client.app().corp_id.clone();
    let mut checks = vec![secret(&corp, client).await];
    for next in [0, 1] {
        if checks.iter().any(|check| check.verdict == Verdict::Failed) {
            break;
        }
        checks.push(match next {
            0 => agent(&corp, client).await,
            _ => contact(&corp, client).await,
        });
    }
    checks
}

async fn secret(corp: &str, client: &Client) -> Check {
    let name = format!("WeCom secret of {corp}");
    match client.ensure_token().await {
        Ok(_) => Check::new(name, Verdict::Ok, "WeCom gives a token for it", ""),
        Err(error) => {
            let mend = mend(
                &error,
                "check wecom.base_url, DNS and the firewall: WeCom does not answer as it should",
            );
            Check::failed(name, &error, mend)
        }
    }
}

async fn agent(corp: &str, client: &Client) -> Check {
    let name = format!("WeCom app of {corp}");
    let agent_id = client.app().agent_id;
    match client.get_agent().await {
        Ok(agent) if agent.close == Some(1) => {
            let mend = "switch the app on again (启用) in WeCom's console";
            let found = format!("{agent_id} is switched off");
            Check::new(name, Verdict::Failed, found, mend)
        }
        Ok(_) => {
            let found = format!("{agent_id} is the app of the secret");
            Check::new(name, Verdict::Ok, found, "")
        }
        Err(error) => match error.errcode() {
            Some(301_002 | 40_056) => {
                let found = format!("{agent_id} is not the app of the secret: {error}");
                let mend = format!(
                    "set corps.{corp}.agent_id to the AgentId on the page of the app whose secret this is"
                );
                Check::new(name, Verdict::Failed, found, &mend)
            }
            Some(60_020) => Check::failed(name, &error, mend(&error, "")),
            // Whether the id is right stays open, and everything else can be asked.
            _ => {
                let mend = "compare agent_id with the AgentId on the app's page: WeCom does not say whether it is right";
                Check::new(name, Verdict::Warning, error.to_string(), mend)
            }
        },
    }
}

async fn contact(corp: &str, client: &Client) -> Check {
    let name = format!("customer contact of {corp}");
    match client.get_follow_user_list().await {
        Ok(members) if members.is_empty() => {
            let mend = "no member with customer contact (客户联系) is in the app's visible range (可见范围)";
            Check::new(name, Verdict::Warning, "no members", mend)
        }
        Ok(members) => Check::new(name, Verdict::Ok, format!("{} members", members.len()), ""),
        Err(error) => {
            let mend = mend(
                &error,
                "list the app under 客户联系 → 可调用接口的应用, and check its visible range",
            );
            Check::failed(name, &error, mend)
        }
    }
}

fn mend(error: &Error, otherwise: &'static str) -> &'static str {
    match error.errcode() {
        Some(40_001 | 40_013 | 40_091) => {
            "corp id or secret is wrong, or the app is switched off: copy the app's own secret from the console"
        }
        Some(60_020) => {
            "add this machine's address to the app's trusted IPs (企业可信IP); it takes a minute to act"
        }
        Some(45_009) => {
            "too many calls, perhaps with a wrong secret: WeCom refuses this address for up to an hour"
        }
        _ => otherwise,
    }
}
