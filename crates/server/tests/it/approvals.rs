//! What this host adds to asks: waiting, options, keys, deadlines, taking back, and questions.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::Host;
use crate::shape::Names;
use crate::wire::Wire;

/// An ask that any operator answers.
async fn ask(wire: &mut Wire, mut params: Value) -> Value {
    params["system_level"] = json!(true);
    wire.ok("host.request_approval", params).await["id"].take()
}

fn answer(id: &Value, resolution: &str) -> Value {
    json!({ "approval_id": id, "resolution": resolution })
}

#[tokio::test]
async fn a_wait_goes_on_after_a_restart_of_the_host() {
    let mut host = Host::start();
    let mut asker = Wire::operator(&host).await;
    let id = ask(&mut asker, json!({ "action": "deploy" })).await;
    asker
        .request("host.wait_approval", json!({ "approval_id": id }))
        .await;
    host.restart();
    assert_eq!(asker.closed().await, Some(1001));
    let mut asker = Wire::operator(&host).await;
    let waiting = asker
        .request("host.wait_approval", json!({ "approval_id": id }))
        .await;
    let mut other = Wire::operator(&host).await;
    other
        .ok("host.resolve_approval", answer(&id, "approve"))
        .await;
    let row = asker.reply_to(waiting).await["result"].take();
    assert_eq!((&row["id"], &row["state"]), (&id, &json!("allowed")));
    // A wait that starts after the answer returns it at once, and so it does after another restart.
    host.restart();
    let mut asker = Wire::operator(&host).await;
    let row = asker
        .ok("host.wait_approval", json!({ "approval_id": id }))
        .await;
    assert_eq!((&row["id"], &row["state"]), (&id, &json!("allowed")));
}

#[tokio::test]
async fn an_agent_is_told_over_a_new_connection_and_deliveries_are_counted() {
    let mut host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    let row = agent
        .ok(
            "host.request_approval",
            json!({ "action": "rm", "timeout_ms": 600_000 }),
        )
        .await;
    assert_eq!(
        (&row["agent_id"], row.get("client_id")),
        (&json!("coder"), None)
    );
    let id = &row["id"];
    let params = json!({ "approval_id": id });
    let (told, _) = tokio::join!(
        agent.ok("host.wait_approval", params.clone()),
        operator.ok("host.resolve_approval", answer(id, "approve")),
    );
    assert_eq!(
        (&told["state"], &told["deliveries"]),
        (&json!("allowed"), &json!(1))
    );
    host.restart();
    let reply = agent.connect_unix().await;
    assert_eq!(reply["result"]["agent_id"], "coder", "{reply}");
    let told = agent.ok("host.wait_approval", params).await;
    assert_eq!(
        (&told["state"], &told["deliveries"]),
        (&json!("allowed"), &json!(2))
    );
}

#[tokio::test]
async fn any_number_may_wait_and_a_short_wait_gives_the_row_as_it_is() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, json!({ "action": "x" })).await;
    let short = json!({ "approval_id": id, "timeout_ms": 1 });
    assert_eq!(
        wire.ok("host.wait_approval", short).await["status"],
        "pending"
    );
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut other = Wire::operator(&host).await;
        let request = other
            .request("host.wait_approval", json!({ "approval_id": id }))
            .await;
        waiting.push((other, request));
    }
    wire.ok("host.resolve_approval", answer(&id, "deny")).await;
    for (mut other, request) in waiting {
        let row = other.reply_to(request).await["result"].take();
        assert_eq!(
            (&row["status"], &row["resolution"]),
            (&json!("resolved"), &json!("deny"))
        );
    }
    let error = wire
        .no("host.wait_approval", json!({ "approval_id": "nothing" }))
        .await;
    assert_eq!(error["message"], "unknown approval 'nothing'");
}

#[tokio::test]
async fn only_an_offered_option_is_an_answer_and_only_an_approving_one_allows() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, json!({ "action": "x" })).await;
    let error = wire.no("host.resolve_approval", answer(&id, "sure")).await;
    assert_eq!(
        error,
        json!({
            "code": -32003,
            "message": format!(
                "'sure' is not an option of approval '{}': choose one of approve, deny", id.as_str().unwrap()
            ),
            "data": { "reason": "not_an_option", "approval_id": id, "options": ["approve", "deny"] },
        })
    );
    let row = wire.ok("host.approval", json!({ "approval_id": id })).await;
    assert_eq!(row["status"], "pending");

    let choice = json!({ "action": "x", "options": ["once", "always", "deny", "later"], "approving": ["once", "always"] });
    for (resolution, state) in [
        ("once", "allowed"),
        ("always", "allowed"),
        ("deny", "denied"),
        ("later", "answered"),
    ] {
        let id = ask(&mut wire, choice.clone()).await;
        let row = wire
            .ok("host.resolve_approval", answer(&id, resolution))
            .await;
        assert_eq!(
            (&row["resolution"], &row["state"]),
            (&json!(resolution), &json!(state))
        );
    }
    // Without a word on approving, only `approve` allows, however the options sound.
    let id = ask(
        &mut wire,
        json!({ "action": "x", "options": ["yes", "allow"] }),
    )
    .await;
    let error = wire
        .no("host.resolve_approval", answer(&id, "approve"))
        .await;
    assert_eq!(error["data"]["options"], json!(["yes", "allow"]));
    let row = wire.ok("host.resolve_approval", answer(&id, "allow")).await;
    assert_eq!(row["state"], "answered");
    let params = json!({ "action": "x", "options": ["yes"], "approving": ["no"] });
    let error = wire.no("host.request_approval", params).await;
    assert_eq!(error["data"]["reason"], "not_an_option");
}

#[tokio::test]
async fn an_edited_input_reaches_the_asker_as_the_person_wrote_it() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(
        &mut wire,
        json!({ "action": "x", "tool": "Bash", "input": { "command": "rm -rf /" } }),
    )
    .await;
    let edited = json!({ "command": "rm -rf ./build" });
    let params = json!({ "approval_id": id, "resolution": "deny", "edited_input": edited });
    let error = wire.no("host.resolve_approval", params).await;
    assert_eq!(error["code"], -32003);
    let params = json!({ "approval_id": id, "resolution": "approve", "edited_input": edited });
    wire.ok("host.resolve_approval", params).await;
    let row = wire
        .ok("host.wait_approval", json!({ "approval_id": id }))
        .await;
    assert_eq!(
        (&row["input"], &row["edited_input"]),
        (&json!({ "command": "rm -rf /" }), &edited)
    );
}

#[tokio::test]
async fn the_same_key_is_the_same_ask_and_says_how_often_it_was_told() {
    let mut host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let params = json!({ "action": "pay", "idempotency_key": "k", "input": { "b": 1, "a": 2 }, "system_level": true });
    let first = wire.ok("host.request_approval", params.clone()).await;
    let again = wire.ok("host.request_approval", params.clone()).await;
    assert_eq!(
        (&again["id"], &again["deliveries"]),
        (&first["id"], &json!(0))
    );
    let mut other = params.clone();
    other["input"] = json!({ "a": 3 });
    let error = wire.no("host.request_approval", other.clone()).await;
    assert_eq!(
        error,
        json!({
            "code": -32003, "message": "idempotency key 'k' was used for another request",
            "data": { "reason": "idempotency_conflict" },
        })
    );
    wire.ok("host.resolve_approval", answer(&first["id"], "approve"))
        .await;
    let told = wire.ok("host.request_approval", params.clone()).await;
    assert_eq!(
        (&told["id"], &told["state"], &told["deliveries"]),
        (&first["id"], &json!("allowed"), &json!(1))
    );
    host.restart();
    let mut wire = Wire::operator(&host).await;
    let told = wire.ok("host.request_approval", params.clone()).await;
    assert_eq!(
        (&told["id"], &told["deliveries"]),
        (&first["id"], &json!(2))
    );
    assert_eq!(
        wire.no("host.request_approval", other).await["data"]["reason"],
        "idempotency_conflict"
    );
    // Keys are each principal's own.
    let mut stranger = Wire::unix(&host.socket()).await;
    let theirs = stranger.ok("host.request_approval", params).await;
    assert_ne!(theirs["id"], first["id"]);
}

#[tokio::test]
async fn only_its_asker_takes_an_ask_back() {
    let host = Host::start();
    let mut wire = Wire::subscriber(&host).await;
    let id = ask(&mut wire, json!({ "action": "x" })).await;
    let mut other = Wire::unix(&host.socket()).await;
    let error = other
        .no("host.cancel_approval", json!({ "approval_id": id }))
        .await;
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32003), &json!("not_your_approval"))
    );
    let params = json!({ "approval_id": id, "message": "never mind" });
    let mut names = Names::default();
    let row = names.plain(wire.ok("host.cancel_approval", params.clone()).await);
    assert_eq!(
        row,
        json!({
            "id": "approval-1", "action": "x", "details": null, "options": ["approve", "deny"],
            "approving": ["approve"], "created_at": "<time>", "sequence": "#", "deliveries": 0,
            "asked_by": { "name": "script", "role": "operator" },
            "status": "resolved", "state": "cancelled", "resolution": "cancelled", "resolved_at": "<time>",
            "resolved_by": { "name": "script", "role": "operator" }, "message": "never mind",
            "delivery": "withdrawn",
        })
    );
    assert_eq!(
        wire.event_of("approval.resolved").await["message"],
        "Approval cancelled: x"
    );
    wire.ok("host.cancel_approval", params).await;
    let error = other
        .no("host.resolve_approval", answer(&id, "approve"))
        .await;
    assert_eq!(error["data"]["resolution"], "cancelled");
}

#[tokio::test]
async fn a_second_ask_for_the_same_tool_call_cancels_the_first() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let params = json!({ "action": "x", "agent_id": "a", "turn": "1", "tool_call_id": "c" });
    let first = ask(&mut wire, params.clone()).await;
    let second = ask(&mut wire, params).await;
    let row = wire
        .ok("host.approval", json!({ "approval_id": first }))
        .await;
    assert_eq!(
        (&row["status"], &row["resolution"]),
        (&json!("resolved"), &json!("cancelled"))
    );
    let row = wire
        .ok("host.approval", json!({ "approval_id": second }))
        .await;
    assert_eq!(row["status"], "pending");
}

#[tokio::test]
async fn an_ask_whose_time_is_over_expires_and_is_never_an_allow() {
    let host = Host::start_with(|settings, _| settings.expiry_hold_ms = 0);
    let mut wire = Wire::subscriber(&host).await;
    let id = ask(&mut wire, json!({ "action": "x", "timeout_ms": 20 })).await;
    let row = wire
        .ok("host.wait_approval", json!({ "approval_id": id }))
        .await;
    assert_eq!(
        (
            &row["status"],
            &row["state"],
            &row["resolution"],
            &row["message"]
        ),
        (
            &json!("resolved"),
            &json!("expired"),
            &json!("expired"),
            &json!("nobody answered in time, so this was not allowed")
        )
    );
    assert_eq!(
        wire.event_of("approval.resolved").await["message"],
        "Approval expired: x"
    );
    let error = wire
        .no("host.resolve_approval", answer(&id, "approve"))
        .await;
    assert_eq!(error["data"]["resolution"], "expired");
}

#[tokio::test]
async fn nothing_expires_right_after_the_doors_open() {
    let host = Host::start_with(|settings, _| settings.expiry_hold_ms = 600_000);
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, json!({ "action": "x", "timeout_ms": 1 })).await;
    let params = json!({ "approval_id": id, "timeout_ms": 50 });
    assert_eq!(
        wire.ok("host.wait_approval", params).await["status"],
        "pending"
    );
    wire.ok("host.resolve_approval", answer(&id, "approve"))
        .await;
}

#[tokio::test]
async fn a_question_waits_for_words_and_gets_them_once() {
    let host = Host::start();
    let mut names = Names::default();
    let mut operator = Wire::subscriber(&host).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    agent
        .ok("host.register_agent", json!({ "name": "Coder" }))
        .await;
    let asked = agent
        .ok("host.ask_question", json!({ "question": "tabs?" }))
        .await;
    let id = &asked["id"];
    let row = json!({
        "id": "question-1", "agent_id": "coder", "agent_name": "Coder", "question": "tabs?", "state": "pending",
        "asked_by": { "name": "coder", "role": "agent", "agent_id": "coder" },
        "created_at": "<time>", "deadline": "<time>", "for_people": true, "sequence": "#",
    });
    assert_eq!(names.plain(asked.clone()), row);
    assert_eq!(
        names.plain(operator.ok("host.questions", json!({})).await),
        json!([row])
    );
    let agents = operator.ok("host.agents", json!({})).await;
    assert_eq!(
        (&agents[0]["state"], &agents[0]["status"]),
        (&json!("waiting"), &json!("running"))
    );
    let refused = agent
        .no(
            "host.answer_question",
            json!({ "question_id": id, "answer": "yes" }),
        )
        .await;
    assert_eq!(refused["data"]["reason"], "agents_cannot_answer");
    let params = json!({ "question_id": id, "answer": "spaces" });
    let (told, answered) = tokio::join!(
        agent.ok("host.wait_question", json!({ "question_id": id })),
        operator.ok("host.answer_question", params.clone()),
    );
    assert_eq!(told, answered);
    let mut expected = row;
    expected["state"] = json!("answered");
    expected["answer"] = json!("spaces");
    expected["ended_at"] = json!("<time>");
    expected["answered_by"] = json!({ "name": "script", "role": "operator" });
    expected["door"] = json!("websocket");
    assert_eq!(names.plain(answered), expected);
    operator.ok("host.answer_question", params).await;
    let error = operator
        .no(
            "host.answer_question",
            json!({ "question_id": id, "answer": "tabs" }),
        )
        .await;
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32003), &json!("already_resolved"))
    );
    assert_eq!(
        operator.kinds(5).await,
        [
            "agent.registered",
            "question.asked",
            "agent.status_changed",
            "question.ended",
            "agent.status_changed"
        ]
    );
}

#[tokio::test]
async fn lists_can_be_narrowed_and_paged() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut ids = Vec::new();
    for number in 0..6 {
        let agent = if number % 2 == 0 { "even" } else { "odd" };
        ids.push(ask(&mut wire, json!({ "action": "x", "agent_id": agent })).await);
    }
    wire.ok("host.resolve_approval", answer(&ids[0], "deny"))
        .await;
    let cases = [
        (json!({ "status": "resolved" }), vec![0]),
        (
            json!({ "status": "pending", "agent_id": "even" }),
            vec![4, 2],
        ),
        (json!({ "limit": 2 }), vec![5, 4]),
        (json!({ "limit": 2, "after": ids[4] }), vec![3, 2]),
    ];
    for (params, places) in cases {
        let rows = wire.ok("host.approvals", params.clone()).await;
        let listed: Vec<_> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["id"].clone())
            .collect();
        let expected: Vec<_> = places
            .into_iter()
            .map(|place| ids[place].clone())
            .collect::<Vec<Value>>();
        assert_eq!(listed, expected, "{params}");
    }
    let error = wire.no("host.approvals", json!({ "status": "lost" })).await;
    assert_eq!(error["code"], -32603);
}

#[tokio::test]
async fn several_asks_are_answered_in_one_call_each_by_itself() {
    let host = Host::start();
    let mut wire = Wire::subscriber(&host).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(ask(&mut wire, json!({ "action": "x" })).await);
    }
    wire.ok("host.resolve_approval", answer(&ids[1], "deny"))
        .await;
    let answers = json!([
        { "approval_id": ids[0], "resolution": "approve", "considered_ms": 7 },
        { "approval_id": ids[1], "resolution": "approve" },
        { "approval_id": "nothing", "resolution": "approve" },
        { "approval_id": ids[2], "resolution": "deny", "message": "not now" },
    ]);
    let reply = wire
        .ok("host.resolve_approvals", json!({ "answers": answers }))
        .await;
    let results = reply["results"].as_array().unwrap();
    let summary: Vec<Value> = results
        .iter()
        .map(|result| {
            let row = &result["approval"];
            let reason = &result["error"]["data"]["reason"];
            json!([
                result["approval_id"],
                row["state"],
                row["message"],
                row["considered_ms"],
                reason
            ])
        })
        .collect();
    assert_eq!(
        summary,
        [
            json!([ids[0], "allowed", null, 7, null]),
            json!([ids[1], null, null, null, "already_resolved"]),
            json!(["nothing", null, null, null, "unknown_approval"]),
            json!([ids[2], "denied", "not now", null, null]),
        ]
    );
    assert_eq!(results[2].get("approval"), None);
    assert_eq!(results[0].get("error"), None);
    // Each is an event of its own.
    let mut ended = Vec::new();
    for _ in 0..3 {
        ended.push(wire.event_of("approval.resolved").await["payload"]["id"].take());
    }
    assert_eq!(ended[0], ids[1]);
    assert!(
        ended.contains(&ids[0]) && ended.contains(&ids[2]),
        "{ended:?}"
    );
    for (answers, reason) in [
        (json!([]), "invalid_params"),
        (json!(vec![answer(&ids[0], "approve"); 201]), "too_many"),
    ] {
        let error = wire
            .no("host.resolve_approvals", json!({ "answers": answers }))
            .await;
        assert_eq!(error["data"]["reason"], reason);
    }
    let edited = json!({ "answers": [{
        "approval_id": ids[0], "resolution": "approve", "edited_input": {},
    }] });
    let error = wire.no("host.resolve_approvals", edited).await;
    assert_eq!(error["data"]["reason"], "invalid_params");
}

#[tokio::test]
async fn an_agent_answers_none_of_several() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, json!({ "action": "x" })).await;
    let mut agent = Agent::connected(&host, &mut wire, "coder").await;
    let answers = json!({ "answers": [answer(&id, "approve")] });
    let reply = agent.ok("host.resolve_approvals", answers).await;
    assert_eq!(
        reply["results"][0]["error"]["data"]["reason"],
        "agents_cannot_answer"
    );
    let row = wire.ok("host.approval", json!({ "approval_id": id })).await;
    assert_eq!(row["state"], "pending");
}
