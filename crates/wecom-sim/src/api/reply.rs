//! The answer of an API.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::{Api, errmsg};

#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    pub(crate) code: i32,
    fields: Map<String, Value>,
    /// A field that is JSON already: a group's members are many, and written a thousand times a minute.
    written: Option<(&'static str, String)>,
    /// Something changed at WeCom.
    pub(crate) effect: bool,
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::default()
    }

    pub(crate) fn error(code: i32) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }

    /// Success that changed something.
    pub(crate) fn done() -> Self {
        Self {
            effect: true,
            ..Self::default()
        }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    /// A field whose value is written already.
    pub(crate) fn with_json(mut self, name: &'static str, json: String) -> Self {
        self.written = Some((name, json));
        self
    }

    /// RFC 7386.
    pub(crate) fn merge(&mut self, patch: &Value) {
        if let Some((name, json)) = self.written.take() {
            let value = serde_json::from_str(&json).unwrap_or_default();
            self.fields.insert(name.to_owned(), value);
        }
        let mut whole = Value::Object(std::mem::take(&mut self.fields));
        crate::merge::merge(&mut whole, patch);
        if let Value::Object(fields) = whole {
            self.fields = fields;
        }
        if let Some(code) = self.fields.remove("errcode").and_then(|code| code.as_i64()) {
            self.code = i32::try_from(code).unwrap_or(-1);
        }
    }

    /// The JSON body and errmsg. The text of errmsg is WeCom's form; its hint is made of our own numbers.
    pub(crate) fn render(
        &self,
        api: Api,
        ip: IpAddr,
        hint: u64,
        warned: bool,
    ) -> (Vec<u8>, String) {
        let mut message = errmsg(self.code).to_owned();
        if self.code != 0 {
            message = format!(
                "{message}, hint: [{hint}], from ip: {ip}, more info at \
                 https://open.work.weixin.qq.com/devtool/query?e={}",
                self.code
            );
        }
        if warned {
            message.push_str(". Warning: wrong json format.");
        }
        let mut body = format!(
            "{{\"errcode\":{},\"errmsg\":{}",
            self.code,
            Value::from(message.as_str())
        )
        .into_bytes();
        let mut put = |name: &str, value: &Value| {
            body.extend_from_slice(b",\"");
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(b"\":");
            // Writing to memory cannot fail.
            let _infallible = serde_json::to_writer(&mut body, value);
        };
        for (name, value) in self.fields.iter().filter(|(name, _)| *name != "errmsg") {
            put(name, value);
        }
        if self.code != 0 {
            for name in api
                .spec()
                .lists
                .iter()
                .filter(|name| !self.fields.contains_key(**name))
            {
                put(name, &Value::Array(Vec::new()));
            }
        }
        if let Some((name, json)) = &self.written {
            body.extend_from_slice(b",\"");
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(b"\":");
            body.extend_from_slice(json.as_bytes());
        }
        body.push(b'}');
        (body, message)
    }
}
