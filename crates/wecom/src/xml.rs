//! A small pull scanner for the XML that WeCom sends: elements, text, CDATA, character references.
//!
//! The envelope is read before its signature can be checked, so this code faces anybody. It has no
//! DTD, resolves no entity but the five predefined ones, opens nothing, recurses nowhere, and is
//! capped in size and depth. It borrows from its input and allocates only for text that must change.
//! A test compares it with quick-xml on generated documents. It does not know any element name.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memchr3, memmem};

/// Documents longer than this are refused. Real ones stay under 100 KiB; WeCom states no limit.
pub const MAX_BYTES: usize = 1 << 20;
/// Elements nested deeper than this are refused. WeCom's deepest document has five levels.
pub const MAX_DEPTH: usize = 16;

/// Why a document was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// Longer than [`MAX_BYTES`].
    #[error("document is longer than {MAX_BYTES} bytes")]
    Size,
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("elements are nested deeper than {MAX_DEPTH}")]
    Depth,
    /// There is a DOCTYPE. WeCom sends none, attackers do.
    #[error("DOCTYPE is not accepted")]
    Doctype,
    /// Not one well-formed element.
    #[error("not well-formed at byte {at}")]
    Malformed {
        /// Where the scanner stopped.
        at: usize,
    },
}

/// What the scanner meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// A start tag; attributes are skipped, WeCom uses none.
    Open(&'a str),
    /// The end tag that belongs to the innermost open element; follows at once on `<a/>`.
    Close,
    /// Text or one CDATA section, decoded. Consecutive ones belong together.
    Text(Cow<'a, str>),
}

/// Reads one document. [`Scanner::next`] gives `None` after a complete and balanced one.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    open: [&'a str; MAX_DEPTH],
    depth: usize,
    root_seen: bool,
    empty_element: bool,
    /// No line end and no character needs changing anywhere; only references may.
    clean: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Result<Self, XmlError> {
        if text.len() > MAX_BYTES {
            return Err(XmlError::Size);
        }
        Ok(Self {
            text,
            at: if text.starts_with('\u{feff}') { 3 } else { 0 },
            open: [""; MAX_DEPTH],
            depth: 0,
            root_seen: false,
            empty_element: false,
            clean: memchr2(b'\r', 0, text.as_bytes()).is_none(),
        })
    }

    /// Reads a whole element of the shape WeCom almost always sends, `<a><![CDATA[…]]></a>` or
    /// `<a>…</a>` with nothing to decode, in one step. Anything else gives `None` and stays unread
    /// for [`Scanner::next`]. A shortcut only: both ways give the same name and text.
    pub(crate) fn plain_element(&mut self) -> Option<(&'a str, &'a str)> {
        if self.depth == 0 || self.depth == MAX_DEPTH || !self.clean || self.empty_element {
            return None;
        }
        let inside = self.rest().strip_prefix('<')?;
        let (name, rest) = inside.split_at_checked(name_len(inside.as_bytes()))?;
        let content = rest.strip_prefix('>').filter(|_| !name.is_empty())?;
        let (text, rest) = match content.strip_prefix("<![CDATA[") {
            Some(section) => {
                let (text, rest) = section.split_at_checked(memchr(b']', section.as_bytes())?)?;
                (text, rest.strip_prefix("]]>")?)
            }
            None => content.split_at_checked(memchr2(b'<', b'&', content.as_bytes())?)?,
        };
        let rest = rest
            .strip_prefix("</")?
            .strip_prefix(name)?
            .strip_prefix('>')?;
        self.at = self.text.len() - rest.len();
        Some((name, text))
    }

    /// How many elements are open.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn next(&mut self) -> Result<Option<Token<'a>>, XmlError> {
        if std::mem::take(&mut self.empty_element) {
            self.depth -= 1;
            return Ok(Some(Token::Close));
        }
        loop {
            let rest = self.rest();
            let Some(text_len) = memchr(b'<', rest.as_bytes()) else {
                return self.end(rest);
            };
            if text_len > 0 {
                let raw = &rest[..text_len];
                if self.depth > 0 {
                    self.at += text_len;
                    return Ok(Some(Token::Text(decode(raw, true))));
                }
                if !is_blank(raw) {
                    return Err(self.malformed());
                }
                self.at += text_len;
                continue;
            }
            match rest.as_bytes().get(1) {
                Some(b'/') => return self.end_tag(rest).map(Some),
                Some(b'?') if name_len(&rest.as_bytes()[2..]) > 0 => self.skip(rest, "<?", "?>")?,
                Some(b'?') => return Err(self.malformed()),
                Some(b'!') => {
                    if let Some(section) = self.section(rest)? {
                        return Ok(Some(Token::Text(decode(section, false))));
                    }
                }
                _ => return self.start_tag(rest).map(Some),
            }
        }
    }

    /// The text of the element whose start tag was just read, up to and with its end tag. Elements
    /// inside it are skipped with their text.
    pub(crate) fn element_text(&mut self) -> Result<Cow<'a, str>, XmlError> {
        let depth = self.depth;
        let mut text = Cow::Borrowed("");
        while let Some(token) = self.next()? {
            match token {
                Token::Text(piece) if self.depth == depth => append(&mut text, piece),
                Token::Close if self.depth < depth => return Ok(text),
                _ => {}
            }
        }
        Err(self.malformed())
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn malformed(&self) -> XmlError {
        XmlError::Malformed { at: self.at }
    }

    fn end(&mut self, rest: &str) -> Result<Option<Token<'a>>, XmlError> {
        if self.depth == 0 && self.root_seen && is_blank(rest) {
            self.at = self.text.len();
            Ok(None)
        } else {
            Err(self.malformed())
        }
    }

    fn start_tag(&mut self, rest: &'a str) -> Result<Token<'a>, XmlError> {
        let name = &rest[1..1 + name_len(&rest.as_bytes()[1..])];
        if name.is_empty() || (self.depth == 0 && self.root_seen) {
            return Err(self.malformed());
        }
        let after_name = 1 + name.len();
        let (end, empty) = tag_end(rest.as_bytes(), after_name).ok_or_else(|| self.malformed())?;
        let slot = self.open.get_mut(self.depth).ok_or(XmlError::Depth)?;
        *slot = name;
        self.depth += 1;
        self.root_seen = true;
        self.empty_element = empty;
        self.at += end;
        Ok(Token::Open(name))
    }

    fn end_tag(&mut self, rest: &'a str) -> Result<Token<'a>, XmlError> {
        let close = memchr(b'>', rest.as_bytes()).ok_or_else(|| self.malformed())?;
        let name = rest[2..close].trim_end_matches(BLANKS);
        if self.depth == 0 || self.open[self.depth - 1] != name {
            return Err(self.malformed());
        }
        self.depth -= 1;
        self.at += close + 1;
        Ok(Token::Close)
    }

    /// What begins with `<!`: the content of a CDATA section, or nothing for a comment.
    fn section(&mut self, rest: &'a str) -> Result<Option<&'a str>, XmlError> {
        if let Some(section) = rest.strip_prefix("<![CDATA[") {
            let len = cdata_len(section)
                .filter(|_| self.depth > 0)
                .ok_or_else(|| self.malformed())?;
            self.at += "<![CDATA[".len() + len + "]]>".len();
            return Ok(Some(&section[..len]));
        }
        if rest.starts_with("<!--") {
            return self.skip(rest, "<!--", "-->").map(|()| None);
        }
        let doctype = rest
            .as_bytes()
            .get(..9)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"<!DOCTYPE"));
        Err(if doctype {
            XmlError::Doctype
        } else {
            self.malformed()
        })
    }

    fn skip(&mut self, rest: &str, start: &str, end: &str) -> Result<(), XmlError> {
        let inside = &rest.as_bytes()[start.len()..];
        let len = memmem::find(inside, end.as_bytes()).ok_or_else(|| self.malformed())?;
        self.at += start.len() + len + end.len();
        Ok(())
    }
}

/// Joins pieces of text; the usual single piece stays borrowed.
pub(crate) fn append<'a>(text: &mut Cow<'a, str>, piece: Cow<'a, str>) {
    if text.is_empty() {
        *text = piece;
    } else {
        text.to_mut().push_str(&piece);
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

fn is_blank(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Length of the name at the start of `text`; 0 when there is none. Letters beyond ASCII pass.
fn name_len(text: &[u8]) -> usize {
    match text.first() {
        None | Some(b'0'..=b'9' | b'-' | b'.') => 0,
        _ => text
            .iter()
            .take_while(|byte| NAME[usize::from(**byte)])
            .count(),
    }
}

/// Which bytes may stand in a name.
static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric()
            || matches!(byte as u8, b'_' | b':' | b'-' | b'.' | 0x80..);
        byte += 1;
    }
    table
};

/// Where the start tag ends (behind its `>`), and whether it is an empty element.
fn tag_end(tag: &[u8], after_name: usize) -> Option<(usize, bool)> {
    match tag.get(after_name)? {
        b'>' => return Some((after_name + 1, false)),
        b'/' if tag.get(after_name + 1) == Some(&b'>') => return Some((after_name + 2, true)),
        b' ' | b'\t' | b'\r' | b'\n' => {}
        _ => return None,
    }
    let mut at = after_name;
    loop {
        at += memchr3(b'>', b'"', b'\'', &tag[at..])?;
        match tag[at] {
            b'>' => return Some((at + 1, tag[at - 1] == b'/')),
            quote => at += 2 + memchr(quote, &tag[at + 1..])?,
        }
    }
}

/// Length of the CDATA content before its `]]>`.
fn cdata_len(section: &str) -> Option<usize> {
    let bytes = section.as_bytes();
    let mut at = 0;
    loop {
        at += memchr(b']', &bytes[at..])?;
        if bytes[at..].starts_with(b"]]>") {
            return Some(at);
        }
        at += 1;
    }
}

/// Line ends become `\n` as XML asks, U+0000 is dropped (no store takes it), and outside CDATA
/// references are resolved. What is no reference stays as it is: a stray `&` must not lose a message.
fn decode(raw: &str, references: bool) -> Cow<'_, str> {
    let bytes = raw.as_bytes();
    let first = if references {
        memchr3(b'\r', 0, b'&', bytes)
    } else {
        memchr2(b'\r', 0, bytes)
    };
    let Some(first) = first else {
        return Cow::Borrowed(raw);
    };
    let mut text = String::with_capacity(raw.len());
    let (clean, mut rest) = raw.split_at(first);
    text.push_str(clean);
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        rest = chars.as_str();
        match c {
            '\0' => {}
            '\r' => {
                text.push('\n');
                chars = rest.strip_prefix('\n').unwrap_or(rest).chars();
            }
            '&' if references => match reference(rest) {
                Some((c, len)) => {
                    text.extend(Some(c).filter(|c| *c != '\0'));
                    chars = rest[len..].chars();
                }
                None => text.push('&'),
            },
            other => text.push(other),
        }
    }
    Cow::Owned(text)
}

/// The character that the text behind an `&` names, and the length of that text with its `;`.
fn reference(text: &str) -> Option<(char, usize)> {
    // The longest useful one is "#x0010FFFF;" or a few more zeros.
    let window = &text.as_bytes()[..text.len().min(16)];
    let end = memchr(b';', window)?;
    let c = match &text[..end] {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        name => {
            let digits = name.strip_prefix('#')?;
            let (digits, radix) = digits
                .strip_prefix('x')
                .map_or((digits, 10), |hex| (hex, 16));
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            char::from_u32(u32::from_str_radix(digits, radix).ok()?)
                .unwrap_or(char::REPLACEMENT_CHARACTER)
        }
    };
    Some((c, end + 1))
}

#[cfg(test)]
mod tests;
