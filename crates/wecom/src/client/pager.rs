//! Walking a list to its end: the cursors of one walk, with a stop when they go in a circle.

use std::collections::HashSet;

use crate::Error;

/// Cursors of one walk. The caller makes the calls, so each page can wait for its own budget:
///
/// ```
/// # fn page(_: Option<&str>) -> (Vec<u8>, String) { (vec![1], String::new()) }
/// # fn walk() -> Result<(), wecom::Error> {
/// let mut pager = wecom::client::Pager::new(wecom::client::api::BATCH_GET_BY_USER);
/// while let Some(cursor) = pager.next() {
///     let (rows, next_cursor) = page(cursor);
///     pager.advance(next_cursor)?;
/// }
/// # Ok(()) }
/// # walk().unwrap();
/// ```
#[derive(Debug)]
pub struct Pager {
    api: &'static str,
    next: Option<String>,
    seen: HashSet<String>,
    restarted: bool,
}

impl Pager {
    /// A walk that starts at page one.
    pub fn new(api: &'static str) -> Self {
        Self {
            api,
            next: Some(String::new()),
            seen: HashSet::new(),
            restarted: false,
        }
    }

    /// `None` at the end; `Some(None)` asks for page one.
    pub fn next(&self) -> Option<Option<&str>> {
        self.next
            .as_deref()
            .map(|cursor| (!cursor.is_empty()).then_some(cursor))
    }

    /// Takes the `next_cursor` of a page; an empty one is the end. An empty *page* is not.
    pub fn advance(&mut self, next_cursor: String) -> Result<(), Error> {
        if next_cursor.is_empty() {
            self.next = None;
            return Ok(());
        }
        if !self.seen.insert(next_cursor.clone()) {
            return Err(Error::CursorLoop { api: self.api });
        }
        self.next = Some(next_cursor);
        Ok(())
    }

    /// An expired cursor (50100) sends the walk back to page one, once; what was read so far must be dropped.
    /// Every other error is handed back.
    pub fn restart_after(&mut self, error: Error) -> Result<(), Error> {
        let expired = matches!(error, Error::Api { errcode: 50100, .. });
        if !expired || self.restarted || self.seen.is_empty() {
            return Err(error);
        }
        self.restarted = true;
        self.seen.clear();
        self.next = Some(String::new());
        Ok(())
    }
}
