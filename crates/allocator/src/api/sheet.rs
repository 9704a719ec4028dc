//! Tables as CSV (RFC 4180), for a spreadsheet.

use axum::http::{HeaderName, HeaderValue, header};
use csv::{Terminator, WriterBuilder};

/// Rows as a spreadsheet reads them; `file` is what it is saved as.
pub(super) fn headers(file: &str) -> [(HeaderName, HeaderValue); 2] {
    let as_file = HeaderValue::try_from(format!("attachment; filename=\"{file}\""));
    [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/csv; charset=utf-8"),
        ),
        (
            header::CONTENT_DISPOSITION,
            as_file.unwrap_or(HeaderValue::from_static("attachment")),
        ),
    ]
}

/// Each row with its end.
pub(super) fn rows<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut writer = WriterBuilder::new()
        .terminator(Terminator::CRLF)
        .from_writer(Vec::new());
    let written = rows
        .into_iter()
        .try_for_each(|row| writer.write_record(&row));
    let bytes = writer.into_inner();
    match (written, bytes.map(String::from_utf8)) {
        (Ok(()), Ok(Ok(text))) => text,
        _ => unreachable!("memory takes rows of one length, and they are text"),
    }
}

/// What people wrote; no spreadsheet takes it for a formula.
pub(super) fn text(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    match is_formula {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_text() {
        for (cell, shown) in [
            ("Anna", "Anna"),
            ("=1+1", "'=1+1"),
            ("+861", "'+861"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("a,b", "\"a,b\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            let rows = rows([[text(cell), "1".to_owned()]]);
            assert_eq!(rows, format!("{shown},1\r\n"));
        }
    }
}
