//! The table against the page it was written from.

use super::*;

#[test]
fn the_table_is_sorted_and_has_no_overlap() {
    assert!(codes::table_is_sorted());
}
