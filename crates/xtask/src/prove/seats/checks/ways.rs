//! Join ways at WeCom against the rows.

use std::collections::HashMap;

use serde_json::Value;
use wecom_sim::CorpState;

use crate::prove::checks::{Invariant, invariant};
use crate::prove::seats::log::Problems;
use crate::stage::Stage;

/// Each leads into its one group; there is none that the rows do not know, but for those whose answer got lost.
pub(super) async fn all(stage: &Stage, wecom: &CorpState) -> anyhow::Result<Vec<Invariant>> {
    type Row = (Option<String>, Option<Vec<String>>, i32, String);
    let rows: Vec<Row> = sqlx::query_as("SELECT config_id, told_chats, lost, state FROM join_ways")
        .fetch_all(stage.ledger.pool())
        .await?;
    let lost: i64 = rows.iter().map(|(_, _, lost, _)| i64::from(*lost)).sum();
    let mut known: HashMap<&str, &[String]> = HashMap::new();
    let mut problems = Problems::default();
    for (config, chats, _, state) in &rows {
        match (config, chats) {
            (Some(config), Some(chats)) if state != "gone" => {
                known.insert(config, chats);
            }
            _ if state == "gone" => {}
            _ => problems.add(|| format!("a way is {state}")),
        }
    }
    let mut orphans = 0;
    for way in &wecom.join_ways {
        let chats = texts(&way["chat_id_list"]);
        let config = way["config_id"].as_str().unwrap_or_default();
        match known.remove(config) {
            Some(told) if told != chats || chats.len() != 1 => {
                problems.add(|| format!("{config} leads to {chats:?}, not to {told:?}"));
            }
            Some(_) => {}
            None => orphans += 1,
        }
    }
    for config in known.keys() {
        problems.add(|| format!("{config} is not at WeCom"));
    }
    Ok(vec![invariant(
        "every join way leads into its group, and none is an orphan",
        problems.count == 0 && orphans <= lost,
        wecom.join_ways.len() as u64,
        format!(
            "{}; {orphans} orphans, {lost} answers lost",
            problems.text()
        ),
    )])
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts
        .filter_map(|one| Some(one.as_str()?.to_owned()))
        .collect()
}
