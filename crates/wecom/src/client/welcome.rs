//! The welcome message (欢迎语) to a new customer.
//!
//! The code comes with the add event, lives 20 seconds and works once. Never repeat after an unknown outcome.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::limits::{Check, blank};
use super::{Client, api};
use crate::{Error, Redacted};

/// A welcome message: text, attachments, or both.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// From the add event.
    pub welcome_code: Redacted,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// At most nine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
}

impl Welcome {
    /// A message for the code of an add event; give it a text, attachments, or both.
    pub fn new(welcome_code: impl Into<Redacted>) -> Self {
        Self {
            welcome_code: welcome_code.into(),
            text: None,
            attachments: Vec::new(),
        }
    }

    /// With this text, at most 4000 bytes.
    #[must_use]
    pub fn text(mut self, content: impl Into<Redacted>) -> Self {
        self.text = Some(Text {
            content: content.into(),
        });
        self
    }

    /// With one more attachment.
    #[must_use]
    pub fn attach(mut self, attachment: Attachment) -> Self {
        self.attachments.push(attachment);
        self
    }

    /// The documented limits.
    pub fn check(&self) -> Result<(), Error> {
        let check = Check::new(api::SEND_WELCOME_MSG);
        check.required("welcome_code", self.welcome_code.expose())?;
        let text = self
            .text
            .as_ref()
            .map(|text| text.content.expose())
            .unwrap_or_default();
        check.bytes("text.content", text, 4000)?;
        if text.is_empty() && self.attachments.is_empty() {
            return Err(check.not_allowed("text", "text and attachments are both empty"));
        }
        check.count("attachments", self.attachments.len(), 9)?;
        self.attachments
            .iter()
            .try_for_each(|attachment| attachment.check(check))
    }
}

impl fmt::Debug for Welcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Welcome")
            .field("welcome_code", &self.welcome_code)
            .field("text", &self.text)
            .field("attachments", &self.attachments.len())
            .finish()
    }
}

/// A text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// At most 4000 bytes.
    pub content: Redacted,
}

/// Something sent with a message. In JSON: `{"msgtype":"link","link":{…}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub enum Attachment {
    /// A picture.
    Image(Image),
    /// A link.
    Link(Link),
    /// A mini program.
    MiniProgram(MiniProgram),
    /// A video.
    Video(Media),
    /// A file.
    File(Media),
}

/// A picture: one of the two; WeCom prefers `media_id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// From the media upload.
    #[serde(default, skip_serializing_if = "blank")]
    pub media_id: Option<String>,
    /// An address.
    #[serde(default, skip_serializing_if = "blank")]
    pub pic_url: Option<String>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// At most 128 bytes.
    pub title: String,
    /// Picture.
    #[serde(default, skip_serializing_if = "blank")]
    pub picurl: Option<String>,
    /// At most 512 bytes.
    #[serde(default, skip_serializing_if = "blank")]
    pub desc: Option<String>,
    /// Where it leads.
    pub url: String,
}

/// A mini program; all four are required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiniProgram {
    /// At most 64 bytes.
    pub title: String,
    /// Cover, from the media upload.
    pub pic_media_id: String,
    /// Its id.
    pub appid: String,
    /// Its page.
    pub page: String,
}

/// Something uploaded before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    /// From the media upload.
    pub media_id: String,
}

impl Attachment {
    fn check(&self, check: Check) -> Result<(), Error> {
        match self {
            Self::Image(image) if blank(&image.media_id) && blank(&image.pic_url) => {
                Err(check.not_allowed("image.media_id", "media_id and pic_url are both absent"))
            }
            Self::Image(_) => Ok(()),
            Self::Link(link) => link.check(check),
            Self::MiniProgram(program) => program.check(check),
            Self::Video(media) => check.required("video.media_id", &media.media_id),
            Self::File(media) => check.required("file.media_id", &media.media_id),
        }
    }
}

impl Link {
    pub(super) fn check(&self, check: Check) -> Result<(), Error> {
        check.required("link.title", &self.title)?;
        check.bytes("link.title", &self.title, 128)?;
        check.bytes("link.desc", self.desc.as_deref().unwrap_or_default(), 512)?;
        check.required("link.url", &self.url)
    }
}

impl MiniProgram {
    pub(super) fn check(&self, check: Check) -> Result<(), Error> {
        check.required("miniprogram.title", &self.title)?;
        check.bytes("miniprogram.title", &self.title, 64)?;
        check.required("miniprogram.pic_media_id", &self.pic_media_id)?;
        check.required("miniprogram.appid", &self.appid)?;
        check.required("miniprogram.page", &self.page)
    }
}

/// The JSON form of an attachment.
#[derive(Serialize, Deserialize)]
struct Wire {
    msgtype: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<Image>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<Link>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    miniprogram: Option<MiniProgram>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    video: Option<Media>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<Media>,
}

impl From<Attachment> for Wire {
    fn from(attachment: Attachment) -> Self {
        let mut wire = Self {
            msgtype: String::new(),
            image: None,
            link: None,
            miniprogram: None,
            video: None,
            file: None,
        };
        let msgtype = match attachment {
            Attachment::Image(image) => {
                wire.image = Some(image);
                "image"
            }
            Attachment::Link(link) => {
                wire.link = Some(link);
                "link"
            }
            Attachment::MiniProgram(program) => {
                wire.miniprogram = Some(program);
                "miniprogram"
            }
            Attachment::Video(media) => {
                wire.video = Some(media);
                "video"
            }
            Attachment::File(media) => {
                wire.file = Some(media);
                "file"
            }
        };
        wire.msgtype.push_str(msgtype);
        wire
    }
}

impl TryFrom<Wire> for Attachment {
    type Error = &'static str;

    fn try_from(wire: Wire) -> Result<Self, Self::Error> {
        match wire.msgtype.as_str() {
            "image" => wire.image.map(Self::Image),
            "link" => wire.link.map(Self::Link),
            "miniprogram" => wire.miniprogram.map(Self::MiniProgram),
            "video" => wire.video.map(Self::Video),
            "file" => wire.file.map(Self::File),
            _ => None,
        }
        .ok_or("msgtype is unknown or its content is absent")
    }
}

impl Client {
    /// Greets a new customer. 41051 (already chatting or greeted) comes back as an error of class
    /// `AlreadyDone`; 41050 means the 20 seconds are over.
    pub async fn send_welcome_msg(&self, request: &Welcome) -> Result<(), Error> {
        request.check()?;
        self.post_plain(api::SEND_WELCOME_MSG, request).await
    }
}
