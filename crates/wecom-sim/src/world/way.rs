//! A contact way (「联系我」).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::member::Member;

#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) config_id: Arc<str>,
    /// Its place in lists.
    pub(crate) rank: u64,
    pub(crate) created_ms: i64,
    /// 1 one member, 2 several.
    pub(crate) kind: i64,
    /// 1 mini program, 2 QR code.
    pub(crate) scene: i64,
    pub(crate) style: Option<i64>,
    pub(crate) remark: String,
    pub(crate) skip_verify: bool,
    pub(crate) state: String,
    pub(crate) users: Vec<Arc<Member>>,
    pub(crate) party: Vec<i64>,
    pub(crate) is_temp: bool,
    pub(crate) expires_in: i64,
    pub(crate) chat_expires_in: i64,
    pub(crate) unionid: String,
    pub(crate) is_exclusive: bool,
    pub(crate) mark_source: bool,
    pub(crate) conclusions: Value,
    /// A temporary way dies with its first use.
    pub(crate) used: bool,
}

impl Way {
    pub(crate) fn usable(&self, now_ms: i64) -> bool {
        !self.is_temp
            || (!self.used
                && now_ms
                    < self
                        .created_ms
                        .saturating_add(self.expires_in.saturating_mul(1_000)))
    }

    /// Where its picture is, for a caller who reaches the simulator as `host`.
    pub(crate) fn qr_code(&self, host: &str) -> Option<String> {
        (self.scene == 2).then(|| format!("http://{host}/wwqr/{}.png", self.config_id))
    }

    /// As get_contact_way shows it; without a caller no picture.
    pub(crate) fn shown(&self, host: Option<&str>) -> Value {
        let mut shown = Map::new();
        let mut put = |key: &str, value: Value| shown.insert(key.to_owned(), value);
        put("config_id", json!(&*self.config_id));
        put("type", json!(self.kind));
        put("scene", json!(self.scene));
        put("remark", json!(self.remark));
        put("skip_verify", json!(self.skip_verify));
        put("state", json!(self.state));
        put(
            "user",
            self.users
                .iter()
                .map(|member| Value::from(&*member.userid))
                .collect(),
        );
        put("party", json!(self.party));
        put("is_temp", json!(self.is_temp));
        put("is_exclusive", json!(self.is_exclusive));
        put("mark_source", json!(self.mark_source));
        if let Some(style) = self.style {
            put("style", json!(style));
        }
        if let Some(qr_code) = host.and_then(|host| self.qr_code(host)) {
            put("qr_code", json!(qr_code));
        }
        if self.is_temp {
            put("expires_in", json!(self.expires_in));
            put("chat_expires_in", json!(self.chat_expires_in));
            put("unionid", json!(self.unionid));
            put("conclusions", self.conclusions.clone());
        }
        Value::Object(shown)
    }
}
