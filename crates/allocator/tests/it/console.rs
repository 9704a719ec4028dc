//! What a console sends, and what it gets.

use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
    pub(crate) key: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text)
            .unwrap_or_else(|_| panic!("{}: {}", self.status, self.text))
    }

    /// The body of a request that must work.
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{}: {}", self.status, self.text);
        if self.text.is_empty() {
            Value::Null
        } else {
            self.json()
        }
    }

    /// Status and stable code of a request that must not work.
    pub(crate) fn refused(&self) -> (u16, String) {
        assert!(!self.status.is_success(), "{}: {}", self.status, self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(problem["request_id"].is_string(), "{problem}");
        (
            self.status.as_u16(),
            problem["code"].as_str().unwrap().to_owned(),
        )
    }

    /// Pointers of the fields that are wrong.
    pub(crate) fn pointers(&self) -> Vec<String> {
        assert_eq!(self.status, 422, "{}", self.text);
        let errors = self.json()["errors"].as_array().cloned().unwrap();
        errors
            .iter()
            .map(|error| error["pointer"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn etag(&self) -> String {
        assert!(self.status.is_success(), "{}", self.text);
        self.header("etag").to_owned()
    }
}

impl Console {
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], None).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, &[], Some(body)).await
    }

    pub(crate) async fn put_if(&self, path: &str, condition: (&str, &str), body: Value) -> Answer {
        self.send(Method::PUT, path, &[condition], Some(body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    pub(crate) async fn post_once(&self, path: &str, key: &str, body: Value) -> Answer {
        self.send(Method::POST, path, &[("idempotency-key", key)], Some(body))
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], None).await
    }

    /// Members are on for an hour.
    pub(crate) async fn on(&self, members: &[&str]) {
        let members: Vec<Value> = members
            .iter()
            .map(|member| json!({"member": member, "online": true, "lease_seconds": 3600}))
            .collect();
        self.put("/presence", json!({"members": members}))
            .await
            .ok();
    }

    /// Asks who gets a customer of a pool.
    pub(crate) async fn ask(&self, pool: &str, customer: &str) -> Value {
        let body = json!({"subject": {"kind": "wecom", "id": customer}, "pool": pool});
        self.post("/allocations", body).await.ok()
    }

    /// All rows of a list, page by page.
    pub(crate) async fn all(&self, path: &str) -> Vec<Value> {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        let sign = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self
                .get(&format!("{path}{sign}limit=250{cursor}"))
                .await
                .ok();
            rows.extend(page["data"].as_array().cloned().unwrap());
            match page["page"]["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return rows,
            }
        }
    }
}

pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Answer {
        status,
        headers,
        text: response.text().await.unwrap(),
    }
}
