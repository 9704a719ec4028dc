//! What only WeCom can tell: whether secret, address and permissions are right.

use super::{Check, Verdict};
use crate::app::CorpApp;

/// A token, the app's permission and the address WeCom sees.
pub(super) async fn checks(corp: &CorpApp) -> Vec<Check> {
    let mut checks = Vec::new();
    let ips = corp.client.get_callback_ip().await;
    let name = format!("WeCom token of {}", corp.id);
    match &ips {
        Ok(_) => checks.push(Check::new(name, Verdict::Ok, "works", "")),
        Err(error) => {
            let mend = match error.errcode() {
                Some(40001 | 40013 | 40091) => {
                    "corp id or secret is wrong: copy the app's own secret from the console"
                }
                Some(60020) => {
                    "add this machine's address to the app's trusted IPs (企业可信IP); it takes a minute to act"
                }
                _ => "WeCom cannot be reached: check wecom.base_url, DNS and the firewall",
            };
            checks.push(Check::new(name, Verdict::Failed, error.to_string(), mend));
            return checks;
        }
    }
    let name = format!("customer contact of {}", corp.id);
    checks.push(match corp.client.get_follow_user_list().await {
        Ok(members) if members.is_empty() => {
            let mend = "no member with customer contact (客户联系) is in the app's visible range (可见范围)";
            Check::new(name, Verdict::Warning, "no members", mend)
        }
        Ok(members) => Check::new(name, Verdict::Ok, format!("{} members", members.len()), ""),
        Err(error) => {
            let mend = "list the app under 客户联系 → 可调用接口的应用, and check its visible range";
            Check::new(name, Verdict::Failed, error.to_string(), mend)
        }
    });
    checks
}
