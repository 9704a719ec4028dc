//! Weights are decimals with at most three places and are counted in thousandths, so that sums are exact and the
//! same in Lua and in Rust.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A member's share in a pool. 0 means: in the pool, but gets nothing.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Weight(u32);

impl Weight {
    pub const ZERO: Weight = Weight(0);
    pub const ONE: Weight = Weight(1000);
    /// The largest weight is 10,000.
    pub const MAX: Weight = Weight(10_000_000);

    pub fn from_thousandths(thousandths: u32) -> Result<Self, Error> {
        if thousandths > Self::MAX.0 {
            return Err(Error::Weight("is above 10000"));
        }
        Ok(Self(thousandths))
    }

    pub fn thousandths(self) -> u32 {
        self.0
    }

    pub(crate) fn as_f64(self) -> f64 {
        f64::from(self.0)
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:03}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl FromStr for Weight {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(rest) {
            return Err(Error::Weight("is no decimal number of 0 or more"));
        }
        let rest = rest.trim_end_matches('0');
        if rest.len() > 3 {
            return Err(Error::Weight("has more than three decimal places"));
        }
        let whole: u32 = whole.parse().map_err(|_| Error::Weight("is above 10000"))?;
        let rest: u32 = format!("{rest:0<3}")
            .parse()
            .map_err(|_| Error::Weight("is no number"))?;
        whole
            .checked_mul(1000)
            .and_then(|whole| whole.checked_add(rest))
            .ok_or(Error::Weight("is above 10000"))
            .and_then(Self::from_thousandths)
    }
}

impl TryFrom<String> for Weight {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Weight> for String {
    fn from(weight: Weight) -> String {
        weight.to_string()
    }
}
