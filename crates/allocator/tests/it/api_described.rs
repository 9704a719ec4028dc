//! The API as its description has it: its routes, requests that fit, and values that do not.

use std::sync::Arc;

use allocator::api;
use ledger::Role;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::api_support::{Answer, Console, World, answer};

pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) operation: Value,
}

pub(crate) struct Api {
    pub(crate) whole: Value,
    pub(crate) routes: Vec<Route>,
    pub(crate) console: Console,
}

impl Api {
    pub(crate) async fn of(world: &World) -> Self {
        let whole = serde_json::to_value(api::openapi(Arc::clone(world.app()))).unwrap();
        let mut routes = Vec::new();
        for (path, item) in whole["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let Ok(method) = method.to_uppercase().parse::<Method>() else {
                    continue;
                };
                if operation["operationId"].is_null() {
                    continue;
                }
                routes.push(Route {
                    method,
                    path: path.split_once("{corp_id}").unwrap().1.to_owned(),
                    operation: operation.clone(),
                });
            }
        }
        assert!(routes.len() > 30, "{}", routes.len());
        let console = world.console(Role::Admin).await;
        Self {
            whole,
            routes,
            console,
        }
    }

    pub(crate) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        if let Some(place) = schema["$ref"].as_str() {
            let name = place.rsplit('/').next().unwrap();
            return self.resolve(&self.whole["components"]["schemas"][name]);
        }
        let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        match choices {
            Some(choices) => {
                let some = choices.iter().find(|choice| choice["type"] != "null");
                self.resolve(some.unwrap())
            }
            None => schema,
        }
    }

    /// A value that fits a schema.
    pub(crate) fn example(&self, schema: &Value) -> Value {
        let schema = self.resolve(schema);
        if let Some(words) = schema["enum"].as_array() {
            return words[0].clone();
        }
        match kind(schema) {
            "object" => {
                let fields = schema["properties"].as_object().unwrap();
                let all = fields
                    .iter()
                    .map(|(name, field)| (name.clone(), self.example(field)));
                all.collect::<Map<_, _>>().into()
            }
            "array" => json!([self.example(&schema["items"])]),
            "boolean" => json!(true),
            "integer" | "number" => json!(1),
            "string" if schema["format"] == "date-time" => json!("2026-10-14T08:00:00Z"),
            "string" if schema["format"] == "uuid" => json!("01920000-0000-7000-8000-000000000001"),
            "string" => json!("x1"),
            other => panic!("{other}: {schema}"),
        }
    }

    /// The body's schema, if the route takes one.
    pub(crate) fn body<'a>(&'a self, route: &'a Route) -> Option<&'a Value> {
        let schema = &route.operation["requestBody"]["content"]["application/json"]["schema"];
        (!schema.is_null()).then(|| self.resolve(schema))
    }

    pub(crate) async fn raw(&self, route: &Route, path: &str, body: String) -> Answer {
        let url = format!("{}{path}", self.console.base);
        let request = self.console.http.request(route.method.clone(), url);
        let request = request
            .bearer_auth(self.console.key.as_ref().unwrap())
            .header("content-type", "application/json");
        answer(request.body(body)).await
    }
}

pub(crate) fn kind(schema: &Value) -> &str {
    match &schema["type"] {
        Value::Array(kinds) => kinds
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null")
            .unwrap(),
        kind => kind.as_str().unwrap_or("none"),
    }
}

/// The path with something in the place of each parameter.
pub(crate) fn filled(path: &str, with: &str) -> String {
    let mut text = String::new();
    for part in path.split_inclusive(['{', '}']) {
        match part.strip_suffix('}') {
            Some(_) => text.push_str(with),
            None => text.push_str(part.strip_suffix('{').unwrap_or(part)),
        }
    }
    text
}

/// Values that do not fit a schema of this kind.
pub(crate) fn misfits(schema: &Value) -> Vec<Value> {
    let all = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!("x"),
        json!([]),
        json!([[]]),
        json!({"x": 1}),
    ];
    let nullable = schema["type"]
        .as_array()
        .is_some_and(|kinds| kinds.contains(&json!("null")))
        || ["oneOf", "anyOf"].iter().any(|choice| {
            schema[*choice]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["type"] == "null"))
        });
    // Some numbers may be below 0.
    let below_zero = schema["minimum"]
        .as_f64()
        .is_some_and(|least| least <= -1.0);
    all.into_iter()
        .filter(|value| !(value.is_null() && nullable))
        .filter(|value| !(below_zero && value == &json!(-1)))
        .collect()
}

pub(crate) fn fits(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => false,
        "array" => value == &json!([]),
        "boolean" => value.is_boolean(),
        "number" => value == &json!(1.5),
        "string" => value.is_string(),
        _ => false,
    }
}

pub(crate) struct Place {
    pub(crate) field: Value,
    pub(crate) required: bool,
}

/// The pointer of every field in the example of a schema.
pub(crate) fn places(api: &Api, schema: &Value, at: &str) -> Vec<(String, Place)> {
    let schema = api.resolve(schema);
    match kind(schema) {
        "object" => {
            let mut all = Vec::new();
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let pointer = format!("{at}/{name}");
                let required = schema["required"]
                    .as_array()
                    .is_some_and(|names| names.contains(&json!(name)));
                all.extend(places(api, field, &pointer));
                all.push((
                    pointer,
                    Place {
                        field: field.clone(),
                        required,
                    },
                ));
            }
            all
        }
        "array" => places(api, &schema["items"], &format!("{at}/0")),
        _ => Vec::new(),
    }
}

/// The same body, with one field of one object written twice.
pub(crate) fn doubled(body: &Value, parent: &str, name: &str) -> String {
    let mut body = body.clone();
    let object = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    let value = object[name].clone();
    object.insert("\u{1}".to_owned(), value);
    let mark = serde_json::to_string("\u{1}").unwrap();
    body.to_string().replace(&mark, &json!(name).to_string())
}
