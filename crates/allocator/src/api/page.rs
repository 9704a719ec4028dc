//! Lists: `data` and `page`. Cursors are opaque, lead both ways, and are stable: rows that come meanwhile move nothing.

use ledger::PageRequest;
use serde::Serialize;
use utoipa::ToSchema;

use super::{problem::Problem, validate::Fields};

/// The most a page may show.
pub(super) const LONGEST: u32 = 250;
const USUAL: u32 = 50;

/// The query of a list: its filters, and which page. A parameter that is misspelled is refused, not overlooked.
macro_rules! list_query {
    ($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default, serde::Deserialize, utoipa::IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub(super) struct $name {
            $($(#[$attr])* $field: $type,)*
            /// Rows on the page.
            #[param(minimum = 1, maximum = 250, default = 50)]
            limit: Option<u64>,
            /// `page.next` or `page.prev` of another page of the same list.
            cursor: Option<String>,
        }

        impl $name {
            fn page(&self) -> $crate::api::page::PageQuery {
                $crate::api::page::PageQuery::new(self.limit, self.cursor.clone())
            }
        }
    };
}
pub(super) use list_query;

/// Which page.
#[derive(Debug, Clone, Default)]
pub(super) struct PageQuery {
    limit: Option<u64>,
    cursor: Option<String>,
}

impl PageQuery {
    pub(super) fn new(limit: Option<u64>, cursor: Option<String>) -> Self {
        Self { limit, cursor }
    }

    pub(super) fn limit(&self) -> Result<u32, Problem> {
        let mut fields = Fields::default();
        fields.range("query:limit", self.limit, 1..=LONGEST.into());
        fields.check()?;
        let limit = self.limit.and_then(|limit| u32::try_from(limit).ok());
        Ok(limit.unwrap_or(USUAL))
    }

    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    pub(super) fn request(&self) -> Result<PageRequest, Problem> {
        Ok(PageRequest {
            limit: self.limit()?,
            cursor: self.cursor.clone(),
        })
    }
}

/// Where a page stands in its list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PageInfo {
    /// Cursor of the page after this one; null: this is the last.
    #[schema(required)]
    pub(super) next: Option<String>,
    /// Cursor of the page before this one; null: this is the first.
    #[schema(required)]
    pub(super) prev: Option<String>,
    pub(super) limit: u32,
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct List<T> {
    pub(super) data: Vec<T>,
    pub(super) page: PageInfo,
}

impl<T> List<T> {
    pub(super) fn of<R>(page: ledger::Page<R>, limit: u32, item: impl FnMut(R) -> T) -> Self {
        let data = page.items.into_iter().map(item).collect();
        Self {
            data,
            page: PageInfo {
                next: page.next,
                prev: page.previous,
                limit,
            },
        }
    }
}

/// A page of a list that is whole in memory and sorted by a distinct text.
pub(super) fn slice<T>(
    all: Vec<T>,
    query: &PageQuery,
    key: impl Fn(&T) -> &str,
) -> Result<List<T>, Problem> {
    let limit = query.limit()?;
    let start = match query.cursor() {
        None => 0,
        Some(cursor) => {
            let (forward, from) = decode(cursor).ok_or_else(Problem::cursor)?;
            let at = all.partition_point(|item| key(item) < from.as_str());
            match forward {
                // The cursor is the last row of the page before.
                true => at + usize::from(all.get(at).is_some_and(|item| key(item) == from)),
                false => at.saturating_sub(limit as usize),
            }
        }
    };
    let end = (start + limit as usize).min(all.len());
    let next = (end < all.len() && end > 0).then(|| encode(true, key(&all[end - 1])));
    let prev = (start > 0 && start < all.len()).then(|| encode(false, key(&all[start])));
    let data = all.into_iter().take(end).skip(start).collect();
    Ok(List {
        data,
        page: PageInfo { next, prev, limit },
    })
}

fn encode(forward: bool, key: &str) -> String {
    hex::encode(format!("{}{key}", if forward { 'f' } else { 'b' }))
}

fn decode(cursor: &str) -> Option<(bool, String)> {
    let text = String::from_utf8(hex::decode(cursor).ok()?).ok()?;
    if let Some(key) = text.strip_prefix('f') {
        return Some((true, key.to_owned()));
    }
    text.strip_prefix('b').map(|key| (false, key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{PageQuery, slice};

    #[test]
    fn both_ways_every_row_once() {
        let all: Vec<String> = (0..7).map(|n| format!("m{n}")).collect();
        let page = |cursor: Option<String>| {
            slice(
                all.clone(),
                &PageQuery {
                    limit: Some(3),
                    cursor,
                },
                String::as_str,
            )
            .unwrap()
        };
        let first = page(None);
        assert!(first.page.prev.is_none());
        let second = page(first.page.next.clone());
        let third = page(second.page.next.clone());
        assert!(third.page.next.is_none());
        let pages = [first.data.clone(), second.data.clone(), third.data];
        assert_eq!(pages.concat(), all);
        assert_eq!(page(third.page.prev).data, second.data);
        assert_eq!(page(second.page.prev).data, first.data);
    }

    #[test]
    fn a_limit_out_of_range_is_refused() {
        for limit in [0, 251] {
            assert!(
                PageQuery {
                    limit: Some(limit),
                    cursor: None
                }
                .limit()
                .is_err()
            );
        }
    }
}
