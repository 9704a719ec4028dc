//! `tests/CASES.md` says which tests cover which case. That list rots unless somebody reads it: every case has its
//! line, and every file that a line names exists and speaks of the case.

use std::collections::BTreeSet;
use std::path::Path;

const CASES: u32 = 140;

#[test]
fn every_case_is_where_the_list_says() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = std::fs::read_to_string(checkout.join("tests/CASES.md")).unwrap();
    let mut seen = Vec::new();
    let mut problems = Vec::new();
    for line in list.lines().filter_map(|line| line.strip_prefix("- ")) {
        let (head, rest) = line.split_once(": ").expect("a case and where it is");
        let number: u32 = head.split(' ').next().unwrap().parse().unwrap();
        seen.push(number);
        let files: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let reason = ["later", "cannot apply", "not run as such", "partly"]
            .iter()
            .any(|word| rest.starts_with(word));
        if files.is_empty() && !reason {
            problems.push(format!("case {number} has neither a test nor a reason"));
        }
        for file in files {
            let text = std::fs::read_to_string(checkout.join(file)).unwrap_or_default();
            if !named(&text).contains(&number) {
                problems.push(format!("{file} does not speak of case {number}"));
            }
        }
    }
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(seen, (1..=CASES).collect::<Vec<_>>());
}

/// The answers to bad input: each line names its tests, and they are there.
#[test]
fn every_bad_input_is_tested_where_the_list_says() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = std::fs::read_to_string(checkout.join("tests/CASES.md")).unwrap();
    let (_, table) = list.split_once("## Bad input").expect("a list");
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    assert_eq!(rows.len(), 1 + 13, "a head and its rows");
    for row in &rows[1..] {
        let files: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert!(!files.is_empty(), "{row}");
        for file in files {
            assert!(checkout.join(file).is_file(), "{file}");
        }
    }
}

/// The numbers after "case" and "cases": `Case 4`, `Cases 1, 3 and 7`, `Cases 28 to 33`.
fn named(text: &str) -> BTreeSet<u32> {
    // A list may go on in the next line of a comment.
    let words: Vec<&str> = text
        .split_whitespace()
        .filter(|word| !word.starts_with("//"))
        .collect();
    let mut found = BTreeSet::new();
    for (at, word) in words.iter().enumerate() {
        if !matches!(
            word.to_ascii_lowercase().trim_start_matches('('),
            "case" | "cases"
        ) {
            continue;
        }
        let (mut from, mut last) = (None, None);
        for word in &words[at + 1..] {
            let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
            match (*word, digits.parse::<u32>()) {
                ("and", _) => {}
                ("to", _) => from = last,
                (_, Ok(number)) => {
                    found.extend(from.take().unwrap_or(number)..=number);
                    last = Some(number);
                    // A full stop or a colon ends the list.
                    if word.ends_with(['.', ':', ';', ')']) {
                        break;
                    }
                }
                _ => break,
            }
        }
    }
    found
}

#[test]
fn numbers_are_read_from_comments() {
    let text = "/// Cases 1, 3 and 7.\n// Cases 28 to 30 and\n/// 33: x\n/// as in case 115. Case 9's part\n/// Case by case";
    let expected = [1, 3, 7, 9, 28, 29, 30, 33, 115];
    assert_eq!(named(text), BTreeSet::from(expected));
}
