//! Addresses. The fake's own are from the documentation range.

use serde_json::json;

use super::{Call, Reply};

/// Where callbacks come from.
pub(crate) fn getcallbackip(_call: &Call<'_>) -> Reply {
    Reply::ok().with("ip_list", json!(["127.0.0.1", "203.0.113.*"]))
}

/// Where the API answers.
pub(crate) fn get_api_domain_ip(_call: &Call<'_>) -> Reply {
    Reply::ok().with("ip_list", json!(["127.0.0.1", "198.51.100.1"]))
}
