//! Requests that do not fit: every field that nobody reads is refused by its name, and every refusal has
//! the same form and stands in the document.

use serde_json::{Map, Value, json};

use crate::host::Host;
use crate::http::{Answer, Rest, http};
use crate::wire::Wire;

/// One operation of the document.
struct Operation {
    method: String,
    path: String,
    described: Value,
}

async fn document(host: &Host) -> Value {
    let answer = http(&host.address, "GET", "/api/v1/openapi.json", &[], "").await;
    assert_eq!(answer.status, 200);
    answer.json()
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, described) in methods.as_object().unwrap() {
            operations.push(Operation {
                method: method.to_uppercase(),
                path: path.replace("{id}", "none").replace("{tool}", "claude"),
                described: described.clone(),
            });
        }
    }
    assert!(operations.len() > 40, "{}", operations.len());
    operations
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let Some(reference) = schema["$ref"].as_str() else {
        return schema;
    };
    document
        .pointer(reference.trim_start_matches('#'))
        .unwrap_or_else(|| panic!("{reference}"))
}

/// The smallest body that can be read.
fn smallest(document: &Value, schema: &Value) -> Value {
    let schema = resolve(document, schema);
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match kind {
        Some("integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            let fields = required.map(|name| {
                let name = name.as_str().unwrap();
                let value = smallest(document, &schema["properties"][name]);
                (name.to_owned(), value)
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => json!(first_word(schema).unwrap_or("x")),
    }
}

/// The first of the words that a text may be, if it may not be any text.
fn first_word(schema: &Value) -> Option<&str> {
    let words = schema["pattern"].as_str()?.strip_prefix("^(")?;
    words.split('|').next()
}

fn body_schema(operation: &Operation) -> Option<&Value> {
    let schema = &operation.described["requestBody"]["content"]["application/json"]["schema"];
    (!schema.is_null()).then_some(schema)
}

fn message(answer: &Answer) -> (u16, String) {
    let text = answer.json()["error"]["message"].as_str().unwrap().into();
    (answer.status, text)
}

#[tokio::test]
async fn every_operation_refuses_what_it_does_not_know() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let document = document(&host).await;
    let refused = |answer: &Answer| {
        let (status, text) = message(answer);
        status == 400 && text.starts_with("unknown field `nonsense`")
    };
    for operation in operations(&document) {
        let Operation { method, path, .. } = &operation;
        // This one is served on the Unix socket alone, and says so first.
        if path.contains("/hooks/") {
            continue;
        }
        let body = body_schema(&operation).map(|schema| smallest(&document, schema));
        let named = format!("{path}?nonsense=1");
        let by_query = rest
            .send(method, &named, body.clone().unwrap_or_default())
            .await;
        assert!(refused(&by_query), "{method} {named}: {by_query:?}");
        let Some(mut body) = body else {
            let answer = rest.send(method, path, json!({ "nonsense": 1 })).await;
            let refused = (400, "this operation takes no body".to_owned());
            assert_eq!(message(&answer), refused, "{method} {path}");
            continue;
        };
        body["nonsense"] = json!(1);
        let by_body = rest.send(method, path, body).await;
        assert!(refused(&by_body), "{method} {path}: {by_body:?}");
    }
}

#[tokio::test]
async fn every_body_and_every_refusal_is_described() {
    let host = Host::start();
    let document = document(&host).await;
    let error =
        json!({ "application/json": { "schema": { "$ref": "#/components/schemas/ErrorBody" } } });
    for operation in operations(&document) {
        let Operation { method, path, .. } = &operation;
        if let Some(schema) = body_schema(&operation) {
            let sealed = &resolve(&document, schema)["additionalProperties"];
            assert_eq!(sealed, &json!(false), "{method} {path}");
        }
        let responses = operation.described["responses"].as_object().unwrap();
        for status in ["400", "401", "403", "500", "503"] {
            assert!(responses.contains_key(status), "{method} {path} {status}");
        }
        for (status, response) in responses
            .iter()
            .filter(|(status, _)| status.as_str() >= "400")
        {
            assert_eq!(response["content"], error, "{method} {path} {status}");
        }
    }
}

#[tokio::test]
async fn our_methods_refuse_what_they_do_not_know() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let agent = || json!({ "agent_id": "none" });
    let with = |name: &str, value: Value| {
        let mut params = agent();
        params[name] = value;
        params
    };
    let ours = [
        ("host.approval", json!({ "approval_id": "x" })),
        ("host.resolve_approvals", json!({ "answers": [] })),
        ("host.cancel_approval", json!({ "approval_id": "x" })),
        ("host.wait_approval", json!({ "approval_id": "x" })),
        ("host.questions", json!({})),
        ("host.question", json!({ "question_id": "x" })),
        ("host.ask_question", json!({ "question": "x" })),
        (
            "host.answer_question",
            json!({ "question_id": "x", "answer": "x" }),
        ),
        ("host.wait_question", json!({ "question_id": "x" })),
        ("host.stop_all", json!({})),
        ("host.create_token", json!({ "role": "operator" })),
        ("host.tokens", json!({})),
        ("host.revoke_token", json!({ "token_id": "x" })),
        ("host.create_ticket", json!({})),
        ("host.presence", json!({ "focused": true })),
        ("host.notify_status", json!({})),
        ("host.notify_test", json!({})),
        (
            "host.push_subscribe",
            json!({ "endpoint": "x", "p256dh": "x", "auth": "x" }),
        ),
        ("host.push_unsubscribe", json!({ "id": "x" })),
        ("host.redact_event", json!({ "sequence": 1 })),
        ("host.prune_events", json!({})),
        ("host.status", json!({})),
        ("host.shutdown", json!({})),
        ("host.rules", json!({})),
        ("host.add_rule", json!({ "rule": "Bash(ls)" })),
        ("host.remove_rule", json!({ "id": "x" })),
        ("host.check_rules", json!({ "tool": "Bash" })),
        ("host.backtest_rule", json!({ "rule": "Bash(ls)" })),
        ("host.suggest_rules", json!({})),
        ("host.untrusted_rules", json!({})),
        ("host.trust_rules", json!({ "file": "/x", "digest": "x" })),
        ("host.notify_parent", json!({ "message": "x" })),
        ("host.set_bypass", with("for_ms", Value::Null)),
        ("host.spawn_agent", json!({ "cwd": "/" })),
        ("host.prompt_agent", with("message", json!("x"))),
        ("host.queued_messages", agent()),
        ("host.withdraw_message", with("number", json!(1))),
        ("host.interrupt_agent", agent()),
        ("host.kill_agent", agent()),
        ("host.set_ceiling", agent()),
        ("host.resume_agent", agent()),
        ("host.fork_agent", agent()),
        ("host.archive_agent", agent()),
        ("host.rename_agent", with("name", json!("x"))),
        ("host.configure_agent", agent()),
        ("host.wait_agents", agent()),
        ("host.transcript", agent()),
        ("host.search", json!({ "text": "x" })),
        ("host.agent_diff", agent()),
        ("host.files", agent()),
        ("host.file", with("path", json!("x"))),
        (
            "host.write_file",
            json!({ "agent_id": "x", "path": "x", "content": "x" }),
        ),
        ("host.remove_worktree", agent()),
        ("host.merge_worktree", agent()),
        ("host.catalog", json!({})),
        (
            "host.hook",
            json!({ "event": "idle", "session_id": "x", "hook": "claude" }),
        ),
    ];
    for (method, mut params) in ours {
        params["nonsense"] = json!(1);
        let error = wire.no(method, params).await;
        assert_eq!(error["data"]["reason"], "invalid_params", "{method}");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with("unknown field `nonsense`"),
            "{method}: {message}"
        );
        // Nor is a list of values taken for the fields.
        let error = wire.no(method, json!(["x", "x", "x"])).await;
        assert_eq!(error["data"]["reason"], "invalid_params", "{method}");
    }
}

/// Clients in the field send fields that this host does not know.
#[tokio::test]
async fn the_host_wires_own_methods_take_what_they_do_not_know() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let agent = json!({ "name": "x", "id": "a", "display": { "shape": 1 }, "nonsense": 1 });
    wire.ok("host.register_agent", agent).await;
    let device = json!({ "name": "x", "platform": "x", "id": "d", "nonsense": 1 });
    wire.ok("host.register_device", device).await;
    let ask = json!({ "action": "x", "system_level": true, "nonsense": 1 });
    let id = wire.ok("host.request_approval", ask).await["id"].take();
    for (method, params) in [
        ("host.subscribe", json!({ "nonsense": 1 })),
        ("host.agents", json!([1, 2])),
        ("host.events", json!({ "limit": 1, "nonsense": 1 })),
        ("host.approvals", json!("ignored")),
        (
            "host.set_status",
            json!({ "agent_id": "a", "status": "idle", "nonsense": 1 }),
        ),
        (
            "host.update_device",
            json!({ "device_id": "d", "nonsense": 1 }),
        ),
        ("host.devices", json!({ "nonsense": 1 })),
        ("host.notify", json!({ "nonsense": 1 })),
        (
            "host.resolve_approval",
            json!({ "approval_id": id, "resolution": "deny", "nonsense": 1 }),
        ),
        (
            "host.dismiss_approval",
            json!({ "approval_id": id, "nonsense": 1 }),
        ),
        (
            "host.unregister_agent",
            json!({ "agent_id": "a", "nonsense": 1 }),
        ),
    ] {
        let id = wire.request(method, params).await;
        let reply = wire.reply_to(id).await;
        assert!(reply.get("error").is_none(), "{method}: {reply}");
    }
}

#[tokio::test]
async fn whatever_is_attached_comes_back_as_it_was_and_as_described() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let document = document(&host).await;
    for (row, field) in [
        ("HostApproval", "details"),
        ("HostAgent", "metadata"),
        ("HostEvent", "payload"),
    ] {
        let field = &document["components"]["schemas"][row]["properties"][field];
        assert_eq!(field.get("type"), None, "{row}: {field}");
    }
    for any in [json!(null), json!([1, null]), json!("x"), json!({ "a": 1 })] {
        for (path, body, field) in [
            (
                "/api/v1/approvals",
                json!({ "action": "x", "details": any }),
                "details",
            ),
            (
                "/api/v1/agents",
                json!({ "name": "x", "metadata": any }),
                "metadata",
            ),
            ("/api/v1/events", json!({ "payload": any }), "payload"),
        ] {
            let answer = rest.send("POST", path, body).await;
            assert_eq!(answer.json()[field], any, "{path}");
        }
    }
}

#[tokio::test]
async fn large_numbers_are_bounded_or_refused() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    for path in ["approvals", "questions", "events"] {
        for (limit, status) in [
            ("9223372036854775807", 200),
            ("9223372036854775808", 200),
            ("18446744073709551615", 200),
            ("18446744073709551616", 400),
            ("-1", 400),
        ] {
            let path = format!("/api/v1/{path}?limit={limit}");
            let answer = rest.get(&path).await;
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            if status == 400 {
                assert_eq!(answer.refusal().1, "invalid_params", "{path}");
            }
        }
    }
    for query in [
        "after=9223372036854775808",
        "before=18446744073709551615",
        "after=18446744073709551615",
    ] {
        let answer = rest.get(&format!("/api/v1/events?{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {answer:?}");
    }
}

#[tokio::test]
async fn every_refusal_has_our_form() {
    let host = Host::start();
    let bearer = format!("Bearer {}", host.token());
    let headers = [("authorization", bearer.as_str())];
    let large = "x".repeat(9 * 1024 * 1024);
    let cases = [
        ("GET", "/api/v1/agents/%00%ff", "", (400, "invalid_params")),
        ("GET", "/login/%ff", "", (400, "invalid_params")),
        ("GET", "/nothing", "", (404, "unknown_path")),
        ("GET", "/api/v1/nothing/%ff", "", (404, "unknown_path")),
        ("PATCH", "/api/v1/agents", "", (405, "method_not_allowed")),
        ("DELETE", "/healthz", "", (405, "method_not_allowed")),
        ("GET", "/rpc", "", (400, "invalid_params")),
        ("POST", "/api/v1/events", large.as_str(), (413, "too_large")),
        (
            "POST",
            "/api/v1/agents/none/kill?children=eat",
            "",
            (400, "invalid_params"),
        ),
    ];
    for (method, path, body, (status, reason)) in cases {
        let answer = http(&host.address, method, path, &headers, body).await;
        assert_eq!(
            answer.refusal(),
            (status, reason.to_owned()),
            "{method} {path}"
        );
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    let answer = http(&host.address, "PATCH", "/api/v1/agents", &headers, "").await;
    let mut allowed: Vec<&str> = answer.header("allow").unwrap().split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "json"] {
        let headers = [headers[0], ("content-type", kind), ("content-length", "0")];
        let request = "/api/v1/events";
        let answer = http(&host.address, "POST", request, &headers, "").await;
        let refused = (415, "unsupported_media_type".to_owned());
        assert_eq!(answer.refusal(), refused, "{kind}");
    }
}
