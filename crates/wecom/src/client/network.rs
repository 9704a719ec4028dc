//! WeCom's own addresses.

use serde::Deserialize;

use super::{Client, api, lenient};
use crate::Error;

#[derive(Deserialize)]
struct IpList {
    #[serde(default, deserialize_with = "lenient::null_is_default")]
    ip_list: Vec<String>,
}

impl Client {
    /// The addresses callbacks come from; entries may be wildcards like `101.226.62.*`. Old and new ones
    /// overlap for a while: read daily.
    pub async fn get_callback_ip(&self) -> Result<Vec<String>, Error> {
        let list: IpList = self.get(api::GET_CALLBACK_IP, &[]).await?;
        Ok(list.ip_list)
    }

    /// The addresses that API calls go to.
    pub async fn get_api_domain_ip(&self) -> Result<Vec<String>, Error> {
        let list: IpList = self.get(api::GET_API_DOMAIN_IP, &[]).await?;
        Ok(list.ip_list)
    }
}
