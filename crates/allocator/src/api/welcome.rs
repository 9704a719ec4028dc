//! A channel's welcome message, held to WeCom's limits: what is too long is refused, never cut.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::validate::Fields;

const TEXT_BYTES: usize = 4000;
const MOST_ATTACHMENTS: usize = 9;
const TITLE_BYTES: usize = 128;
const DESCRIPTION_BYTES: usize = 512;
const PROGRAM_TITLE_BYTES: usize = 64;

/// What a new customer is greeted with, within 20 s of the event: a text, attachments, or both.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WelcomeMessage {
    /// At most 4000 bytes of UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// At most nine.
    #[serde(default)]
    attachments: Vec<Attachment>,
}

/// One attachment: `msgtype` names which of the others is given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Attachment {
    msgtype: AttachmentKind,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum AttachmentKind {
    Image,
    Link,
    Miniprogram,
    Video,
    File,
}

/// One of the two; WeCom prefers `media_id`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pic_url: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Link {
    /// At most 128 bytes.
    title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    picurl: Option<String>,
    /// At most 512 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    desc: Option<String>,
    url: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MiniProgram {
    /// At most 64 bytes.
    title: String,
    pic_media_id: String,
    appid: String,
    page: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Media {
    media_id: String,
}

impl WelcomeMessage {
    pub(super) fn check(&self, at: &str, fields: &mut Fields) {
        let text = self.text.as_deref().unwrap_or_default();
        fields.bytes(&format!("{at}/text"), text, TEXT_BYTES);
        if text.is_empty() && self.attachments.is_empty() {
            fields.wrong(
                at,
                "empty",
                "text and attachments are both empty; leave the message out to send none",
            );
        }
        if self.attachments.len() > MOST_ATTACHMENTS {
            let message = format!(
                "{} attachments, WeCom takes at most {MOST_ATTACHMENTS}",
                self.attachments.len()
            );
            fields.wrong(format!("{at}/attachments"), "too_many", message);
        }
        for (index, attachment) in self.attachments.iter().enumerate() {
            attachment.check(&format!("{at}/attachments/{index}"), fields);
        }
    }
}

impl Attachment {
    fn check(&self, at: &str, fields: &mut Fields) {
        use AttachmentKind::{File, Image, Link, Miniprogram, Video};
        let given = [
            (Image, "image", self.image.is_some()),
            (Link, "link", self.link.is_some()),
            (Miniprogram, "miniprogram", self.miniprogram.is_some()),
            (Video, "video", self.video.is_some()),
            (File, "file", self.file.is_some()),
        ];
        for (kind, name, is_given) in given {
            if kind == self.msgtype && !is_given {
                fields.wrong(
                    format!("{at}/{name}"),
                    "missing",
                    "msgtype names it, but it is not there",
                );
            } else if kind != self.msgtype && is_given {
                fields.wrong(
                    format!("{at}/{name}"),
                    "not_allowed",
                    "msgtype names another one",
                );
            }
        }
        let mut required = |name: &str, value: &str| {
            if value.trim().is_empty() {
                fields.wrong(format!("{at}/{name}"), "empty", "must not be empty");
            }
        };
        if let Some(image) = &self.image {
            let either = image.media_id.as_deref().or(image.pic_url.as_deref());
            required("image/media_id", either.unwrap_or_default());
        }
        if let Some(link) = &self.link {
            required("link/title", &link.title);
            required("link/url", &link.url);
        }
        if let Some(program) = &self.miniprogram {
            required("miniprogram/title", &program.title);
            required("miniprogram/pic_media_id", &program.pic_media_id);
            required("miniprogram/appid", &program.appid);
            required("miniprogram/page", &program.page);
        }
        for (name, media) in [("video", &self.video), ("file", &self.file)] {
            if let Some(media) = media {
                required(&format!("{name}/media_id"), &media.media_id);
            }
        }
        if let Some(link) = &self.link {
            fields.bytes(&format!("{at}/link/title"), &link.title, TITLE_BYTES);
            fields.bytes(
                &format!("{at}/link/desc"),
                link.desc.as_deref().unwrap_or_default(),
                DESCRIPTION_BYTES,
            );
        }
        if let Some(program) = &self.miniprogram {
            fields.bytes(
                &format!("{at}/miniprogram/title"),
                &program.title,
                PROGRAM_TITLE_BYTES,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wecom::client::{Attachment, Welcome};

    use super::{Fields, WelcomeMessage};

    fn problems(message: serde_json::Value) -> Vec<String> {
        let message: WelcomeMessage = serde_json::from_value(message).unwrap();
        let mut fields = Fields::default();
        message.check("/welcome", &mut fields);
        let problem = fields.check().err();
        problem
            .map(|problem| {
                problem
                    .errors
                    .iter()
                    .map(|error| error.pointer.clone())
                    .collect()
            })
            .unwrap_or_default()
    }

    /// Case 130: at the limit it is taken, one byte beyond it is refused; four-byte characters count as four.
    #[test]
    fn limits_are_wecoms() {
        let text = |n: usize| "😀".repeat(n);
        assert_eq!(problems(json!({"text": text(1000)})), [] as [&str; 0]);
        assert_eq!(
            problems(json!({"text": text(1000) + "a"})),
            ["/welcome/text"]
        );
        let link = |title: usize| {
            json!({"attachments": [
            {"msgtype": "link", "link": {"title": "你".repeat(title), "url": "https://example.test"}}]})
        };
        assert_eq!(problems(link(42)), [] as [&str; 0]);
        assert_eq!(problems(link(43)), ["/welcome/attachments/0/link/title"]);
    }

    #[test]
    fn what_wecom_would_refuse_is_refused_here() {
        assert_eq!(problems(json!({})), ["/welcome"]);
        let ten = vec![json!({"msgtype": "file", "file": {"media_id": "m"}}); 10];
        assert_eq!(
            problems(json!({"attachments": ten})),
            ["/welcome/attachments"]
        );
        let other = json!({"attachments": [{"msgtype": "image", "file": {"media_id": "m"}}]});
        assert_eq!(
            problems(other),
            [
                "/welcome/attachments/0/image",
                "/welcome/attachments/0/file"
            ]
        );
    }

    /// What is kept is what `wecom` sends.
    #[test]
    fn an_attachment_is_read_by_the_client() {
        let given = json!({"msgtype": "miniprogram",
            "miniprogram": {"title": "t", "pic_media_id": "p", "appid": "a", "page": "b"}});
        let message: WelcomeMessage =
            serde_json::from_value(json!({"attachments": [given]})).unwrap();
        let kept = serde_json::to_value(&message.attachments[0]).unwrap();
        assert_eq!(kept, given);
        let attachment: Attachment = serde_json::from_value(kept).unwrap();
        assert!(Welcome::new("code").attach(attachment).check().is_ok());
    }
}
