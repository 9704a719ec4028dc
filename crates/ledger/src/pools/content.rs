//! A pool as one document: how its versions and drafts are kept. What pools learn later is a field that older documents do
//! not have; a document of a later format is refused, because what it leaves out may mean something else.

use std::collections::BTreeMap;

use allocation::{Limits, MemberId, OfferRule, Strategy, Weight};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{NewPool, Pool, Routing};
use crate::Error;

const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct Document {
    format: u32,
    name: String,
    strategy: Strategy,
    #[serde(default)]
    load_window_seconds: Option<u64>,
    #[serde(default)]
    offers: Option<Offers>,
    #[serde(default)]
    routing: Routing,
    members: Vec<Place>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Offers {
    accept_seconds: u64,
    tries: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Place {
    member: MemberId,
    weight: Weight,
    #[serde(default)]
    cap: Option<u32>,
    #[serde(default)]
    per_hour: Option<u32>,
    #[serde(default)]
    per_day: Option<u32>,
}

impl NewPool {
    pub(crate) fn document(&self) -> Value {
        let members = self.sorted().into_iter().map(|(member, weight)| {
            let limits = self.limits_of(&member);
            Place {
                member,
                weight,
                cap: limits.at_a_time,
                per_hour: limits.per_hour,
                per_day: limits.per_day,
            }
        });
        let document = Document {
            format: FORMAT,
            name: self.name.clone(),
            strategy: self.strategy,
            load_window_seconds: self.load_window_seconds,
            offers: self.offers.map(|rule| Offers {
                accept_seconds: rule.accept_ms / 1_000,
                tries: rule.tries,
            }),
            routing: self.routing.clone(),
            members: members.collect(),
        };
        serde_json::to_value(document).unwrap_or_default()
    }

    pub(crate) fn read(document: Value) -> Result<Self, Error> {
        let read = Document::deserialize(document);
        let document = read.map_err(|problem| Error::unreadable("content", problem))?;
        if document.format > FORMAT {
            let problem = format!("format {} is newer than this program", document.format);
            return Err(Error::unreadable("content", problem));
        }
        let limits = document.members.iter().filter_map(|place| {
            let limits = Limits {
                at_a_time: place.cap,
                per_hour: place.per_hour,
                per_day: place.per_day,
            };
            (!limits.is_none()).then(|| (place.member.clone(), limits))
        });
        let limits: BTreeMap<MemberId, Limits> = limits.collect();
        let members = document.members.into_iter();
        Ok(Self {
            name: document.name,
            strategy: document.strategy,
            load_window_seconds: document.load_window_seconds,
            offers: document.offers.map(|offers| OfferRule {
                accept_ms: offers.accept_seconds.saturating_mul(1_000),
                tries: offers.tries,
            }),
            routing: document.routing,
            members: members.map(|place| (place.member, place.weight)).collect(),
            limits,
        })
    }
}

impl Pool {
    /// What it was told to be.
    pub fn content(&self) -> NewPool {
        let members = self.members.iter();
        let limited = members.clone().filter(|place| !place.limits.is_none());
        NewPool {
            name: self.name.clone(),
            strategy: self.strategy,
            load_window_seconds: self.load_window_seconds,
            offers: self.offers,
            routing: self.routing.clone(),
            members: members
                .map(|place| (place.member.clone(), place.weight))
                .collect(),
            limits: limited
                .map(|place| (place.member.clone(), place.limits))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool() -> NewPool {
        let member = |name: &str| MemberId::new(name).unwrap();
        let limits = Limits {
            per_hour: Some(3),
            ..Limits::NONE
        };
        NewPool {
            name: "Sales".to_owned(),
            strategy: Strategy::LeastLoad,
            load_window_seconds: Some(3600),
            offers: Some(OfferRule {
                accept_ms: 60_000,
                tries: 3,
            }),
            routing: Routing {
                drip_seconds: Some(60),
                ..Routing::default()
            },
            members: vec![
                (member("b"), "0.5".parse().unwrap()),
                (member("a"), Weight::ONE),
            ],
            limits: [(member("b"), limits)].into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let read = NewPool::read(pool().document()).unwrap();
        assert_eq!(read.document(), pool().document());
        assert_eq!(
            (read.members, read.limits),
            (pool().sorted(), pool().limits)
        );
    }

    #[test]
    fn an_older_document_has_fewer_fields_and_one_of_the_same_format_may_have_more() {
        let older = json!({"format": 1, "name": "Sales", "strategy": "least_load",
            "members": [{"member": "a", "weight": "1.000"}]});
        let read = NewPool::read(older.clone()).unwrap();
        assert_eq!((read.load_window_seconds, read.limits.len()), (None, 0));
        assert_eq!(read.offers, None);
        assert_eq!(read.members[0].1, Weight::ONE);
        let mut more = older.clone();
        more["hats"] = json!(["red"]);
        assert!(NewPool::read(more).is_ok());
        let mut newer = older;
        newer["format"] = json!(2);
        assert!(NewPool::read(newer).is_err());
    }
}
