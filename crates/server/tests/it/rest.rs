//! REST: each route once, waiting, events as a stream, and the document that describes it all.

use serde_json::{Value, json};

use crate::host::Host;
use crate::http::{EventStream, Rest, http, http_over};
use crate::shape::Names;
use crate::wire::Wire;

#[tokio::test]
async fn an_agent_lives_its_life_over_rest() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let row = json!({
        "id": "a", "name": "Ann", "kind": "", "capabilities": [], "display": {}, "metadata": null,
        "status": "idle", "state": "idle", "updated_at": "<time>", "started_at": "<time>", "open_approvals": 0, "open_questions": 0,
    });
    let plain = |value: Value| Names::default().plain(value);
    let made = rest
        .send(
            "POST",
            "/api/v1/agents",
            json!({ "id": "a", "name": "Ann" }),
        )
        .await;
    assert_eq!((made.status, plain(made.json())), (200, row.clone()));
    assert_eq!(plain(rest.get("/api/v1/agents").await.json()), json!([row]));
    assert_eq!(plain(rest.get("/api/v1/agents/a").await.json()), row);
    let body = json!({ "status": "running", "current_task": "t" });
    let set = rest.send("PUT", "/api/v1/agents/a/status", body).await;
    assert_eq!((set.status, &set.json()["state"]), (200, &json!("running")));
    let gone = rest.send("DELETE", "/api/v1/agents/a", Value::Null).await;
    assert_eq!((gone.status, gone.body.as_str()), (204, ""));
    for (method, path) in [("GET", "/api/v1/agents/a"), ("DELETE", "/api/v1/agents/a")] {
        let answer = rest.send(method, path, Value::Null).await;
        assert_eq!(answer.refusal(), (404, "unknown_agent".to_owned()));
    }
    Wire::operator(&host)
        .await
        .ok("host.register_agent", json!({ "id": "b", "name": "B" }))
        .await;
}

#[tokio::test]
async fn an_ask_is_made_waited_for_and_answered_over_rest() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let asked = rest
        .send("POST", "/api/v1/approvals", json!({ "action": "rm" }))
        .await;
    let row = json!({
        "id": "approval-1", "action": "rm", "details": null, "options": ["approve", "deny"],
        "approving": ["approve"], "status": "pending", "state": "pending", "created_at": "<time>",
        "sequence": "#", "deliveries": 0, "asked_by": { "name": "script", "role": "operator" },
    });
    assert_eq!(
        (asked.status, Names::default().plain(asked.json())),
        (200, row)
    );
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    let one = format!("/api/v1/approvals/{id}");
    let mut shown = asked.json();
    shown["view"] = json!({
        "editable": false, "edits": [], "summary": "rm", "title": "rm", "warnings": [],
    });
    assert_eq!(rest.get("/api/v1/approvals").await.json(), json!([shown]));
    assert_eq!(rest.get(&one).await.json(), shown);
    assert_eq!(rest.get(&one[..one.len() - 4]).await.json(), shown);
    assert_eq!(
        rest.get(&format!("{one}?wait=1ms")).await.json()["status"],
        "pending"
    );
    let answer = rest
        .send(
            "POST",
            &format!("{one}/resolution"),
            json!({ "resolution": "sure" }),
        )
        .await;
    assert_eq!(answer.refusal(), (422, "not_an_option".to_owned()));
    let answer = rest
        .send("POST", &format!("{one}/dismissal"), Value::Null)
        .await;
    assert_eq!(answer.refusal(), (409, "approval_pending".to_owned()));
    let (wait, resolution) = (format!("{one}?wait=20s"), format!("{one}/resolution"));
    let (told, answered) = tokio::join!(
        rest.get(&wait),
        rest.send("POST", &resolution, json!({ "resolution": "approve" }))
    );
    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(
        (told.status, &told.json()["state"]),
        (200, &json!("allowed"))
    );
    let answer = rest
        .send(
            "POST",
            &format!("{one}/resolution"),
            json!({ "resolution": "deny" }),
        )
        .await;
    assert_eq!(answer.refusal(), (409, "already_resolved".to_owned()));
    assert_eq!(answer.json()["error"]["resolution"], "approve");
    let answer = rest
        .send("POST", &format!("{one}/dismissal"), Value::Null)
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(rest.get("/api/v1/approvals").await.json(), json!([]));
    for (path, status, reason) in [
        ("/api/v1/approvals/nothing", 404, "unknown_approval"),
        ("/api/v1/approvals/nothing?wait=soon", 400, "invalid_params"),
        ("/api/v1/approvals?limit=many", 400, "invalid_params"),
        ("/api/v1/approvals?status=lost", 400, "invalid_params"),
    ] {
        assert_eq!(
            rest.get(path).await.refusal(),
            (status, reason.to_owned()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn an_ask_with_wait_carries_the_answer_in_its_reply() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let mut operator = Wire::subscriber(&host).await;
    let (told, ()) = tokio::join!(
        rest.send(
            "POST",
            "/api/v1/approvals?wait=20",
            json!({ "action": "rm" })
        ),
        async {
            let id = operator.event_of("approval.requested").await["payload"]["id"].take();
            let params = json!({ "approval_id": id, "resolution": "deny", "message": "no" });
            operator.ok("host.resolve_approval", params).await;
        }
    );
    let row = told.json();
    assert_eq!(
        (&row["state"], &row["message"]),
        (&json!("denied"), &json!("no"))
    );
    let asked = rest
        .send("POST", "/api/v1/approvals", json!({ "action": "rm" }))
        .await
        .json();
    let path = format!("/api/v1/approvals/{}/cancel", asked["id"].as_str().unwrap());
    let cancelled = rest.send("POST", &path, Value::Null).await;
    assert_eq!(
        (cancelled.status, &cancelled.json()["resolution"]),
        (200, &json!("cancelled"))
    );
}

#[tokio::test]
async fn a_question_is_asked_and_answered_over_rest() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let asked = rest
        .send("POST", "/api/v1/questions", json!({ "question": "which?" }))
        .await
        .json();
    assert_eq!(rest.get("/api/v1/questions").await.json(), json!([asked]));
    let one = format!("/api/v1/questions/{}", asked["id"].as_str().unwrap());
    assert_eq!(rest.get(&one).await.json(), asked);
    let wait = format!("{one}?wait=20s");
    let path = format!("{one}/answer");
    let (told, answered) = tokio::join!(
        rest.get(&wait),
        rest.send("POST", &path, json!({ "answer": "that" }))
    );
    assert_eq!(
        (told.json(), &told.json()["answer"]),
        (answered.json(), &json!("that"))
    );
    let answer = rest.send("POST", &path, json!({ "answer": "this" })).await;
    assert_eq!(answer.refusal(), (409, "already_resolved".to_owned()));
    assert_eq!(
        rest.get("/api/v1/questions?status=pending").await.json(),
        json!([])
    );
}

#[tokio::test]
async fn tokens_status_and_stop_have_their_routes() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let made = rest
        .send(
            "POST",
            "/api/v1/tokens",
            json!({ "role": "observer", "name": "wall" }),
        )
        .await
        .json();
    let observer = Rest {
        address: &host.address,
        token: made["token"].as_str().unwrap(),
    };
    let answer = observer.send("POST", "/api/v1/stop", Value::Null).await;
    assert_eq!(answer.refusal(), (403, "observer_cannot_change".to_owned()));
    let listed = rest.get("/api/v1/tokens").await.json();
    let named: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert_eq!(named, ["script", "wall"]);
    let path = format!("/api/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(rest.send("DELETE", &path, Value::Null).await.status, 204);
    assert_eq!(
        observer.get("/api/v1/status").await.refusal(),
        (401, "auth_failed".to_owned())
    );
    rest.send("POST", "/api/v1/agents", json!({ "id": "a", "name": "A" }))
        .await;
    rest.send("POST", "/api/v1/approvals", json!({ "action": "x" }))
        .await;
    let mut status = Names::default().plain(rest.get("/api/v1/status").await.json());
    // What holds agents depends on the machine.
    let held = status.as_object_mut().unwrap().remove("containment");
    assert!(held.unwrap()["means"].is_string());
    // What the host uses depends on the machine as well.
    let figures = status.as_object_mut().unwrap().remove("figures").unwrap();
    for name in [
        "commits",
        "cpu_ms",
        "database_bytes",
        "events",
        "memory_bytes",
    ] {
        assert!(figures[name].is_u64(), "{figures}");
    }
    assert!(
        figures["database_bytes"] != 0 && figures["memory_bytes"] != 0,
        "{figures}"
    );
    // So does whether the web page was built.
    let web = status.as_object_mut().unwrap().remove("web");
    assert!(web.unwrap()["built"].is_boolean());
    assert_eq!(
        status,
        json!({
            "agents": 1, "agents_alone_ms": 1_800_000, "bypassed": [], "connections": 1,
            "database": host.home().join("countersign.db"), "decide_confirm": "always",
            "event_sequence": "#",
            "listen": host.address, "pending_approvals": 1, "pending_questions": 0, "pid": "#",
            "record_lost": false, "rule_problems": [], "socket": host.socket(), "started_at": "<time>",
            "unnamed_callers": false,
            "version": env!("CARGO_PKG_VERSION"),
            "you": { "name": "script", "role": "operator" },
        })
    );
    let stopped = rest.send("POST", "/api/v1/stop", Value::Null).await.json();
    assert_eq!(stopped, json!({ "denied": 1, "interrupted": 1 }));
}

#[tokio::test]
async fn events_are_listed_and_sent_over_rest() {
    let host = Host::start();
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    for number in 0..5 {
        let body = json!({ "kind": "step", "message": number.to_string() });
        assert_eq!(rest.send("POST", "/api/v1/events", body).await.status, 200);
    }
    rest.send("POST", "/api/v1/events", json!({ "kind": "other" }))
        .await;
    let events = rest
        .get("/api/v1/events?kinds=step,nothing&limit=2")
        .await
        .json();
    assert_eq!(
        (&events[0]["message"], &events[1]["message"]),
        (&json!("4"), &json!("3"))
    );
    let path = format!("/api/v1/events?after={}&limit=1", events[1]["sequence"]);
    assert_eq!(rest.get(&path).await.json(), json!([events[0]]));
}

#[tokio::test]
async fn a_stream_of_events_goes_on_exactly_where_it_ended() {
    let mut host = Host::start();
    let token = host.token();
    let address = host.address.clone();
    let rest = Rest {
        address: &address,
        token: &token,
    };
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("accept", "text/event-stream"),
    ];
    let mut stream = EventStream::open(&address, "/api/v1/events", &headers).await;
    for number in 0..10 {
        rest.send(
            "POST",
            "/api/v1/events",
            json!({ "message": number.to_string() }),
        )
        .await;
    }
    let mut last = 0;
    for number in 0..4 {
        let (id, event) = stream.next().await.unwrap();
        assert_eq!(
            (&event["sequence"], &event["message"]),
            (&json!(id), &json!(number.to_string()))
        );
        last = id;
    }
    drop(stream);
    let id = last.to_string();
    let resumed = [headers[0], headers[1], ("last-event-id", id.as_str())];
    let mut stream = EventStream::open(&address, "/api/v1/events", &resumed).await;
    rest.send("POST", "/api/v1/events", json!({ "message": "10" }))
        .await;
    for number in 4..11 {
        assert_eq!(
            stream.next().await.unwrap().1["message"],
            number.to_string()
        );
    }
    // And so it does after a restart, with the token that the new host wrote.
    host.restart();
    let bearer = format!("Bearer {}", host.token());
    let resumed = [
        ("authorization", bearer.as_str()),
        headers[1],
        ("last-event-id", id.as_str()),
    ];
    let mut stream =
        EventStream::open(&address, "/api/v1/events?kinds=host.notification", &resumed).await;
    for number in 4..11 {
        assert_eq!(
            stream.next().await.unwrap().1["message"],
            number.to_string()
        );
    }
    let nonsense = [
        ("authorization", bearer.as_str()),
        headers[1],
        ("last-event-id", "soon"),
    ];
    let answer = http(&address, "GET", "/api/v1/events", &nonsense, "").await;
    assert_eq!(answer.refusal(), (400, "invalid_params".to_owned()));
}

#[tokio::test]
async fn the_document_names_every_route_and_each_of_them_is_there() {
    let host = Host::start();
    let answer = http(&host.address, "GET", "/api/v1/openapi.json", &[], "").await;
    let document = answer.json();
    let paths = document["paths"].as_object().unwrap();
    let mut named: Vec<String> = Vec::new();
    for (path, operations) in paths {
        for method in operations.as_object().unwrap().keys() {
            named.push(format!("{} {path}", method.to_uppercase()));
        }
    }
    named.sort();
    assert_eq!(
        named,
        [
            "DELETE /api/v1/agents/{id}",
            "DELETE /api/v1/agents/{id}/messages/{number}",
            "DELETE /api/v1/agents/{id}/worktree",
            "DELETE /api/v1/rules/{id}",
            "DELETE /api/v1/terminals/{id}",
            "DELETE /api/v1/tokens/{id}",
            "GET /api/v1/agents",
            "GET /api/v1/agents/{id}",
            "GET /api/v1/agents/{id}/diff",
            "GET /api/v1/agents/{id}/file",
            "GET /api/v1/agents/{id}/files",
            "GET /api/v1/agents/{id}/messages",
            "GET /api/v1/agents/{id}/terminals",
            "GET /api/v1/agents/{id}/terminals/{terminal}/output",
            "GET /api/v1/agents/{id}/transcript",
            "GET /api/v1/agents/{id}/wait",
            "GET /api/v1/approvals",
            "GET /api/v1/approvals/{id}",
            "GET /api/v1/approvals/{id}/suggestions",
            "GET /api/v1/catalog",
            "GET /api/v1/events",
            "GET /api/v1/questions",
            "GET /api/v1/questions/{id}",
            "GET /api/v1/rules",
            "GET /api/v1/rules/suggestions",
            "GET /api/v1/rules/untrusted",
            "GET /api/v1/search",
            "GET /api/v1/status",
            "GET /api/v1/terminals",
            "GET /api/v1/terminals/{id}/output",
            "GET /api/v1/tokens",
            "POST /api/v1/agents",
            "POST /api/v1/agents/spawn",
            "POST /api/v1/agents/{id}/bypass",
            "POST /api/v1/agents/{id}/fork",
            "POST /api/v1/agents/{id}/interrupt",
            "POST /api/v1/agents/{id}/kill",
            "POST /api/v1/agents/{id}/prompt",
            "POST /api/v1/agents/{id}/resume",
            "POST /api/v1/agents/{id}/worktree/merge",
            "POST /api/v1/approvals",
            "POST /api/v1/approvals/resolutions",
            "POST /api/v1/approvals/{id}/cancel",
            "POST /api/v1/approvals/{id}/dismissal",
            "POST /api/v1/approvals/{id}/resolution",
            "POST /api/v1/events",
            "POST /api/v1/hooks/{tool}",
            "POST /api/v1/questions",
            "POST /api/v1/questions/{id}/answer",
            "POST /api/v1/rules",
            "POST /api/v1/rules/backtest",
            "POST /api/v1/rules/check",
            "POST /api/v1/rules/trust",
            "POST /api/v1/stop",
            "POST /api/v1/terminals",
            "POST /api/v1/terminals/{id}/input",
            "POST /api/v1/tokens",
            "PUT /api/v1/agents/{id}/archived",
            "PUT /api/v1/agents/{id}/ceiling",
            "PUT /api/v1/agents/{id}/configuration",
            "PUT /api/v1/agents/{id}/file",
            "PUT /api/v1/agents/{id}/name",
            "PUT /api/v1/agents/{id}/status",
            "PUT /api/v1/terminals/{id}/size",
        ]
    );
    for route in named {
        let (method, path) = route.split_once(' ').unwrap();
        let answer = http(&host.address, method, &path.replace("{id}", "x"), &[], "{}").await;
        assert_eq!(
            answer.refusal(),
            (401, "auth_required".to_owned()),
            "{route}"
        );
    }
    let references = answer
        .body
        .match_indices("#/components/schemas/")
        .map(|(at, prefix)| {
            let rest = &answer.body[at + prefix.len()..];
            rest.split('"').next().unwrap()
        });
    for name in references {
        assert!(
            document["components"]["schemas"].get(name).is_some(),
            "{name} is not described"
        );
    }
}

#[tokio::test]
async fn health_and_metrics_need_no_token_and_tell_no_content() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    wire.ok(
        "host.request_approval",
        json!({ "action": "secret-action" }),
    )
    .await;
    let health = http(&host.address, "GET", "/healthz", &[], "").await;
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let metrics = http(&host.address, "GET", "/metrics", &[], "").await;
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4")
    );
    let values: Vec<_> = metrics
        .body
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert!(
        values.contains(&"countersign_approvals_pending 1"),
        "{values:?}"
    );
    // One that just ended may still be counted; the two that are open always are.
    let open = values
        .iter()
        .find_map(|line| line.strip_prefix("countersign_connections "));
    let open: usize = open.unwrap().parse().unwrap();
    assert!(open >= 2, "{values:?}");
    assert!(!metrics.body.contains("secret-action"));
    let missing = http(&host.address, "GET", "/nothing", &[], "").await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn the_unix_socket_serves_rest_to_its_owner() {
    let host = Host::start();
    let stream = tokio::net::UnixStream::connect(host.socket())
        .await
        .unwrap();
    let answer = http_over(stream, "localhost", "GET", "/api/v1/status", &[], "").await;
    assert_eq!(
        (answer.status, &answer.json()["you"]["role"]),
        (200, &json!("operator"))
    );
}
