//! Reads the contract at the head of a Lua script against its body, so that the contract cannot rot.
//!
//! ```lua
//! #!lua
//! -- reserve_seat: hold one seat in a group, once per visitor and campaign.
//! --
//! -- KEYS[1]   group    hash    {corp}:v1:group:<group>   scan_cap, buffer, confirmed
//! -- ARGV[1]   visitor  string  repeats are safe
//! -- ARGV[2..] ids      string  any number of them
//! -- Derived   seen     string  {corp}:v1:seen:<id>
//! -- Returns   {"RESERVED", free_left} | {"FULL", 0}
//! -- Errors    CLOSED   the group's counts are unknown
//! -- Invariant free is never negative.
//! ```

use std::collections::BTreeSet;
use std::path::Path;

/// # Panics
/// With all problems, when header and body disagree, or when the file cannot be read.
pub fn check_lua_header(path: impl AsRef<Path>) {
    let path = path.as_ref();
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let problems = lua_header_problems(&name, &text);
    assert!(
        problems.is_empty(),
        "{}:\n{}",
        path.display(),
        problems.join("\n")
    );
}

/// What is wrong with the header of the script `name`; empty when header and body agree.
pub fn lua_header_problems(name: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut lines = text.lines().peekable();
    if !lines.next().unwrap_or_default().starts_with("#!lua") {
        problems
            .push("the first line is not #!lua: a cluster would not refuse foreign slots".into());
    }
    let mut header = Vec::new();
    while let Some(line) = lines.next_if(|line| line.starts_with("--")) {
        header.push(line.trim_start_matches("--").trim());
    }
    let body: String = lines
        .map(|line| strip_comment(line).to_owned() + "\n")
        .collect();
    if !header
        .first()
        .is_some_and(|line| line.starts_with(&format!("{name}: ")))
    {
        problems.push(format!("the second line is not `-- {name}: what it does`"));
    }
    for section in ["Returns", "Invariant"] {
        if !header.iter().any(|line| line.starts_with(section)) {
            problems.push(format!("no {section}"));
        }
    }
    arguments("KEYS", &header, &body, &mut problems);
    arguments("ARGV", &header, &body, &mut problems);
    codes(&header, &body, &mut problems);
    answers(&header, &body, &mut problems);
    derived(&header, &body, &mut problems);
    problems
}

/// Every index that is declared is used, and the other way round; an index that is computed needs `[n..]`.
fn arguments(table: &str, header: &[&str], body: &str, problems: &mut Vec<String>) {
    let mut declared = BTreeSet::new();
    let mut open_from = None;
    for line in header {
        let Some(index) = line
            .strip_prefix(table)
            .and_then(|rest| rest.strip_prefix('['))
        else {
            continue;
        };
        let index = index.split(']').next().unwrap_or_default();
        match index
            .strip_suffix("..")
            .map_or_else(|| index.parse(), str::parse::<usize>)
        {
            Ok(first) if index.ends_with("..") => open_from = Some(first),
            Ok(n) => {
                declared.insert(n);
            }
            Err(_) => problems.push(format!("{table}[{index}] is no index")),
        }
    }
    let used: BTreeSet<usize> = body
        .split(&format!("{table}["))
        .skip(1)
        .filter_map(|rest| rest.split(']').next()?.trim().parse().ok())
        .collect();
    let computed = mentions_beyond_literals(table, body);
    let expected = declared.len() + 1;
    if declared.iter().copied().ne(1..expected) || open_from.is_some_and(|first| first != expected)
    {
        problems.push(format!("the {table} are not declared one after the other"));
    }
    for n in declared.difference(&used) {
        problems.push(format!("{table}[{n}] is declared and not used"));
    }
    for n in used.difference(&declared) {
        if open_from.is_none_or(|first| *n < first) {
            problems.push(format!("{table}[{n}] is used and not declared"));
        }
    }
    match open_from {
        Some(first) if !computed => {
            problems.push(format!("{table}[{first}..] is declared and not walked"))
        }
        None if computed => {
            problems.push(format!("{table} is walked and no {table}[n..] declared"))
        }
        _ => {}
    }
}

/// True for `ARGV[i]`, `#ARGV`, `unpack(ARGV, 3)`.
fn mentions_beyond_literals(table: &str, body: &str) -> bool {
    body.split(table).skip(1).any(|rest| {
        let literal = rest
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
            .is_some_and(|index| index.trim().parse::<usize>().is_ok());
        !literal
    })
}

/// Codes of `error_reply("CODE …")` are the words of the `Errors` lines.
fn codes(header: &[&str], body: &str, problems: &mut Vec<String>) {
    let raised: BTreeSet<&str> = quoted_after("error_reply(", body).into_iter().collect();
    let declared: BTreeSet<&str> = section("Errors", header)
        .iter()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| is_word(word))
        .collect();
    for code in raised.difference(&declared) {
        problems.push(format!("error {code} is raised and not declared"));
    }
    for code in declared.difference(&raised) {
        problems.push(format!("error {code} is declared and never raised"));
    }
}

/// Every word that `Returns` promises stands in the body.
fn answers(header: &[&str], body: &str, problems: &mut Vec<String>) {
    for line in section("Returns", header) {
        for word in line
            .split('"')
            .skip(1)
            .step_by(2)
            .filter(|word| is_word(word))
        {
            if !body.contains(&format!("\"{word}\"")) && !body.contains(&format!("'{word}'")) {
                problems.push(format!("\"{word}\" is promised and never returned"));
            }
        }
    }
}

/// Key prefixes in string literals (`"seen:"`) are declared as `Derived … {corp}:v1:seen:<…>`.
fn derived(header: &[&str], body: &str, problems: &mut Vec<String>) {
    let declared: BTreeSet<&str> = section("Derived", header)
        .iter()
        .filter_map(|line| line.split(":v1:").nth(1)?.split('<').next())
        .collect();
    let used: BTreeSet<&str> = body
        .split(['"', '\''])
        .skip(1)
        .step_by(2)
        .filter(|literal| literal.len() > 1 && literal.ends_with(':'))
        .filter(|literal| {
            literal
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == ':' || c == '_')
        })
        .collect();
    for prefix in used.difference(&declared) {
        problems.push(format!(
            "keys under \"{prefix}\" are derived and not declared"
        ));
    }
    for prefix in declared.iter().filter(|prefix| !body.contains(*prefix)) {
        problems.push(format!(
            "keys under \"{prefix}\" are declared and not derived"
        ));
    }
}

/// The lines of a section without its name: those that begin with the name and, when it is followed by
/// blank starts, their continuation.
fn section<'a>(name: &str, header: &[&'a str]) -> Vec<&'a str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in header {
        let first = line.split_whitespace().next().unwrap_or_default();
        let opens = first.starts_with("KEYS[")
            || first.starts_with("ARGV[")
            || ["Returns", "Errors", "Invariant", "Cost", "Derived"].contains(&first);
        if opens {
            inside = first == name;
        }
        if inside {
            lines.push(line.strip_prefix(name).unwrap_or(line).trim());
        }
    }
    lines
}

fn quoted_after<'a>(call: &str, body: &'a str) -> Vec<&'a str> {
    body.split(call)
        .skip(1)
        .filter_map(|rest| rest.trim_start().strip_prefix(['"', '\'']))
        .filter_map(|rest| rest.split(['"', '\'', ' ']).next())
        .collect()
}

fn is_word(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

/// Cuts at `--` outside quotes.
fn strip_comment(line: &str) -> &str {
    let mut quote = None;
    let bytes = line.as_bytes();
    for (i, byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(open), close) if open == *close => quote = None,
            (None, b'-') if bytes.get(i + 1) == Some(&b'-') => return &line[..i],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::lua_header_problems;

    const GOOD: &str = r#"#!lua
-- take: take one.
--
-- KEYS[1]   pool   zset   {corp}:v1:pool
-- ARGV[1]   who    string
-- ARGV[2..] ids    string
-- Derived   seen   string {corp}:v1:seen:<id>
-- Returns   {"TAKEN", n} | {"NONE", 0}
-- Errors    CLOSED  nothing is known
-- Invariant none is negative.
local pool, who = KEYS[1], ARGV[1] -- KEYS[9] in a comment is none
for i = 2, #ARGV do redis.call("SET", "x" .. "seen:" .. ARGV[i], who) end
if not pool then return redis.error_reply("CLOSED no pool") end
return who and {"TAKEN", 1} or {"NONE", 0}
"#;

    #[test]
    fn agreement_is_silent() {
        assert_eq!(lua_header_problems("take", GOOD), Vec::<String>::new());
    }

    #[test]
    fn every_disagreement_is_named() {
        for (from, to, problem) in [
            ("#!lua\n", "#! lua\n", "the first line"),
            ("take: take", "give: take", "second line"),
            ("-- KEYS[1] ", "-- KEYS[2] ", "not declared one after"),
            (
                "KEYS[1], ARGV",
                "'k', ARGV",
                "KEYS[1] is declared and not used",
            ),
            (
                "-- ARGV[1]   who    string\n",
                "",
                "ARGV[1] is used and not declared",
            ),
            ("-- ARGV[2..]", "-- ARGV[2]", "no ARGV[n..] declared"),
            (
                "\"seen:\"",
                "\"held:\"",
                "\"held:\" are derived and not declared",
            ),
            (
                "-- Derived",
                "-- (",
                "\"seen:\" are derived and not declared",
            ),
            (
                "{\"NONE\", 0}\n-- E",
                "{\"LATE\", 0}\n-- E",
                "\"LATE\" is promised",
            ),
            ("-- Returns", "-- Gives", "no Returns"),
            ("-- Invariant", "-- So", "no Invariant"),
            ("\"CLOSED no", "\"SHUT no", "error SHUT is raised"),
            (
                "-- Errors    CLOSED",
                "-- Errors    GONE",
                "error GONE is declared",
            ),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let problems = lua_header_problems("take", &text).join("\n");
            assert!(problems.contains(problem), "{from} -> {to}: {problems}");
        }
    }
}
