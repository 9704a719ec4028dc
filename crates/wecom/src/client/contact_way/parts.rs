//! Pieces of a contact way: its kind, its scene, its closing message.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::client::limits::Check;
use crate::client::welcome::{Image, Link, MiniProgram, Text};

/// One member or several behind the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "i64", try_from = "i64")]
pub enum WayType {
    /// Exactly one member.
    #[default]
    Single,
    /// Several; WeCom picks, we cannot steer.
    Multiple,
}

/// Where the code is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "i64", try_from = "i64")]
pub enum WayScene {
    /// Inside a mini program.
    MiniProgram,
    /// As a QR picture.
    #[default]
    QrCode,
}

/// The closing message of a temporary session. Of several attachments WeCom takes image, link, mini program,
/// in this order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conclusions {
    /// At most 4000 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Text>,
    /// A picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// A link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// A mini program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub miniprogram: Option<MiniProgram>,
}

impl Conclusions {
    pub(super) fn check(&self, check: Check) -> Result<(), Error> {
        if self.text.is_none()
            && self.image.is_none()
            && self.link.is_none()
            && self.miniprogram.is_none()
        {
            return Err(check.not_allowed(
                "conclusions",
                "text, image, link and miniprogram are all absent",
            ));
        }
        if let Some(text) = &self.text {
            check.bytes("conclusions.text.content", text.content.expose(), 4000)?;
        }
        if let Some(link) = &self.link {
            link.check(check)?;
        }
        if let Some(program) = &self.miniprogram {
            program.check(check)?;
        }
        Ok(())
    }
}

impl From<WayType> for i64 {
    fn from(kind: WayType) -> Self {
        match kind {
            WayType::Single => 1,
            WayType::Multiple => 2,
        }
    }
}

impl TryFrom<i64> for WayType {
    type Error = &'static str;

    fn try_from(raw: i64) -> Result<Self, Self::Error> {
        match raw {
            1 => Ok(Self::Single),
            2 => Ok(Self::Multiple),
            _ => Err("type is 1 or 2"),
        }
    }
}

impl From<WayScene> for i64 {
    fn from(scene: WayScene) -> Self {
        match scene {
            WayScene::MiniProgram => 1,
            WayScene::QrCode => 2,
        }
    }
}

impl TryFrom<i64> for WayScene {
    type Error = &'static str;

    fn try_from(raw: i64) -> Result<Self, Self::Error> {
        match raw {
            1 => Ok(Self::MiniProgram),
            2 => Ok(Self::QrCode),
            _ => Err("scene is 1 or 2"),
        }
    }
}
