use serde::Deserialize;

use super::query;
use crate::api::problem::Problem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its reading is of interest")]
struct Body {
    members: Vec<Item>,
    cap: Option<u64>,
    small: Option<u8>,
    note: Option<String>,
    kind: Option<Kind>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its reading is of interest")]
struct Item {
    weight: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    OneOf,
    Other,
}

fn refused(text: &str) -> Problem {
    super::body::<Body>(text.as_bytes()).expect_err(text)
}

/// Cases 125, 133.
#[test]
fn errors_name_the_field_what_came_and_what_is_accepted() {
    for (body, pointer, code, message) in [
        (
            "[[], 5]",
            "",
            "wrong_type",
            "must be an object with the fields members, cap, small, note, kind, not a list",
        ),
        (
            "null",
            "",
            "wrong_type",
            "must be an object with the fields members, cap, small, note, kind, not null",
        ),
        ("{}", "/members", "missing", "is missing, and must be given"),
        (
            r#"{"members":[{}]}"#,
            "/members/0/weight",
            "missing",
            "is missing, and must be given",
        ),
        (
            r#"{"members":[[1]]}"#,
            "/members/0",
            "wrong_type",
            "must be an object with the field weight, not a list",
        ),
        (
            r#"{"members":[{"weight":1},{"weight":null}]}"#,
            "/members/1/weight",
            "wrong_type",
            "must be a number, not null",
        ),
        (
            r#"{"members":[{"weight":1,"wieght":2}]}"#,
            "/members/0/wieght",
            "unknown_field",
            "is not known; known are weight",
        ),
        (
            r#"{"members":{}}"#,
            "/members",
            "wrong_type",
            "must be a list, not an object",
        ),
        (
            r#"{"members":[],"cap":"50"}"#,
            "/cap",
            "wrong_type",
            "must be a whole number, 0 or more, not the text \"50\"",
        ),
        (
            r#"{"members":[],"cap":-1}"#,
            "/cap",
            "wrong_type",
            "must be a whole number, 0 or more, not -1",
        ),
        (
            r#"{"members":[],"cap":1e30}"#,
            "/cap",
            "wrong_type",
            "must be a whole number below 2^64, not 1e+30",
        ),
        (
            r#"{"members":[],"cap":1.5}"#,
            "/cap",
            "wrong_type",
            "must be a whole number, 0 or more, not 1.5",
        ),
        (
            r#"{"members":[],"small":256}"#,
            "/small",
            "wrong_type",
            "must be a whole number from 0 to 255, not 256",
        ),
        (
            r#"{"members":[],"note":5}"#,
            "/note",
            "wrong_type",
            "must be a text, not 5",
        ),
        (
            r#"{"members":[],"kind":"OneOf"}"#,
            "/kind",
            "not_one_of",
            "must be one of one_of, other, not the text \"OneOf\"",
        ),
        (
            r#"{"members":[],"kind":{"one_of":null}}"#,
            "/kind",
            "not_one_of",
            "must be one of one_of, other, not an object",
        ),
        (
            r#"{"members":[],"a/b~c":1}"#,
            "/a~1b~0c",
            "unknown_field",
            "is not known; known are members, cap, small, note, kind",
        ),
        (
            r#"{"members":[],"members":[]}"#,
            "/members",
            "duplicate_field",
            "is given more than once; give it once",
        ),
        (
            r#"{"members":[{"weight":1,"weight":1}]}"#,
            "/members/0/weight",
            "duplicate_field",
            "is given more than once; give it once",
        ),
        (
            "{\"members\":[],\"note\":\"a\\u0000b\"}",
            "/note",
            "nul_character",
            "has the character U+0000, which cannot be stored; leave it out",
        ),
        (
            r#"{"members":[{"weight":NaN}]}"#,
            "/members/0/weight",
            "malformed_json",
            "\"NaN\" is no value in JSON; texts need quotes",
        ),
        (
            r#"{"members":[{"weight": -Infinity }]}"#,
            "/members/0/weight",
            "malformed_json",
            "\"-Infinity\" is no value in JSON; texts need quotes",
        ),
        (
            r#"{"members":[{"weight":1e999}]}"#,
            "/members/0/weight",
            "out_of_range",
            "must be a number that can be counted with, up to 1e308",
        ),
    ] {
        let problem = refused(body);
        assert_eq!(problem.status, 422, "{body}: {problem:?}");
        let error = &problem.errors[0];
        assert_eq!(
            (error.pointer.as_str(), error.code, error.message.as_str()),
            (pointer, code, message),
            "{body}"
        );
        let place = if pointer.is_empty() {
            "The body"
        } else {
            pointer
        };
        assert_eq!(problem.detail, format!("{place}: {message}"), "{body}");
    }
}

#[test]
fn what_is_no_json_is_400() {
    let deep = "[".repeat(100_000);
    let deep_within = format!("{{\"members\":{}", "[".repeat(500));
    for body in [
        "",
        " ",
        "rubbish",
        "{",
        r#"{"members":["#,
        r#"{"members":[]} x"#,
        r#"{"members":[]"#,
        "{members:[]}",
        r#"{"members":[{weight:1}]}"#,
        r#"{"members":[],}"#,
        r#"{"note":,"members":[]}"#,
        r#"{"note":"a"#,
        "\u{feff}{}",
        &deep,
        &deep_within,
    ] {
        let problem = refused(body);
        let short: String = body.chars().take(40).collect();
        assert_eq!(
            (problem.status, problem.code),
            (400, "malformed_json"),
            "{short}: {problem:?}"
        );
        assert!(
            problem.detail.starts_with("The body is "),
            "{short}: {}",
            problem.detail
        );
    }
}

#[derive(Debug, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    limit: Option<u64>,
    #[serde(default)]
    dry_run: bool,
    text: Option<String>,
}

#[test]
fn parameters_are_read_as_fields_are() {
    let ask = |text: &str| {
        let pairs = url::form_urlencoded::parse(text.as_bytes()).into_owned();
        query::<Asked>(pairs)
    };
    let all = ask("limit=7&dry_run=true&text=a%20b+c").unwrap();
    assert_eq!(
        (all.limit, all.dry_run, all.text.as_deref()),
        (Some(7), true, Some("a b c"))
    );
    assert_eq!(ask("").unwrap(), Asked::default());
    assert_eq!(ask("text=5").unwrap().text.as_deref(), Some("5"));
    for (query, pointer, message) in [
        (
            "limit=-1",
            "query:limit",
            "must be a whole number, 0 or more, not \"-1\"",
        ),
        (
            "limit=",
            "query:limit",
            "must be a whole number, 0 or more, not \"\"",
        ),
        (
            "dry_run=yes",
            "query:dry_run",
            "must be true or false, not \"yes\"",
        ),
        (
            "limt=5",
            "query:limt",
            "is not known; known are limit, dry_run, text",
        ),
        (
            "limit=5&limit=6",
            "query:limit",
            "is given more than once; give it once",
        ),
        (
            "text=%00",
            "query:text",
            "has the character U+0000, which cannot be stored; leave it out",
        ),
    ] {
        let problem = ask(query).unwrap_err();
        assert_eq!(problem.status, 422, "{query}");
        assert_eq!(
            (
                problem.errors[0].pointer.as_str(),
                problem.errors[0].message.as_str()
            ),
            (pointer, message)
        );
    }
    assert_eq!(ask("text=%ff").unwrap_err().code, "not_utf8");
}
