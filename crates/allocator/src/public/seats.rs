//! What a visitor of a campaign sees: the code of a group, or the waiting room.

use axum::http::StatusCode;
use time::{OffsetDateTime, UtcOffset};

use super::{
    desk::Seat,
    html::{Answer, Code, Page},
    states::{ADDED_S, LATEST_S, MINUTE_MS, SOONEST_S, Status, View, WAITS_S, clock_time, pause_s},
    text::filled,
};

/// Up to here a place is shown as it is; beyond, two digits of it, so that not every step forward is another page.
const EXACT: u32 = 20;

/// What the script is told, and after how many seconds it asks again.
pub(super) fn status(seat: &Seat, now_ms: u64) -> (&'static str, Option<u64>) {
    match seat {
        Seat::Held { way: None, .. } => ("held", Some(SOONEST_S)),
        Seat::Held { .. } => ("held", Some(ADDED_S)),
        Seat::Waiting { seat, until_ms, .. } => {
            // Twice before his place is somebody else's, or it would be.
            let left_s = until_ms.saturating_sub(now_ms) / 1_000;
            let pause = pause_s(seat.0, now_ms).min(left_s / 2);
            ("waiting", Some(pause.max(1)))
        }
        Seat::Joined { .. } => ("joined", None),
        Seat::Preparing => ("preparing", Some(pause_s(uuid::Uuid::nil(), now_ms))),
    }
}

/// What makes the page another one.
pub(super) fn about(seat: &Seat) -> String {
    match seat {
        Seat::Held {
            seat,
            group,
            way,
            until_ms,
        } => format!("{seat} {group} {way:?} {until_ms}"),
        // That his place lasts longer now is no change.
        Seat::Waiting {
            seat,
            position,
            opens,
            ..
        } => format!("{seat} {} {opens:?}", rounded(*position)),
        Seat::Joined { seat, group } => format!("{seat} {group}"),
        Seat::Preparing => String::new(),
    }
}

fn rounded(position: u32) -> u32 {
    if position <= EXACT {
        return position;
    }
    let unit = 10u32.pow(position.ilog10() - 1);
    position.div_ceil(unit).saturating_mul(unit)
}

impl View<'_> {
    pub(super) fn seat(&self, seat: &Seat, status: Status) -> Answer {
        let texts = self.language.texts();
        let named = |name: &str, text: &'static str, unnamed: &'static str| match name {
            "" => unnamed.to_owned(),
            _ => filled(text, &[("name", &name)]),
        };
        let page = match seat {
            Seat::Held {
                group,
                way,
                until_ms,
                ..
            } => {
                let time = clock_time(*until_ms, self.place.utc_offset_minutes);
                let left_ms = until_ms.saturating_sub(self.now_ms);
                // Rounded: Redis' clock, which set the end, may be ahead.
                let minutes = ((left_ms + MINUTE_MS / 2) / MINUTE_MS).max(1);
                let kept = |text| filled(text, &[("time", &time), ("minutes", &minutes)]);
                let left_s = left_ms / 1_000;
                let over = (texts.held_over, texts.seat_again);
                let watch = self.watch(left_s, status, over);
                let page = match way {
                    Some(way) => Page {
                        code: Some(Code {
                            source: format!("/w/{way}.png"),
                            alt: texts.seat_qr.to_owned(),
                        }),
                        ..self.page(named(group, texts.seat_held, texts.seat_held_unnamed))
                    }
                    .line(texts.seat_how)
                    .line(kept(texts.seat_until)),
                    None => Page {
                        // A page that nobody looks at any more must not ask for another seat.
                        refresh: (left_s > watch.pause_s).then_some(watch.pause_s),
                        ..self.page(texts.drawing).line(kept(texts.seat_drawing_text))
                    },
                };
                Page {
                    watch: Some(watch),
                    ..page
                }
            }
            Seat::Waiting {
                position, opens, ..
            } => {
                let shown = rounded(*position);
                let text = match *position <= EXACT {
                    true => texts.seat_waiting_text,
                    false => texts.seat_waiting_many_text,
                };
                let line = filled(text, &[("position", &shown)]);
                let page = match opens {
                    Some(way) => Page {
                        code: Some(Code {
                            source: format!("/w/{way}.png"),
                            alt: texts.seat_qr.to_owned(),
                        }),
                        ..self.page(texts.seat_opens).line(texts.seat_opens_how)
                    },
                    None => self.page(texts.seat_waiting),
                };
                self.waits(page.line(line), status)
            }
            Seat::Preparing => {
                let page = self.page(texts.seat_preparing);
                self.waits(page.line(texts.seat_preparing_text), status)
            }
            Seat::Joined { group, .. } => Page {
                done: true,
                ..self
                    .page(named(group, texts.seat_joined, texts.seat_joined_unnamed))
                    .line(texts.seat_joined_text)
            },
        };
        Answer::new(StatusCode::OK, page)
    }

    /// It comes again by itself, until nobody seems to be there.
    fn waits(&self, page: Page, status: Status) -> Page {
        let texts = self.language.texts();
        let over = (texts.waiting_over, texts.waiting_again);
        let watch = self.watch(WAITS_S, status, over);
        Page {
            refresh: Some(watch.pause_s.min(2 * LATEST_S)),
            watch: Some(watch),
            ..page
        }
    }

    /// The campaign gives no seats: not yet, or no more.
    pub(super) fn no_seats(&self, opens_ms: Option<u64>) -> Answer {
        let texts = self.language.texts();
        match opens_ms {
            Some(opens_ms) => {
                let time = day_and_time(opens_ms, self.place.utc_offset_minutes);
                let line = filled(texts.seat_soon_text, &[("time", &time)]);
                Answer::new(StatusCode::OK, self.page(texts.seat_soon).line(line))
            }
            None => {
                let page = self.page(texts.seat_over).line(texts.seat_over_text);
                Answer::new(StatusCode::GONE, page)
            }
        }
    }
}

/// As 2027-01-14 20:05.
fn day_and_time(at_ms: u64, utc_offset_minutes: i32) -> String {
    let at_s = i64::try_from(at_ms / 1_000).unwrap_or_default();
    let at = OffsetDateTime::from_unix_timestamp(at_s).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let offset = UtcOffset::from_whole_seconds(utc_offset_minutes.saturating_mul(60));
    let day = at.to_offset(offset.unwrap_or(UtcOffset::UTC)).date();
    format!("{day} {}", clock_time(at_ms, utc_offset_minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_is_told_roughly() {
        let places = [1, 20, 21, 99, 100, 101, 1_234, 50_000];
        let shown = places.map(rounded);
        assert_eq!(shown, [1, 20, 21, 99, 100, 110, 1_300, 50_000]);
    }

    #[test]
    fn the_day_is_the_corps() {
        let evening = 1_799_956_800_000; // 2027-01-14 20:00 UTC
        assert_eq!(day_and_time(evening, 0), "2027-01-14 20:00");
        assert_eq!(day_and_time(evening, 480), "2027-01-15 04:00");
    }
}
