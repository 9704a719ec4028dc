//! The scanner by example, and against quick-xml on generated documents.

use proptest::prelude::*;
use quick_xml::events::Event as Quick;

use super::*;

/// What both readers must agree on: element starts and ends, and the text in between.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Open(String),
    Text(String),
    Close,
}

fn push_text(seen: &mut Vec<Seen>, piece: &str) {
    match seen.last_mut() {
        _ if piece.is_empty() => {}
        Some(Seen::Text(text)) => text.push_str(piece),
        _ => seen.push(Seen::Text(piece.to_owned())),
    }
}

/// Reads with the scanner, taking the shortcut or not.
fn scan(document: &str, shortcut: bool) -> Result<Vec<Seen>, XmlError> {
    let mut scanner = Scanner::new(document)?;
    let mut seen = Vec::new();
    loop {
        if shortcut && let Some((name, text)) = scanner.plain_element() {
            seen.push(Seen::Open(name.to_owned()));
            push_text(&mut seen, text);
            seen.push(Seen::Close);
            continue;
        }
        match scanner.next()? {
            Some(Token::Open(name)) => seen.push(Seen::Open(name.to_owned())),
            Some(Token::Text(text)) => push_text(&mut seen, &text),
            Some(Token::Close) => seen.push(Seen::Close),
            None => return Ok(seen),
        }
    }
}

/// Reads with quick-xml. Text outside the root is blank in a document that the scanner accepts.
fn quick(document: &str) -> Result<Vec<Seen>, String> {
    let mut reader = quick_xml::Reader::from_str(document);
    let (mut seen, mut depth) = (Vec::new(), 0);
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Quick::Start(tag) => {
                depth += 1;
                seen.push(Seen::Open(tag.name().as_ref().to_owned()));
            }
            Quick::Empty(tag) => {
                seen.push(Seen::Open(tag.name().as_ref().to_owned()));
                seen.push(Seen::Close);
            }
            Quick::End(_) => {
                depth -= 1;
                seen.push(Seen::Close);
            }
            Quick::Text(text) if depth > 0 => push_text(&mut seen, &text.xml10_content()),
            Quick::CData(text) => push_text(&mut seen, &text.xml10_content()),
            Quick::GeneralRef(reference) => {
                let c = match reference.resolve_char_ref() {
                    Ok(Some(c)) => c.to_string(),
                    _ => quick_xml::escape::resolve_xml_entity(&reference)
                        .ok_or("entity")?
                        .to_owned(),
                };
                push_text(&mut seen, &c);
            }
            Quick::Eof => return Ok(seen),
            _ => {}
        }
    }
}

fn text_of(document: &str) -> String {
    match scan(document, true).expect(document).as_slice() {
        [_, Seen::Text(text), _] => text.clone(),
        [_, _] => String::new(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn text_is_decoded_outside_cdata_only() {
    for (document, text) in [
        (
            "<a>1 &lt; 2 &amp;&#38;&#x1F600; <![CDATA[<raw>]]> end</a>",
            "1 < 2 &&😀 <raw> end",
        ),
        ("<a><![CDATA[a]]]]><![CDATA[>b & <c>]]></a>", "a]]>b & <c>"),
        ("<a><![CDATA[&amp;]]></a>", "&amp;"),
        ("<a>x\r\ny\rz</a>", "x\ny\nz"),
        ("<a><![CDATA[x\r\ny]]></a>", "x\ny"),
        ("<a>&#13;</a>", "\r"),
        ("<a>x<!-- no --><?no?>y</a>", "xy"),
        ("<a></a>", ""),
        ("<a/>", ""),
        ("<a b='>' c=\">\" />", ""),
        ("<a\n>x</a\n>", "x"),
    ] {
        assert_eq!(text_of(document), text, "{document}");
    }
}

/// Cases 12 and 125: a forbidden character loses nothing else, and U+0000 goes nowhere.
#[test]
fn control_characters() {
    assert_eq!(text_of("<a>\u{10}x\0y&#0;z&#x0;</a>"), "\u{10}xyz");
    assert_eq!(text_of("<a><![CDATA[\0x\0]]></a>"), "x");
}

#[test]
fn what_is_no_reference_stays_text() {
    for text in [
        "a & b",
        "&",
        "&;",
        "&x;",
        "&#;",
        "&#x;",
        "&#+9;",
        "&nbsp;",
        "&#99999999999;",
        "&amp",
        "&你;",
    ] {
        assert_eq!(text_of(&format!("<a>{text}</a>")), text);
    }
    assert_eq!(text_of("<a>&#xD800;&#x110000;</a>"), "\u{fffd}\u{fffd}");
}

#[test]
fn only_one_balanced_element_is_a_document() {
    let at_start = |document: &str| scan(&format!("\u{feff}{document}"), true);
    assert!(at_start("<a/>").is_ok());
    for document in [
        "",
        " ",
        "x",
        "<",
        "<a",
        "<a>",
        "<a><b></a></b>",
        "<a></b>",
        "</a>",
        "<a/><b/>",
        "<a/>x",
        "x<a/>",
        "<a><![CDATA[</a>",
        "<![CDATA[x]]>",
        "<a><![CDATA[x]]</a>",
        "<1/>",
        "< a/>",
        "<a b='/>",
        "<a<b/>",
        "<a></ a>",
        "<!-- <a/>",
        "<?xml <a/>",
        "<a><!x></a>",
        "<a/ >x",
    ] {
        for shortcut in [true, false] {
            let refused = scan(document, shortcut);
            assert!(
                matches!(refused, Err(XmlError::Malformed { .. })),
                "{document}: {refused:?}"
            );
        }
    }
}

#[test]
fn doctype_is_refused_wherever_it_stands() {
    for document in [
        "<!DOCTYPE xml><a/>",
        "<?xml version='1.0'?>\n<!doctype x [<!ENTITY x 'y'>]><a>&x;</a>",
        "<a><!DOCTYPE a></a>",
    ] {
        assert_eq!(scan(document, true), Err(XmlError::Doctype));
    }
}

#[test]
fn size_and_depth_are_capped() {
    let nested = |n: usize| format!("{}{}", "<a>".repeat(n), "</a>".repeat(n));
    for shortcut in [true, false] {
        assert!(scan(&nested(MAX_DEPTH), shortcut).is_ok());
        assert_eq!(scan(&nested(MAX_DEPTH + 1), shortcut), Err(XmlError::Depth));
    }
    let long = format!("<a>{}</a>", "x".repeat(MAX_BYTES));
    assert_eq!(scan(&long, true), Err(XmlError::Size));
}

#[test]
fn element_text_skips_what_is_nested() {
    let mut scanner = Scanner::new("<a>x<b>no<a>no</a></b>y<c/><![CDATA[z]]></a>").expect("short");
    assert_eq!(scanner.next(), Ok(Some(Token::Open("a"))));
    assert_eq!(scanner.element_text().as_deref(), Ok("xyz"));
    assert_eq!(scanner.next(), Ok(None));
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "UserID",
            "ChangeType",
            "State",
            "a",
            "_x",
            "项目",
            "a-b.c:1"
        ])
        .prop_map(str::to_owned),
        "[A-Za-z_][A-Za-z0-9_.-]{0,12}",
    ]
}

/// Pieces of content that both readers must read alike.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^<&\\]\\x00\r]{0,12}",
        "[^\\]\\x00\r]{0,12}".prop_map(|text| format!("<![CDATA[{text}]]>")),
        Just("<![CDATA[]]]]><![CDATA[>]]>".to_owned()),
        prop::sample::select(vec![
            "&lt;", "&gt;", "&amp;", "&quot;", "&apos;", "&#20320;", "&#x4f60;"
        ])
        .prop_map(str::to_owned),
        Just("<!-- <UserID>no</UserID> -->".to_owned()),
        Just("\r\n  ".to_owned()),
    ]
}

fn element() -> impl Strategy<Value = String> {
    let leaf = (name(), prop::collection::vec(piece(), 0..3), any::<bool>()).prop_map(
        |(name, pieces, attribute)| {
            let attribute = if attribute { " k=\"a>b\" l='/'" } else { "" };
            match pieces.is_empty() {
                true => format!("<{name}{attribute}/>"),
                false => format!("<{name}{attribute}>{}</{name}>", pieces.concat()),
            }
        },
    );
    leaf.prop_recursive(4, 24, 6, |inner| {
        (
            name(),
            prop::collection::vec(prop_oneof![inner, piece()], 0..6),
        )
            .prop_map(|(name, content)| format!("<{name}>{}</{name}>", content.concat()))
    })
}

proptest! {
    #[test]
    fn agrees_with_quick_xml_on_well_formed_documents(root in element(), declared: bool) {
        let document = if declared { format!("<?xml version=\"1.0\"?>\n{root}\n") } else { root };
        let seen = scan(&document, true);
        prop_assert_eq!(&seen, &scan(&document, false));
        prop_assert_eq!(seen.map_err(|error| error.to_string()), quick(&document));
    }

    /// Whatever it accepts of broken mark-up, quick-xml reads in the same way.
    #[test]
    fn accepts_nothing_that_quick_xml_reads_differently(
        soup in prop::collection::vec(prop::sample::select(vec![
            "<a>", "</a>", "<b>", "</b>", "<a/>", "<b k='v'>", "<![CDATA[", "]]>", "<!--", "-->", "<?", "<?x", "?>", "x", " ", ">", "/", "'", "]", "<", "\"",
        ]), 0..12),
        wrapped: bool,
    ) {
        let soup = soup.concat();
        let document = if wrapped { format!("<a>{soup}</a>") } else { soup };
        let seen = scan(&document, true);
        prop_assert_eq!(&seen, &scan(&document, false));
        if let Ok(seen) = seen {
            prop_assert_eq!(Ok(seen), quick(&document));
        }
    }

    #[test]
    fn no_text_makes_it_panic_or_hang(document: String) {
        for shortcut in [true, false] {
            if let Ok(seen) = scan(&format!("<a>{document}</a>"), shortcut) {
                prop_assert!(!seen.iter().any(|seen| matches!(seen, Seen::Text(text) if text.contains('\0'))));
            }
            prop_assert!(scan(&document, shortcut).is_err() || document.contains('<'));
        }
    }
}
