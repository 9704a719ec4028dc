//! The app itself.

use super::call::answer;
use super::{Call, Reply};

/// An app reads itself and no other: 301002, and 40056 without a number.
pub(crate) fn get(call: &Call<'_>) -> Reply {
    answer((|| {
        let agent_id = call.fields.filled("agentid").ok_or(40056)?;
        if agent_id != call.app.agent_id.to_string() {
            return Err(301002);
        }
        Ok(Reply::ok()
            .with("agentid", call.app.agent_id)
            .with("name", format!("app {}", call.app.agent_id))
            .with("close", 0))
    })())
}
