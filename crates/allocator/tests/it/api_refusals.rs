//! What every route says to a request that is wrong, made from the description: wrong kinds of value, missing, unknown
//! and doubled fields, in bodies, queries and paths. Always a problem document that names the place, what came and what
//! is accepted, in words that a caller knows.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    api_described::{Api, Route, doubled, filled, fits, kind, misfits, places},
    api_support::{Answer, World},
};

/// Words of Rust, of its libraries and of our stores.
const INNER: [&str; 24] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "i32",
    "i64",
    "f64",
    "usize",
    "struct",
    "enum",
    "variant",
    "tuple",
    "borrowed",
    "sequence",
    "map",
    "str",
    "deserialize",
    "serde",
    "sqlx",
    "SELECT",
    "INSERT",
    "postgres",
    "redis",
    "panicked",
];

/// A problem document that a caller can do something with.
fn check(what: &str, answer: &Answer) -> Value {
    let status = answer.status.as_u16();
    assert!(
        (400..500).contains(&status),
        "{what}: {status} {}",
        answer.text
    );
    let (_, code) = answer.refused();
    let problem = answer.json();
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        !detail.is_empty() && !detail.starts_with([':', ' ']),
        "{what}: {detail}"
    );
    assert!(
        !detail.contains(": :") && !detail.contains("::"),
        "{what}: {detail}"
    );
    // What the caller sent is shown in quotes.
    let words = detail
        .split('"')
        .step_by(2)
        .flat_map(|part| part.split(|c: char| !c.is_ascii_alphanumeric()));
    for word in words {
        assert!(!INNER.contains(&word), "{what}: {detail}");
    }
    for error in problem["errors"].as_array().into_iter().flatten() {
        assert!(
            !error["message"].as_str().unwrap().is_empty(),
            "{what}: {problem}"
        );
    }
    if code == "invalid" {
        assert_eq!(status, 422, "{what}: {problem}");
    }
    problem
}

fn first(problem: &Value) -> (&str, &str) {
    let error = &problem["errors"][0];
    (
        error["pointer"].as_str().unwrap_or_default(),
        error["code"].as_str().unwrap_or_default(),
    )
}

#[tokio::test]
async fn bodies_of_the_wrong_kind_are_refused_and_named() {
    let world = World::new().await;
    let api = Api::of(&world).await;
    let mut n_bodies = 0;
    for route in &api.routes {
        let Some(schema) = api.body(route) else {
            continue;
        };
        n_bodies += 1;
        let path = filled(&route.path, "x1");
        let what = format!("{} {path}", route.method);
        for body in ["null", "true", "1", "\"x\"", "[]", "[50,null]", "[{}]"] {
            let problem = check(&what, &api.raw(route, &path, body.to_owned()).await);
            assert_eq!(
                first(&problem),
                ("", "wrong_type"),
                "{what} {body}: {problem}"
            );
            assert_eq!(problem["status"], 422, "{what} {body}");
        }
        let deep = "[".repeat(100_000);
        for body in ["{", "x", "{}x", "{\"a\":}", &deep] {
            let problem = check(&what, &api.raw(route, &path, body.to_owned()).await);
            assert_eq!(problem["code"], "malformed_json", "{what}: {problem}");
            assert_eq!(problem["status"], 400, "{what}: {problem}");
        }
        wrong_fields(&api, route, &path, schema).await;
    }
    assert!(n_bodies > 10, "{n_bodies}");
}

/// Every field, at every depth: of a wrong kind, twice, missing, and one that nobody knows.
async fn wrong_fields(api: &Api, route: &Route, path: &str, schema: &Value) {
    let whole = api.example(schema);
    for (pointer, schema) in places(api, schema, "") {
        let what = format!("{} {path} {pointer}", route.method);
        let kind = kind(api.resolve(&schema.field)).to_owned();
        for value in misfits(&schema.field) {
            if fits(&kind, &value)
                || (api.resolve(&schema.field)["enum"].is_null()
                    && kind == "string"
                    && value == "x")
            {
                continue;
            }
            let mut body = whole.clone();
            *body.pointer_mut(&pointer).unwrap() = value.clone();
            let problem = check(&what, &api.raw(route, path, body.to_string()).await);
            let (at, _) = first(&problem);
            assert!(at.starts_with(&pointer), "{what} = {value}: {problem}");
            assert_eq!(problem["status"], 422, "{what} = {value}: {problem}");
        }
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let twice = doubled(&whole, parent, name);
        let problem = check(&what, &api.raw(route, path, twice).await);
        assert_eq!(
            first(&problem),
            (pointer.as_str(), "duplicate_field"),
            "{what}: {problem}"
        );
        let mut unknown = whole.clone();
        let object = unknown
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap();
        object.insert("nobody".to_owned(), json!(1));
        let problem = check(&what, &api.raw(route, path, unknown.to_string()).await);
        let expected = format!("{parent}/nobody");
        assert_eq!(
            first(&problem),
            (expected.as_str(), "unknown_field"),
            "{what}: {problem}"
        );
        if schema.required {
            let mut missing = whole.clone();
            let object = missing
                .pointer_mut(parent)
                .unwrap()
                .as_object_mut()
                .unwrap();
            object.remove(name);
            let problem = check(&what, &api.raw(route, path, missing.to_string()).await);
            assert_eq!(
                first(&problem),
                (pointer.as_str(), "missing"),
                "{what}: {problem}"
            );
        }
        let mut nul = whole.clone();
        if kind == "string" && api.resolve(&schema.field)["enum"].is_null() {
            *nul.pointer_mut(&pointer).unwrap() = json!("a\u{0}b");
            let problem = check(&what, &api.raw(route, path, nul.to_string()).await);
            assert_eq!(
                first(&problem),
                (pointer.as_str(), "nul_character"),
                "{what}: {problem}"
            );
        }
    }
}

#[tokio::test]
async fn parameters_of_the_wrong_kind_are_refused_and_named() {
    let world = World::new().await;
    let api = Api::of(&world).await;
    let mut n_parameters = 0;
    for route in &api.routes {
        let path = filled(&route.path, "x1");
        let what = format!("{} {path}", route.method);
        let body = api
            .body(route)
            .map(|schema| api.example(schema).to_string())
            .unwrap_or_default();
        let takes_query = route.operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|parameter| parameter["in"] == "query");
        for parameter in route.operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if parameter["in"] != "query" {
                continue;
            }
            n_parameters += 1;
            let name = parameter["name"].as_str().unwrap();
            let place = format!("query:{name}");
            let schema = api.resolve(&parameter["schema"]);
            let ask = async |value: &str| {
                let path = format!("{path}?{name}={value}");
                api.raw(route, &path, body.clone()).await
            };
            let wrong: &[&str] = match kind(schema) {
                "integer" => &[
                    "",
                    "x",
                    "-1",
                    "0",
                    "1.5",
                    "1e9",
                    "1000000000",
                    "99999999999999999999",
                    "%F0%9F%98%80",
                ],
                "boolean" => &["", "x", "1", "TRUE"],
                _ if !schema["enum"].is_null() => &["", "x", "%F0%9F%98%80"],
                _ if name.ends_with("_after") || name.ends_with("_before") || name == "since" => {
                    &["", "x", "0", "2026-13-01T00:00:00Z", "1969-12-31T00:00:00Z"]
                }
                _ if name == "cursor" => &[
                    "x",
                    "f.1",
                    "f.0-0",
                    "b.1-18446744073709551615",
                    "%F0%9F%98%80",
                ],
                _ => &[],
            };
            for value in wrong {
                let problem = check(&format!("{what}?{name}={value}"), &ask(value).await);
                assert_eq!(first(&problem).0, place, "{what}?{name}={value}: {problem}");
                assert_eq!(problem["status"], 422, "{what}?{name}={value}: {problem}");
            }
            let problem = check(&what, &ask("%00").await);
            assert_eq!(first(&problem).0, place, "{what}: {problem}");
            let problem = check(&what, &ask(&format!("x&{name}=x")).await);
            assert_eq!(
                first(&problem),
                (place.as_str(), "duplicate_field"),
                "{what}: {problem}"
            );
            let problem = check(&what, &ask("%ff").await);
            assert_eq!(problem["code"], "not_utf8", "{what}: {problem}");
        }
        if takes_query {
            let problem = check(
                &what,
                &api.raw(route, &format!("{path}?nobody=1"), body).await,
            );
            assert_eq!(
                first(&problem),
                ("query:nobody", "unknown_field"),
                "{what}: {problem}"
            );
        }
    }
    assert!(n_parameters > 40, "{n_parameters}");
}

/// Ids of ours are held to their rules; those we only look for are not found.
#[tokio::test]
async fn strange_ids_in_the_path_are_refused() {
    let world = World::new().await;
    let api = Api::of(&world).await;
    let long = "a".repeat(300);
    let mut named = BTreeSet::new();
    for route in api.routes.iter().filter(|route| route.path.contains('{')) {
        let name = route.path.split(['{', '}']).nth(1).unwrap();
        let body = api
            .body(route)
            .map(|schema| api.example(schema).to_string())
            .unwrap_or_default();
        for id in [
            "a%2Fb",
            "li%20si",
            "%20",
            "%01",
            "%7Ba%7D",
            "WeCom!",
            "%E6%9D%8E",
            "%F0%9F%98%80",
            "-a",
            "%2e%2e%2f",
            &long,
        ] {
            let path = filled(&route.path, id);
            let what = format!("{} {path}", route.method);
            let answer = api.raw(route, &path, body.clone()).await;
            match name {
                "userid" | "pool_id" | "channel_id" => {
                    let problem = check(&what, &answer);
                    let place = format!("path:{name}");
                    assert_eq!(
                        first(&problem),
                        (place.as_str(), "invalid"),
                        "{what}: {problem}"
                    );
                    named.insert(name);
                }
                // Anything that is printed may be an outside id.
                "customer_id" if answer.status == 200 => {}
                _ => drop(check(&what, &answer)),
            }
        }
        for (id, code) in [("%00", "invalid"), ("%ff", "not_utf8"), ("", "not_found")] {
            let path = filled(&route.path, id);
            let answer = api.raw(route, &path, body.clone()).await;
            let problem = check(&format!("{} {path}", route.method), &answer);
            let is_expected = problem["code"] == code || id.is_empty();
            assert!(is_expected, "{} {path}: {problem}", route.method);
        }
    }
    assert_eq!(named.len(), 3, "{named:?}");
}
