//! The outside of a callback: its query string and the XML around the ciphertext (page 90930).
//!
//! Nothing here is authenticated. `ToUserName` and `AgentID` may help to find a log line; they must
//! never choose a key or a corp. Only the direct child `Encrypt` of the root counts, and only one.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2};
use serde::Deserialize;

use crate::crypto::Sealed;
use crate::xml::{Scanner, Token, XmlError};

/// Why an envelope was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not UTF-8, the only encoding WeCom uses.
    #[error("envelope is not UTF-8")]
    Utf8,
    /// Not one well-formed XML element, or more of it than we read.
    #[error("envelope: {0}")]
    Xml(#[from] XmlError),
    /// Not the JSON object that [`parse_json`] expects.
    #[error("envelope is not the expected JSON object")]
    Json,
    /// The root element is not `xml`.
    #[error("envelope has another root than <xml>")]
    Root,
    /// No `Encrypt` child, or an empty one.
    #[error("envelope has no Encrypt")]
    NoEncrypt,
    /// Two `Encrypt` children: which one is signed would be a guess.
    #[error("envelope has more than one Encrypt")]
    TwoEncrypt,
}

/// The outer document of a POST (page 90930). Borrows from the body wherever the text allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope<'a> {
    /// Corp id, or the suite id on a suite's command URL. Not authenticated; empty when absent.
    pub to_user_name: Cow<'a, str>,
    /// The receiving app. Absent or empty on everything that is not about an app. Not authenticated.
    pub agent_id: Option<Cow<'a, str>>,
    /// The base64 text that is signed, without blanks around it.
    pub encrypt: Cow<'a, str>,
}

/// Reads the XML envelope of an app's callback. The Content-Type does not matter: WeCom states none.
pub fn parse(body: &[u8]) -> Result<Envelope<'_>, EnvelopeError> {
    let text = std::str::from_utf8(body).map_err(|_| EnvelopeError::Utf8)?;
    let mut scanner = Scanner::new(text)?;
    let (mut to_user_name, mut agent_id, mut encrypt) = (None, None, None);
    loop {
        let (name, text) = match scanner.plain_element() {
            Some((name, text)) if scanner.depth() == 1 => (name, Cow::Borrowed(text)),
            Some(_) => continue,
            None => match scanner.next()? {
                None => break,
                Some(Token::Open("xml")) if scanner.depth() == 1 => continue,
                Some(Token::Open(_)) if scanner.depth() == 1 => return Err(EnvelopeError::Root),
                Some(Token::Open(name)) if scanner.depth() == 2 => (name, scanner.element_text()?),
                Some(_) => continue,
            },
        };
        match name {
            "Encrypt" if encrypt.is_some() => return Err(EnvelopeError::TwoEncrypt),
            "Encrypt" => encrypt = Some(trimmed(text)),
            "ToUserName" => to_user_name = Some(trimmed(text)),
            "AgentID" => agent_id = Some(trimmed(text)),
            _ => {}
        }
    }
    Ok(Envelope {
        to_user_name: to_user_name.unwrap_or_default(),
        agent_id: agent_id.filter(|id| !id.is_empty()),
        encrypt: encrypt
            .filter(|text| !text.is_empty())
            .ok_or(EnvelopeError::NoEncrypt)?,
    })
}

/// Reads the JSON envelope of a smart robot in webhook mode (page 101033), or of Tencent's JSON samples.
/// Apps send XML; an app's endpoint should not accept this.
pub fn parse_json(body: &[u8]) -> Result<Envelope<'_>, EnvelopeError> {
    #[derive(Deserialize)]
    struct Json<'a> {
        #[serde(borrow, default)]
        tousername: Cow<'a, str>,
        #[serde(default)]
        agentid: serde_json::Value,
        #[serde(borrow, default, alias = "Encrypt")]
        encrypt: Cow<'a, str>,
    }
    // serde would also take an array of the values.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(EnvelopeError::Json);
    }
    let json: Json<'_> = serde_json::from_slice(body).map_err(|_| EnvelopeError::Json)?;
    if json.encrypt.is_empty() {
        return Err(EnvelopeError::NoEncrypt);
    }
    // A number in Tencent's sample, text elsewhere.
    let agent_id = match json.agentid {
        serde_json::Value::String(id) => Some(id),
        serde_json::Value::Number(id) => Some(id.to_string()),
        _ => None,
    };
    Ok(Envelope {
        to_user_name: json.tousername,
        agent_id: agent_id.map(Cow::Owned),
        encrypt: json.encrypt,
    })
}

fn trimmed(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_ascii()),
        Cow::Owned(text) => Cow::Owned(text.trim_ascii().to_owned()),
    }
}

/// Why a query string was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A parameter is absent or empty.
    #[error("query parameter {0} is missing")]
    Missing(&'static str),
    /// A parameter is there twice: which one counts would be a guess.
    #[error("query parameter {0} is repeated")]
    Repeated(&'static str),
}

/// The parameters of a callback, percent-decoded exactly once (page 90930).
///
/// Values are text: a time stamp is signed as it was written, so it is never read as a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query<'a> {
    /// 40 lower-case hex digits.
    pub msg_signature: Cow<'a, str>,
    /// Decimal seconds.
    pub timestamp: Cow<'a, str>,
    /// Any text.
    pub nonce: Cow<'a, str>,
    /// Only in a URL verification (GET).
    pub echostr: Option<Cow<'a, str>>,
}

impl<'a> Query<'a> {
    /// Reads what stands behind the `?`, as it was on the wire. Parameters may come in any order.
    pub fn parse(raw: &'a str) -> Result<Self, QueryError> {
        let mut values: [Option<Cow<'a, str>>; 4] = [None, None, None, None];
        let mut start = 0;
        for end in memchr_iter(b'&', raw.as_bytes()).chain([raw.len()]) {
            let pair = &raw[start..end];
            start = end + 1;
            let equals = memchr(b'=', pair.as_bytes()).unwrap_or(pair.len());
            let (name, value) = (&pair[..equals], pair.get(equals + 1..).unwrap_or_default());
            let Some(index) = NAMES.iter().position(|known| *known == name) else {
                continue;
            };
            if values[index].replace(percent_decoded(value)).is_some() {
                return Err(QueryError::Repeated(NAMES[index]));
            }
        }
        let [msg_signature, timestamp, nonce, echostr] =
            values.map(|value| value.filter(|text| !text.is_empty()));
        Ok(Self {
            msg_signature: msg_signature.ok_or(QueryError::Missing(NAMES[0]))?,
            timestamp: timestamp.ok_or(QueryError::Missing(NAMES[1]))?,
            nonce: nonce.ok_or(QueryError::Missing(NAMES[2]))?,
            echostr,
        })
    }

    /// The same for a GET, where `echostr` must be there too.
    pub fn parse_verification(raw: &'a str) -> Result<Self, QueryError> {
        let query = Self::parse(raw)?;
        match query.echostr {
            Some(_) => Ok(query),
            None => Err(QueryError::Missing(NAMES[3])),
        }
    }
}

/// `+` is a blank and `%XX` a byte, as forms have it; a stray `%` stays. Bytes that are no UTF-8 are
/// replaced, and the signature fails.
fn percent_decoded(value: &str) -> Cow<'_, str> {
    if memchr2(b'%', b'+', value.as_bytes()).is_none() {
        return Cow::Borrowed(value);
    }
    let mut decoded = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = after.split_at_checked(2).filter(|_| byte == b'%');
        let escaped = escaped.and_then(|(digits, after)| Some((hex_byte(digits)?, after)));
        let (byte, after) = escaped.unwrap_or((if byte == b'+' { b' ' } else { byte }, after));
        decoded.push(byte);
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let [high, low] = digits else { return None };
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

const NAMES: [&str; 4] = ["msg_signature", "timestamp", "nonce", "echostr"];

/// The body WeCom posts around a ciphertext. `agent_id` is `Some("")` on suite callbacks and `None`
/// where no app is meant (page 90930).
pub fn callback_body(to_user_name: &str, agent_id: Option<&str>, encrypt: &str) -> String {
    let mut body = String::with_capacity(160 + encrypt.len());
    body.push_str("<xml>");
    push_element(&mut body, "ToUserName", to_user_name);
    push_element(&mut body, "Encrypt", encrypt);
    if let Some(agent_id) = agent_id {
        push_element(&mut body, "AgentID", agent_id);
    }
    body.push_str("</xml>");
    body
}

/// The body of a passive reply (page 90930, 被动响应包的数据格式).
pub fn reply_body(sealed: &Sealed) -> String {
    let mut body = String::with_capacity(200 + sealed.encrypt.len());
    body.push_str("<xml>");
    push_element(&mut body, "Encrypt", &sealed.encrypt);
    push_element(&mut body, "MsgSignature", &sealed.msg_signature);
    push_element(&mut body, "TimeStamp", &sealed.timestamp);
    push_element(&mut body, "Nonce", &sealed.nonce);
    body.push_str("</xml>");
    body
}

fn push_element(body: &mut String, name: &str, text: &str) {
    // "]]>" would end the section early: it is split over two.
    let text = text.replace("]]>", "]]]]><![CDATA[>");
    for piece in ["<", name, "><![CDATA[", &text, "]]></", name, ">"] {
        body.push_str(piece);
    }
}

#[cfg(test)]
mod tests;
