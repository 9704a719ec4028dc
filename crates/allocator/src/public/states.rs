//! What a visitor sees of each state his visit can be in, and what the page's script is told of it.

use axum::http::StatusCode;
use rand::RngExt;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    desk::{Of, Place, Visited},
    html::{Answer, Code, Page, Watch},
    seats,
    text::{Language, filled},
};

/// Whoever waits asks again in between these, seconds: the longer he has waited, the less often.
pub(super) const SOONEST_S: u64 = 3;
pub(super) const LATEST_S: u64 = 30;
/// When the stores are away.
const AWAY_S: std::ops::RangeInclusive<u64> = 5..=12;
/// Whether the member was added is asked this often, seconds.
pub(super) const ADDED_S: u64 = 5;
/// So long a page waits before it asks whether anybody is there, seconds.
pub(super) const WAITS_S: u64 = 30 * 60;
pub(super) const MINUTE_MS: u64 = 60_000;
const DAY_MINUTES: i64 = 24 * 60;

/// What the script compares: state and whom or what it is about.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Status {
    /// `held`, `waiting`, `met`, `joined`, `preparing`, `closed`, `away`, `unknown`.
    pub(super) state: &'static str,
    /// Another one: the page is another one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) seen: String,
    /// Ask again after so many seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refresh_s: Option<u64>,
}

impl Status {
    pub(super) fn of(state: &'static str) -> Self {
        Self {
            state,
            seen: String::new(),
            refresh_s: None,
        }
    }

    pub(super) fn away() -> Self {
        Self {
            refresh_s: Some(away_s()),
            ..Self::of("away")
        }
    }

    pub(super) fn visited(visited: &Visited, now_ms: u64) -> Self {
        let (state, refresh_s) = match visited {
            Visited::Held { way: None, .. } => ("held", Some(SOONEST_S)),
            Visited::Held { .. } => ("held", Some(ADDED_S)),
            Visited::Waiting {
                allocation,
                until_ms,
            } => {
                // Twice before his place in line is somebody else's, or it would be.
                let left_s = until_ms.saturating_sub(now_ms) / 1_000;
                let pause = pause_s(allocation.0, now_ms).min(left_s / 2);
                ("waiting", Some(pause.max(1)))
            }
            Visited::Met { .. } => ("met", None),
            Visited::NoPool => return Self::away(),
            Visited::Off => ("closed", None),
            Visited::Seat(seat) => seats::status(seat, now_ms),
        };
        Self {
            state,
            seen: seen(state, visited),
            refresh_s,
        }
    }
}

/// Says whether something changed, and nothing else: ids stay inside.
fn seen(state: &str, visited: &Visited) -> String {
    let about = match visited {
        Visited::Held {
            allocation,
            member,
            way,
            until_ms,
        } => format!("{allocation} {member} {way:?} {until_ms}"),
        // That his place in line lasts longer now is no change.
        Visited::Waiting { allocation, .. } | Visited::Met { allocation, .. } => {
            allocation.to_string()
        }
        Visited::NoPool | Visited::Off => String::new(),
        Visited::Seat(seat) => seats::about(seat),
    };
    let digest = Sha256::digest(format!("{state} {about}"));
    hex::encode(digest).chars().take(16).collect()
}

/// Allocations and seats carry the time at which they began.
pub(super) fn pause_s(allocation: uuid::Uuid, now_ms: u64) -> u64 {
    let begun_s = allocation.get_timestamp().map(|begun| begun.to_unix().0);
    let waited_s = (now_ms / 1_000).saturating_sub(begun_s.unwrap_or(now_ms / 1_000));
    let pause = (waited_s / 4).clamp(SOONEST_S, LATEST_S);
    pause + rand::rng().random_range(0..=pause / 3)
}

fn away_s() -> u64 {
    rand::rng().random_range(AWAY_S)
}

/// Where a page leads: its own address, its status', and its own in the other language.
#[derive(Debug, Clone)]
pub(super) struct Links {
    pub(super) page: String,
    pub(super) status: String,
    pub(super) other: String,
}

pub(super) struct View<'a> {
    pub(super) language: Language,
    pub(super) place: &'a Place,
    pub(super) links: Links,
    pub(super) now_ms: u64,
}

impl View<'_> {
    /// A page of this channel or campaign.
    pub(super) fn page(&self, heading: impl Into<String>) -> Page {
        let mut page = Page::new(self.language, heading);
        if matches!(self.place.of, Of::Campaign { .. }) {
            page.title = self.language.texts().seat_untitled.to_owned();
        }
        if !self.place.title.is_empty() {
            page.title = self.place.title.clone();
        }
        page.next = self.links.page.clone();
        page.other = self.links.other.clone();
        page
    }

    /// `name` is how the member is called whom the visit is about, if it is about one.
    pub(super) fn visited(&self, visited: &Visited, name: &str) -> Answer {
        let texts = self.language.texts();
        let fill = |text: &str| filled(text, &[("name", &name)]);
        let status = Status::visited(visited, self.now_ms);
        match visited {
            Visited::Held { way, until_ms, .. } => {
                let time = clock_time(*until_ms, self.place.utc_offset_minutes);
                // Rounded: Redis' clock, which set the end, may be ahead.
                let left_ms = until_ms.saturating_sub(self.now_ms);
                let minutes = ((left_ms + MINUTE_MS / 2) / MINUTE_MS).max(1);
                let kept = |text: &str| {
                    filled(
                        text,
                        &[("name", &name), ("time", &time), ("minutes", &minutes)],
                    )
                };
                let over = (texts.held_over, texts.held_again);
                let left_s = until_ms.saturating_sub(self.now_ms) / 1_000;
                let watch = self.watch(left_s, status, over);
                let page = match way {
                    Some(way) => Page {
                        code: Some(Code {
                            source: format!("/w/{way}.png"),
                            alt: fill(texts.qr),
                        }),
                        ..self.page(fill(texts.held))
                    }
                    .line(texts.held_how)
                    .line(kept(texts.held_until)),
                    None => {
                        let mut page = self.page(texts.drawing).line(kept(texts.drawing_text));
                        // A page that nobody looks at any more must not ask for another member.
                        page.refresh = (left_s > watch.pause_s).then_some(watch.pause_s);
                        page
                    }
                };
                Answer::new(
                    StatusCode::OK,
                    Page {
                        watch: Some(watch),
                        ..page
                    },
                )
            }
            Visited::Waiting { .. } => {
                let over = (texts.waiting_over, texts.waiting_again);
                let watch = self.watch(WAITS_S, status, over);
                let page = Page {
                    refresh: Some(watch.pause_s),
                    watch: Some(watch),
                    ..self.page(texts.waiting).line(texts.waiting_text)
                };
                Answer::new(StatusCode::OK, page)
            }
            Visited::Met { .. } => Answer::new(
                StatusCode::OK,
                Page {
                    done: true,
                    ..self.page(fill(texts.met)).line(fill(texts.met_text))
                },
            ),
            Visited::NoPool => self.away(),
            Visited::Off => self.closed(),
            Visited::Seat(seat) => self.seat(seat, status),
        }
    }

    pub(super) fn away(&self) -> Answer {
        let texts = self.language.texts();
        let text = match self.place.of {
            Of::Channel(_) => texts.away_text,
            Of::Campaign { .. } => texts.seat_away_text,
        };
        let page = self.page(texts.away).line(text);
        Answer::new(StatusCode::SERVICE_UNAVAILABLE, page).again_in(away_s())
    }

    pub(super) fn closed(&self) -> Answer {
        let texts = self.language.texts();
        if let Of::Campaign { opens_ms, .. } = self.place.of {
            return self.no_seats(opens_ms);
        }
        let page = self.page(texts.closed).line(texts.closed_text);
        Answer::new(StatusCode::GONE, page)
    }

    pub(super) fn watch(
        &self,
        left_s: u64,
        status: Status,
        (over, again): (&'static str, &'static str),
    ) -> Watch {
        Watch {
            status: self.links.status.clone(),
            seen: status.seen,
            left_s,
            pause_s: status.refresh_s.unwrap_or(LATEST_S),
            over,
            again,
        }
    }
}

/// The time of day there, as 14:05.
pub(crate) fn clock_time(at_ms: u64, utc_offset_minutes: i32) -> String {
    let minutes = i64::try_from(at_ms / MINUTE_MS).unwrap_or_default();
    let minutes = (minutes + i64::from(utc_offset_minutes)).rem_euclid(DAY_MINUTES);
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_the_corps() {
        let noon = 1_799_928_000_000; // 2027-01-14 12:00 UTC
        assert_eq!(clock_time(noon, 0), "12:00");
        assert_eq!(clock_time(noon, 480), "20:00");
        assert_eq!(clock_time(noon, 840), "02:00");
        assert_eq!(clock_time(noon, -720), "00:00");
        assert_eq!(clock_time(noon - 1, -720), "23:59");
    }

    #[test]
    fn who_waits_longer_asks_less_often() {
        let begun_s = 1_800_000_000;
        let begun = uuid::Timestamp::from_unix(uuid::NoContext, begun_s, 0);
        let allocation = uuid::Uuid::new_v7(begun);
        for (waited_s, least, most) in [(0, 3, 4), (20, 5, 6), (60, 15, 20), (3_600, 30, 40)] {
            for _ in 0..20 {
                let pause = pause_s(allocation, (begun_s + waited_s) * 1_000);
                assert!((least..=most).contains(&pause), "{waited_s}: {pause}");
            }
        }
        // No time in it.
        let pause = pause_s(uuid::Uuid::nil(), begun_s * 1_000);
        assert!((3..=4).contains(&pause), "{pause}");
    }
}
