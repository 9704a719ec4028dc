//! Cursors: opaque to callers, they carry a position and die of age (50100).

use crate::config::Paging;

/// Writes a cursor; a position is up to three numbers.
pub(crate) fn cursor(position: [u64; 3], now_ms: i64) -> String {
    let [a, b, c] = position;
    format!("c{now_ms:x}.{a:x}.{b:x}.{c:x}")
}

/// Reads a cursor; empty is the beginning.
pub(crate) fn position(cursor: &str, rules: &Paging, now_ms: i64) -> Result<[u64; 3], i32> {
    if cursor.is_empty() {
        return Ok([0; 3]);
    }
    let parse = || {
        let mut parts = cursor.strip_prefix('c')?.split('.');
        let made_ms = i64::from_str_radix(parts.next()?, 16).ok()?;
        let mut position = [0; 3];
        for number in &mut position {
            *number = u64::from_str_radix(parts.next()?, 16).ok()?;
        }
        parts.next().is_none().then_some((made_ms, position))
    };
    let (made_ms, position) = parse().ok_or(50100)?;
    if rules.cursor_life_ms > 0 && now_ms.saturating_sub(made_ms) > rules.cursor_life_ms {
        return Err(50100);
    }
    Ok(position)
}

/// The length of a page: what was asked, at most `most`, and the configured cap.
pub(crate) fn length(asked: Option<i64>, default: usize, most: usize, rules: &Paging) -> usize {
    let asked = asked
        .and_then(|asked| usize::try_from(asked).ok())
        .filter(|asked| *asked > 0);
    let length = asked.unwrap_or(default).min(most);
    if rules.cap > 0 {
        length.min(rules.cap)
    } else {
        length
    }
}
