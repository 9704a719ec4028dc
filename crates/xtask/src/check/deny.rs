//! What `deny.toml` says of dependencies, checked without cargo-deny: bans, licences and sources of everything that
//! is really built. cargo-deny checks more (licence texts, duplicates) and is used where it is installed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// The part of `deny.toml` that is understood here.
#[derive(Debug, Deserialize)]
pub(crate) struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    #[serde(default)]
    wrappers: Vec<String>,
}

/// A line of `cargo tree` with [`TREE`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    /// Name and version.
    name: String,
    license: String,
    /// Where it comes from, unless that is crates.io or this checkout.
    source: Option<String>,
}

/// The tree of everything that is built, with dev-dependencies and for every platform. Unlike `cargo metadata` it
/// leaves out what no feature of ours switches on.
pub(crate) const TREE: &[&str] = &[
    "tree",
    "--locked",
    "--workspace",
    "--target",
    "all",
    "--edges",
    "normal,build,dev",
    "--prefix",
    "depth",
    "--format",
    "\t{p}\t{l}\t",
];

/// How many packages are built, and what is wrong with them.
pub(crate) fn check(rules: &Rules, tree: &str) -> (usize, Vec<String>) {
    let users = users(tree);
    let mut problems = Vec::new();
    for (package, used_by) in &users {
        let name = package.name.as_str();
        let bare = name.split(' ').next().unwrap_or_default();
        for ban in rules.bans.deny.iter().filter(|ban| ban.name == bare) {
            if used_by.iter().any(|user| !ban.wrappers.contains(user)) {
                let who: Vec<&str> = used_by.iter().map(String::as_str).collect();
                problems.push(format!(
                    "{name} is banned ({}); used by {}",
                    ban.reason,
                    who.join(", ")
                ));
            }
        }
        if !allowed(&package.license, &rules.licenses.allow) {
            problems.push(format!(
                "{name}: licence \"{}\" is not allowed",
                package.license
            ));
        }
        if let Some(source) = &package.source {
            problems.push(format!("{name} comes from {source}"));
        }
    }
    (users.len(), problems)
}

/// Every package and the names of those that use it.
fn users(tree: &str) -> BTreeMap<Package, BTreeSet<String>> {
    let mut users: BTreeMap<Package, BTreeSet<String>> = BTreeMap::new();
    let mut path: Vec<String> = Vec::new();
    for line in tree.lines() {
        let mut columns = line.split('\t');
        let (Some(depth), Some(package), Some(license)) =
            (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let Ok(depth) = depth.parse::<usize>() else {
            continue;
        };
        let (name, source) = match package.split_once(" (") {
            Some((name, rest)) => (name, rest.split(')').next()),
            None => (package, None),
        };
        let package = Package {
            name: name.to_owned(),
            license: license.to_owned(),
            source: source
                .filter(|source| !source.starts_with('/') && *source != "proc-macro")
                .map(str::to_owned),
        };
        path.truncate(depth);
        let used_by = users.entry(package).or_default();
        used_by.extend(path.last().cloned());
        path.push(name.split(' ').next().unwrap_or_default().to_owned());
    }
    users
}

/// Whether an SPDX expression can be met with these licences. `A/B` is the old way to write `A OR B`.
fn allowed(expression: &str, allow: &[String]) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = either(&mut words, allow);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allow: &[String]) -> bool {
    let mut met = both(words, allow);
    while words.next_if_eq(&"OR").is_some() {
        // Not `||`: the rest has to be read too.
        met |= both(words, allow);
    }
    met
}

fn both(words: &mut Words<'_>, allow: &[String]) -> bool {
    let mut met = one(words, allow);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allow);
    }
    met
}

fn one(words: &mut Words<'_>, allow: &[String]) -> bool {
    match words.next() {
        Some("(") => {
            let met = either(words, allow);
            words.next_if_eq(&")").is_some() && met
        }
        Some(license) => {
            let mut name = license.to_owned();
            if words.next_if_eq(&"WITH").is_some() {
                name = format!("{name} WITH {}", words.next().unwrap_or_default());
            }
            allow.contains(&name)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spdx_expressions_are_met_or_not() {
        let allow = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        let cases = [
            ("MIT", true),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR GPL-3.0) AND ISC", true),
            ("MIT OR GPL-3.0 AND GPL-2.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("(MIT", false),
            ("MIT ISC", false),
            ("none stated", false),
        ];
        for (expression, met) in cases {
            assert_eq!(allowed(expression, &allow), met, "{expression}");
        }
    }

    #[test]
    fn what_is_built_against_the_rules_is_named() {
        let rules: Rules = toml::from_str(
            r#"
            licenses.allow = ["MIT"]
            bans.deny = [
                { crate = "bad", reason = "because" },
                { crate = "inner", wrappers = ["good"], reason = "only there" },
            ]
            "#,
        )
        .unwrap();
        let tree = "0\tours v0.0.0 (/somewhere/ours)\tMIT\t\n\
                    1\tgood v1.0.0\tMIT\t\n\
                    2\tinner v1.0.0 (proc-macro)\tMIT\t\n\
                    1\tbad v1.0.0\tMIT\t\n\
                    1\todd v1.0.0 (https://elsewhere/odd#abc)\tGPL-3.0\t\n\
                    \n\
                    0\talso v0.0.0 (/somewhere/also)\tMIT\t\n\
                    1\tbad v1.0.0\tMIT\t (*)\n";
        let (built, problems) = check(&rules, tree);
        assert_eq!(built, 6);
        assert_eq!(
            problems,
            [
                "bad v1.0.0 is banned (because); used by also, ours",
                "odd v1.0.0: licence \"GPL-3.0\" is not allowed",
                "odd v1.0.0 comes from https://elsewhere/odd#abc",
            ]
        );
    }
}
