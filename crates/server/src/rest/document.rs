//! The OpenAPI document: what the routes declare, completed by what applies to all of them. The
//! names in queries are checked against it, so that it always lists all of them.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use axum::http::Method;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Refusals that any operation can answer with.
const ALWAYS: &[u16] = &[400, 401, 403, 500, 503];
/// Those of an operation that names something in its path, or an agent in its query.
const WITH_ID: &[u16] = &[404, 409];
/// Those of an operation that changes something.
const CHANGES: &[u16] = &[404, 409, 422, 429];
/// Those of an operation that reads a body.
const WITH_BODY: &[u16] = &[413, 415];
/// Those of an operation that can wait: the number of waits is bounded.
const WAITS: &[u16] = &[429];

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// What an operation takes.
pub(super) struct OperationShape {
    pub(super) query_names: Vec<String>,
    pub(super) takes_body: bool,
}

/// The shape of an operation that is not described.
pub(super) static NOTHING: OperationShape = OperationShape {
    query_names: Vec::new(),
    takes_body: false,
};

struct ApiDocument {
    text: Bytes,
    operations: HashMap<(String, Method), OperationShape>,
}

static DOCUMENT: LazyLock<ApiDocument> = LazyLock::new(|| {
    let (_, routes) = super::router();
    let mut document = serde_json::to_value(routes).unwrap_or_default();
    add_refusals(&mut document);
    seal_bodies(&mut document);
    name_unsigned(&mut document);
    ApiDocument {
        text: document.to_string().into(),
        operations: read_shapes(&document),
    }
});

/// The document as it is served.
pub(crate) fn text() -> Bytes {
    DOCUMENT.text.clone()
}

/// What the operation behind a route takes. A `HEAD` takes what a `GET` does.
pub(super) fn operation(path: &str, method: &Method) -> Option<&'static OperationShape> {
    // Axum answers it by the route for GET, and the document does not list it.
    let method = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    DOCUMENT.operations.get(&(path.to_owned(), method.clone()))
}

fn operations_mut(document: &mut Value) -> impl Iterator<Item = (&str, &mut Value)> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    paths.flat_map(|(_, methods)| {
        let methods = methods.as_object_mut().into_iter().flatten();
        methods
            .map(|(method, operation)| (method.as_str(), operation))
            .filter(|(method, _)| METHODS.contains(method))
    })
}

fn parameters<'a>(operation: &'a Value, place: &'a str) -> impl Iterator<Item = &'a str> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    all.filter(move |parameter| parameter["in"] == place)
        .filter_map(|parameter| parameter["name"].as_str())
}

/// Every refusal has the same body, so it is described once.
fn add_refusals(document: &mut Value) {
    let content =
        json!({ "application/json": { "schema": { "$ref": "#/components/schemas/ErrorBody" } } });
    for (method, operation) in operations_mut(document) {
        let statuses = refusals(method, operation);
        let Some(responses) = operation["responses"].as_object_mut() else {
            continue;
        };
        for status in statuses {
            responses
                .entry(status.to_string())
                .or_insert_with(|| json!({ "description": describe(status) }));
        }
        let refused = responses
            .iter_mut()
            .filter(|(status, _)| status.as_str() >= "400");
        for (_, response) in refused {
            response["content"] = content.clone();
        }
    }
}

fn refusals(method: &str, operation: &Value) -> Vec<u16> {
    let mut statuses = ALWAYS.to_vec();
    let names_agent = parameters(operation, "query").any(|name| name == "agent_id");
    if names_agent || parameters(operation, "path").next().is_some() {
        statuses.extend(WITH_ID);
    }
    if method != "get" {
        statuses.extend(CHANGES);
    }
    if operation.get("requestBody").is_some() {
        statuses.extend(WITH_BODY);
    }
    if parameters(operation, "query").any(|name| name == "wait") {
        statuses.extend(WAITS);
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

fn describe(status: u16) -> &'static str {
    match status {
        400 => "a parameter is missing or not valid, or a field is unknown",
        401 => "no token, a token that is not valid, or a caller that cannot be identified",
        403 => "the caller may not do this",
        404 => "something it names does not exist",
        409 => "in conflict with the current state",
        413 => "too large",
        415 => "the body must be `application/json`",
        422 => "well-formed, but a value in it cannot be used",
        429 => "a limit is reached, for example on open asks or agents",
        500 => "something outside the host failed",
        _ => "nothing can be recorded, or the host is ending",
    }
}

/// Adds to all schemas of bodies that other fields are refused.
fn seal_bodies(document: &mut Value) {
    let mut open: Vec<String> = Vec::new();
    for (_, operation) in operations_mut(document) {
        collect_references(&operation["requestBody"], &mut open);
    }
    // Schemas may refer to each other in a circle.
    let mut sealed = HashSet::new();
    while let Some(name) = open.pop() {
        let schema = &mut document["components"]["schemas"][&name];
        if !sealed.insert(name) {
            continue;
        }
        collect_references(schema, &mut open);
        seal(schema);
    }
}

/// Closes an object with named fields, and each choice of a union.
fn seal(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if object.contains_key("properties") && !object.contains_key("additionalProperties") {
        object.insert("additionalProperties".to_owned(), false.into());
    }
    let choices = object
        .iter_mut()
        .filter(|(key, _)| ["oneOf", "anyOf"].contains(&key.as_str()));
    for choice in choices.flat_map(|(_, list)| list.as_array_mut().into_iter().flatten()) {
        seal(choice);
    }
}

/// Gives unsigned numbers a format and a maximum of their own.
fn name_unsigned(part: &mut Value) {
    // utoipa writes `int64` for `u64`, and a generated client would refuse the upper half.
    match part {
        Value::Object(fields) => {
            let is_unsigned = fields.get("minimum") == Some(&json!(0));
            let named = match fields.get("format").and_then(Value::as_str) {
                Some("int32") if is_unsigned => Some(("uint32", json!(u32::MAX))),
                Some("int64") if is_unsigned => Some(("uint64", json!(u64::MAX))),
                _ => None,
            };
            if let Some((format, maximum)) = named {
                fields.insert("format".to_owned(), format.into());
                fields.insert("maximum".to_owned(), maximum);
            }
            fields.values_mut().for_each(name_unsigned);
        }
        Value::Array(items) => items.iter_mut().for_each(name_unsigned),
        _ => {}
    }
}

fn collect_references(part: &Value, found: &mut Vec<String>) {
    match part {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            let name = reference.and_then(|text| text.strip_prefix("#/components/schemas/"));
            found.extend(name.map(str::to_owned));
            fields
                .values()
                .for_each(|field| collect_references(field, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

fn read_shapes(document: &Value) -> HashMap<(String, Method), OperationShape> {
    let empty = Map::new();
    let paths = document["paths"].as_object().unwrap_or(&empty);
    let mut shapes = HashMap::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap_or(&empty) {
            let Ok(method) = method.to_ascii_uppercase().parse() else {
                continue;
            };
            let shape = OperationShape {
                query_names: parameters(operation, "query").map(str::to_owned).collect(),
                takes_body: operation.get("requestBody").is_some(),
            };
            shapes.insert((path.clone(), method), shape);
        }
    }
    shapes
}
