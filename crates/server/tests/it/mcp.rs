//! The MCP door: who is let in, what each is shown, and what the tools do.

use countersign_testkit::doors::mcp::{ACCEPT, Bearer, JSON, call, messages, result};
use serde_json::{Value, json};

use crate::host::Host;
use crate::http::http;
use crate::wire::Wire;

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn nobody_enters_without_a_bearer_in_the_header() {
    let host = Host::start();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
    let (address, token) = (&host.address, host.token());
    let in_query = format!("/mcp?token={token}");
    let bearer = format!("Bearer {token}");
    let cookie = format!("countersign={token}");
    let origin = format!("http://{address}");
    for (path, headers, reason) in [
        ("/mcp", vec![], "auth_required"),
        (
            "/mcp",
            vec![("authorization", "Bearer wrong")],
            "auth_failed",
        ),
        ("/mcp", vec![("authorization", "Basic dTpw")], "auth_failed"),
        (
            "/mcp",
            vec![("cookie", cookie.as_str()), ("origin", &origin)],
            "auth_required",
        ),
        (&in_query, vec![], "auth_failed"),
        (
            &in_query,
            vec![("authorization", bearer.as_str())],
            "auth_failed",
        ),
    ] {
        let headers = [vec![ACCEPT, JSON], headers].concat();
        let answer = http(address, "POST", path, &headers, &list).await;
        assert_eq!(answer.refusal(), (401, reason.to_owned()), "{headers:?}");
        assert!(
            answer.header("www-authenticate").is_some() || path != "/mcp",
            "{answer:?}"
        );
    }
    for other in [("origin", "http://evil.example"), ("host", "evil.example")] {
        let headers = [ACCEPT, JSON, ("authorization", bearer.as_str()), other];
        let answer = http(address, "POST", "/mcp", &headers, &list).await;
        assert_eq!(
            answer.refusal(),
            (403, "wrong_origin".to_owned()),
            "{other:?}"
        );
    }
}

#[tokio::test]
async fn an_agent_sees_the_tools_for_agents_and_people_see_none() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Bearer::of(&host, &mut operator, "worker").await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let listed = agent.post(list.clone()).await;
    assert_eq!(
        names(&listed),
        [
            "notify_orchestrator",
            "ask_orchestrator",
            "request_permission"
        ]
    );
    let (is_error, words, data) = agent.call("spawn_agent", json!({})).await;
    assert!(is_error && words.contains("for orchestrators"), "{words}");
    assert_eq!(data["reason"], "agent_not_allowed");
    let bearer = format!("Bearer {}", host.token());
    let headers = [ACCEPT, JSON, ("authorization", &bearer)];
    let post = |message: Value| {
        let (address, headers) = (&host.address, &headers);
        async move { http(address, "POST", "/mcp", headers, &message.to_string()).await }
    };
    let listed = post(list).await;
    assert_eq!(names(&messages(&listed.body)[0]), Vec::<&str>::new());
    let notify = call(2, "notify_orchestrator", json!({ "message": "hello" }));
    let refused = post(notify).await;
    let (is_error, words, _) = result(&mut messages(&refused.body)[0]);
    assert!(is_error && words.contains("for agents"), "{words}");
}

#[tokio::test]
async fn the_server_says_who_it_is() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Bearer::of(&host, &mut operator, "worker").await;
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                         "clientInfo": { "name": "test", "version": "1" } });
    let begun = agent
        .post(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }))
        .await;
    assert_eq!(begun["result"]["serverInfo"]["name"], "countersign");
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn a_question_waits_for_words_and_says_whose_they_are() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Bearer::of(&host, &mut operator, "worker").await;
    let asking = agent.call("ask_orchestrator", json!({ "question": "which port?" }));
    let answering = async {
        let id = loop {
            let open = operator
                .ok("host.questions", json!({ "status": "pending" }))
                .await;
            if let Some(id) = open[0]["id"].as_str() {
                break id.to_owned();
            }
        };
        let params = json!({ "question_id": id, "answer": "7000\u{202e}" });
        operator.ok("host.answer_question", params).await
    };
    let ((is_error, words, data), answered) = tokio::join!(asking, answering);
    assert!(!is_error);
    let name = answered["answered_by"]["name"].as_str().unwrap();
    assert_eq!(words, format!("person `{name}` answers: 7000\\u{{202e}}"));
    let who = json!({ "kind": "person", "name": name });
    assert_eq!(
        data,
        json!({ "answered": true, "answer": "7000\\u{202e}", "answered_by": who, "question_id": answered["id"] })
    );
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_in_words() {
    let host = Host::start_with(|settings, _| settings.expiry_hold_ms = 0);
    let mut operator = Wire::operator(&host).await;
    let mut agent = Bearer::of(&host, &mut operator, "worker").await;
    let question = json!({ "question": "is anybody there?", "timeout_s": 1 });
    let (is_error, words, data) = agent.call("ask_orchestrator", question).await;
    assert!(
        !is_error && words.starts_with("nobody answered within 1 s"),
        "{words}"
    );
    assert_eq!(
        (&data["answered"], &data["state"]),
        (&json!(false), &json!("expired"))
    );
}

#[tokio::test]
async fn permission_is_settled_by_rule_or_person_in_claudes_form() {
    let host = Host::start_with_rules("allow = [\"Bash(git status:*)\"]\n");
    let mut operator = Wire::operator(&host).await;
    let mut agent = Bearer::of(&host, &mut operator, "worker").await;
    let ask = |command: &str, id: &str| json!({ "tool_name": "Bash", "input": { "command": command }, "tool_use_id": id });
    let (is_error, allowed, _) = agent
        .call("request_permission", ask("git status", "t1"))
        .await;
    let allowed: Value = serde_json::from_str(&allowed).unwrap();
    let expected = json!({ "behavior": "allow", "updatedInput": { "command": "git status" } });
    assert_eq!((is_error, allowed), (false, expected));

    for (id, answer, expected) in [
        (
            "t2",
            json!({ "resolution": "deny", "message": "not today" }),
            json!({ "behavior": "deny", "message": "denied by NAME: not today" }),
        ),
        (
            "t3",
            json!({ "resolution": "approve", "edited_input": { "command": "true" } }),
            json!({ "behavior": "allow", "updatedInput": { "command": "true" } }),
        ),
    ] {
        let asking = agent.call("request_permission", ask("rm -rf /", id));
        let answering = resolve_pending(&mut operator, answer);
        let ((_, told, _), row) = tokio::join!(asking, answering);
        let name = row["resolved_by"]["name"].as_str().unwrap();
        let told: Value = serde_json::from_str(&told.replace(name, "NAME")).unwrap();
        assert_eq!(told, expected);
    }
}

async fn resolve_pending(operator: &mut Wire, mut answer: Value) -> Value {
    let id = loop {
        let open = operator
            .ok("host.approvals", json!({ "status": "pending" }))
            .await;
        if let Some(id) = open[0]["id"].as_str() {
            break id.to_owned();
        }
    };
    answer["approval_id"] = json!(id);
    operator.ok("host.resolve_approval", answer).await
}
