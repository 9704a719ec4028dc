//! Callbacks ready to be sent: sealed as WeCom seals them, every one about another customer, whole HTTP requests.
//! Sealing happens before the clock runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wecom::crypto::{Keys, Sealer};
use wecom::envelope;

pub(crate) const CORP: &str = "wwbench0000000001";
pub(crate) const ENDPOINT: &str = "bench";
pub(crate) const TOKEN: &str = "benchT0ken";
pub(crate) const AES_KEY: &str = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG";
/// The State of the channel that leads to the pool.
pub(crate) const STATE: &str = "poster";
/// Who has every customer first.
pub(crate) const DESK: &str = "desk";

/// One customer added one member.
#[derive(Debug, Clone)]
pub(crate) struct Added {
    pub(crate) customer: String,
    pub(crate) welcome_code: String,
}

/// `count` customers whom nobody has seen before.
pub(crate) fn new_customers(count: usize) -> Vec<Added> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let first = NEXT.fetch_add(count as u64, Ordering::Relaxed);
    (first..first + count as u64)
        .map(|number| Added {
            customer: format!("wmBench{number:025}"),
            welcome_code: format!("CALLBACK_CODE_{number:029}"),
        })
        .collect()
}

/// Whether the sender keeps its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connections {
    Kept,
    ClosedByServer,
}

/// Whole HTTP requests, one after the other in one buffer.
#[derive(Debug)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Requests {
    pub(crate) fn seal(customers: &[Added], connections: Connections) -> anyhow::Result<Arc<Self>> {
        let sealer = Sealer::new(Keys::parse(TOKEN, AES_KEY)?, CORP);
        let connection = match connections {
            Connections::Kept => "",
            Connections::ClosedByServer => "Connection: close\r\n",
        };
        let timestamp = (super::now_ms() / 1000).to_string();
        let mut requests = Self {
            bytes: Vec::with_capacity(customers.len() * 1_300),
            ends: Vec::with_capacity(customers.len()),
        };
        for (number, added) in customers.iter().enumerate() {
            let nonce = (1_372_623_149 + number).to_string();
            let sealed = sealer.seal(
                &plaintext(added, &timestamp),
                &timestamp,
                &nonce,
                rand::random(),
            );
            let body = envelope::callback_body(CORP, Some("1000002"), &sealed.encrypt);
            let head = format!(
                "POST /callback/{ENDPOINT}?{} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Mozilla/4.0\r\n\
                 Accept: */*\r\nContent-Type: text/xml\r\n{connection}Content-Length: {}\r\n\r\n",
                sealed.query(),
                body.len()
            );
            requests.bytes.extend_from_slice(head.as_bytes());
            requests.bytes.extend_from_slice(body.as_bytes());
            requests.ends.push(requests.bytes.len());
        }
        Ok(Arc::new(requests))
    }

    /// Of `count` new customers.
    pub(crate) fn new(count: usize, connections: Connections) -> anyhow::Result<Arc<Self>> {
        Self::seal(&new_customers(count), connections)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..end)
    }
}

/// `add_external_contact`, about as long as WeCom's own.
pub(crate) fn plaintext(added: &Added, timestamp: &str) -> String {
    let Added {
        customer,
        welcome_code,
    } = added;
    format!(
        "<xml><ToUserName><![CDATA[{CORP}]]></ToUserName><FromUserName><![CDATA[sys]]></FromUserName>\
         <CreateTime>{timestamp}</CreateTime><MsgType><![CDATA[event]]></MsgType>\
         <Event><![CDATA[change_external_contact]]></Event>\
         <ChangeType><![CDATA[add_external_contact]]></ChangeType><UserID><![CDATA[{DESK}]]></UserID>\
         <ExternalUserID><![CDATA[{customer}]]></ExternalUserID><State><![CDATA[{STATE}]]></State>\
         <WelcomeCode><![CDATA[{welcome_code}]]></WelcomeCode></xml>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use wecom::crypto::Receiver;
    use wecom::envelope::Query;

    #[test]
    fn a_sealed_request_can_be_opened() {
        let customers = new_customers(2);
        let requests = Requests::seal(&customers, Connections::Kept).unwrap();
        let text = std::str::from_utf8(requests.get(1).unwrap()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let query = head.split(['?', ' ']).nth(2).unwrap();
        let envelope = envelope::parse(body.as_bytes()).unwrap();
        let keys = Keys::parse(TOKEN, AES_KEY).unwrap();
        let receiver = Receiver::new(vec![keys], vec![CORP.to_owned()]).unwrap();
        let opened = receiver
            .open(&Query::parse(query).unwrap(), &envelope.encrypt)
            .unwrap();
        assert!(opened.plaintext.contains(&customers[1].customer));
        assert!(requests.get(2).is_none() && requests.len() == 2);
    }
}
