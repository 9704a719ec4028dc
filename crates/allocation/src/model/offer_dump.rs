//! Offers as Redis holds them, and read back.

use std::collections::BTreeMap;

use super::Corp;
use super::dump::put_sorted;
use super::load::{text, unreadable};
use super::offer::Offer;
use crate::dump::Value;
use crate::error::Error;
use crate::id::{MemberId, PoolId};
use crate::offer::OfferRule;
use crate::text::{Fields, join};

/// Begins the field of an offer in an open record.
pub(super) const OFFER: char = 'o';
const INNER: char = '\u{1d}';

pub(super) fn offer_text(offer: &Offer) -> String {
    let mut text = format!("{OFFER}{}{INNER}{}", offer.until_ms, offer.since_ms);
    for member in &offer.tried {
        text.push(INNER);
        text.push_str(member.as_str());
    }
    text
}

pub(super) fn read_offer(text: &str) -> Result<Offer, Error> {
    let problem = || unreadable("an offer");
    let mut parts = text.split(INNER);
    let mut number = || -> Result<u64, Error> {
        let part = parts.next().ok_or_else(problem)?;
        part.parse().map_err(|_| problem())
    };
    let (until_ms, since_ms) = (number()?, number()?);
    Ok(Offer {
        until_ms,
        since_ms,
        tried: parts.map(str::parse).collect::<Result<_, _>>()?,
    })
}

impl Corp {
    pub(super) fn dump_offers(&self, keys: &mut BTreeMap<String, Value>) {
        let ends = self.offers.ends.iter();
        let ends = ends.map(|(end, name)| (name.clone().into_bytes(), *end as f64));
        put_sorted(keys, "offers".into(), ends.collect());
        for (member, names) in &self.offers.of {
            let names = names.iter();
            let names = names.map(|name| (name.clone().into_bytes(), 0.0));
            put_sorted(keys, format!("offered:{member}"), names.collect());
        }
        for (pool, rule) in &self.offers.rules {
            let text = join(&[rule.accept_ms.to_string(), rule.tries.to_string()]);
            keys.insert(format!("offer:{pool}"), Value::Bytes(text.into_bytes()));
        }
    }

    pub(super) fn read_offer_rule(&mut self, pool: &str, text: &str) -> Result<(), Error> {
        let mut fields = Fields::new("offers", text);
        let rule = OfferRule {
            accept_ms: fields.parse()?,
            tries: fields.parse()?,
        };
        fields.end()?;
        let pool: PoolId = pool.parse()?;
        self.offers.rules.insert(pool, rule);
        Ok(())
    }

    pub(super) fn read_offers(&mut self, entries: &[(Vec<u8>, f64)]) -> Result<(), Error> {
        for (name, end) in entries {
            self.offers.set_end(text(name)?, Some(*end as u64));
        }
        Ok(())
    }

    pub(super) fn read_offered(
        &mut self,
        member: &str,
        entries: &[(Vec<u8>, f64)],
    ) -> Result<(), Error> {
        let member: MemberId = member.parse()?;
        let names = self.offers.of.entry(member).or_default();
        for (name, _) in entries {
            names.insert(text(name)?.to_owned());
        }
        Ok(())
    }
}
