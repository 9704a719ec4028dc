//! Pages in a stable order: by a time and an id, newest first. Rows of one instant are told apart by their id, so
//! no row is shown twice and none is left out, forward or backward.

use time::OffsetDateTime;

use crate::Error;

/// Which page of a list. A cursor comes from the page before (`next`) or after (`previous`).
#[derive(Debug, Clone, Default)]
pub struct PageRequest {
    /// 1..=500; 0 means 50.
    pub limit: u32,
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Leads to older rows; None: there are none.
    pub next: Option<String>,
    /// Leads to newer rows; None on the first page.
    pub previous: Option<String>,
}

const LONGEST: u32 = 500;
const USUAL: u32 = 50;
/// Said in every cursor, so that one of another form is told from ours.
const VERSION: &str = "1";

/// Where a page begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Position {
    backward: bool,
    time: OffsetDateTime,
    id: String,
}

/// A page request, read.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) limit: usize,
    position: Option<Position>,
}

impl Window {
    /// `list` names the list; cursors of others are refused.
    pub(crate) fn read(request: &PageRequest, list: &str) -> Result<Window, Error> {
        let limit = match request.limit {
            0 => USUAL,
            limit => limit.min(LONGEST),
        };
        let position = request
            .cursor
            .as_deref()
            .map(|cursor| decode(cursor, list))
            .transpose()?;
        Ok(Window {
            limit: limit as usize,
            position,
        })
    }

    pub(crate) fn is_backward(&self) -> bool {
        self.position
            .as_ref()
            .is_some_and(|position| position.backward)
    }

    pub(crate) fn time(&self) -> Option<OffsetDateTime> {
        self.position.as_ref().map(|position| position.time)
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.position.as_ref().map(|position| position.id.as_str())
    }

    /// The id, for lists whose ids are UUIDs.
    pub(crate) fn uuid(&self) -> Result<Option<uuid::Uuid>, Error> {
        self.id()
            .map(|id| id.parse().map_err(|_| Error::Cursor))
            .transpose()
    }

    /// One more than the page shows: it says whether there is another.
    pub(crate) fn fetch(&self) -> i64 {
        self.limit as i64 + 1
    }

    /// `rows` in the order they were fetched (oldest first when backward), at most `fetch` of them.
    pub(crate) fn page<T>(
        &self,
        list: &str,
        mut rows: Vec<T>,
        key: impl Fn(&T) -> (OffsetDateTime, String),
    ) -> Page<T> {
        let more = rows.len() > self.limit;
        rows.truncate(self.limit);
        if self.is_backward() {
            rows.reverse();
        }
        let has_older = more || self.is_backward();
        let has_newer = if self.is_backward() {
            more
        } else {
            self.position.is_some()
        };
        let cursor = |row: Option<&T>, backward| {
            let (time, id) = key(row?);
            Some(encode(&Position { backward, time, id }, list))
        };
        Page {
            next: has_older.then(|| cursor(rows.last(), false)).flatten(),
            previous: has_newer.then(|| cursor(rows.first(), true)).flatten(),
            items: rows,
        }
    }
}

fn encode(position: &Position, list: &str) -> String {
    let direction = if position.backward { "b" } else { "f" };
    let micros = position.time.unix_timestamp_nanos() / 1_000;
    hex::encode(format!(
        "{VERSION}|{list}|{direction}|{micros}|{}",
        position.id
    ))
}

fn decode(cursor: &str, list: &str) -> Result<Position, Error> {
    let bytes = hex::decode(cursor).map_err(|_| Error::Cursor)?;
    let text = String::from_utf8(bytes).map_err(|_| Error::Cursor)?;
    let fields: Vec<&str> = text.splitn(5, '|').collect();
    let [VERSION, named, direction @ ("f" | "b"), micros, id] = fields[..] else {
        return Err(Error::Cursor);
    };
    if named != list || id.contains('\0') {
        return Err(Error::Cursor);
    }
    let micros: i64 = micros.parse().map_err(|_| Error::Cursor)?;
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000)
        .map_err(|_| Error::Cursor)?;
    Ok(Position {
        backward: direction == "b",
        time,
        id: id.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_come_back_and_strangers_are_refused() {
        let position = Position {
            backward: true,
            time: crate::times::at(1_792_000_000_123),
            id: "a|b".into(),
        };
        let cursor = encode(&position, "things");
        assert_eq!(decode(&cursor, "things").unwrap(), position);
        assert!(matches!(decode(&cursor, "others"), Err(Error::Cursor)));
        for stranger in [
            "",
            "zz",
            "00",
            "31",
            &hex::encode("1|things|x|0|a"),
            &hex::encode("1|things|f|x|a"),
        ] {
            assert!(
                matches!(decode(stranger, "things"), Err(Error::Cursor)),
                "{stranger}"
            );
        }
    }
}
