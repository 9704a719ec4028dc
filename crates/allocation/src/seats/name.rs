//! What stands between the parts of a field. No id can hold these characters.

use crate::error::Error;

/// Between campaign and subject in the name of a seat, as between the parts of a key.
pub(crate) const WITHIN: char = '\u{1f}';
/// Between the items of a list in one field.
pub(crate) const ITEM: char = '\u{1a}';
/// Between the parts of such an item.
pub(crate) const PART: char = '\u{1d}';

pub(crate) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(&ITEM.to_string())
}

pub(crate) fn read_list<C: FromIterator<T>, T: std::str::FromStr<Err = Error>>(
    text: &str,
) -> Result<C, Error> {
    let items = text.split(ITEM).filter(|item| !item.is_empty());
    items.map(str::parse).collect()
}

pub(crate) fn flag(is: bool) -> String {
    if is { "1" } else { "" }.to_owned()
}
