//! The app itself (应用).

use serde::{Deserialize, Serialize};

use super::{Client, api, lenient};
use crate::{Error, Redacted};

/// What WeCom says of an app to its own token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its number.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub agentid: Option<i64>,
    /// Its name.
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    pub name: Redacted,
    /// 1 when an administrator has switched it off.
    #[serde(
        default,
        deserialize_with = "lenient::int",
        skip_serializing_if = "Option::is_none"
    )]
    pub close: Option<i64>,
}

impl Client {
    /// Reads the app this client calls for. If the token is another app's, WeCom answers 301002 or 40056.
    pub async fn get_agent(&self) -> Result<Agent, Error> {
        let agent_id = self.app().agent_id.to_string();
        self.get(api::GET_AGENT, &[("agentid", &agent_id)]).await
    }
}
