//! The official MCP inspector, as the client that others wrote: over HTTP with a bearer, and on
//! standard input and output.

use std::io::Write as _;
use std::path::PathBuf;

use countersign_testkit::real::inspector;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::Host;
use crate::managed::PROGRAM;
use crate::wire::Wire;

/// The inspector, or a line that says why it is left out.
fn found() -> Option<[String; 2]> {
    let found = inspector();
    if found.is_none() {
        let required = std::env::var_os("COUNTERSIGN_AGENTS_REQUIRED").is_some();
        assert!(!required, "the inspector is not there: `make agents`");
        let mut stderr = std::io::stderr().lock();
        writeln!(
            stderr,
            "left out: the MCP inspector is not in the cache (`make agents`)"
        )
        .unwrap();
    }
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    found.map(|[node, program]| [text(node), text(program)])
}

/// What it printed, as JSON.
fn printed(ended: &Value) -> Value {
    assert_eq!(ended["code"], 0, "{ended}");
    serde_json::from_str(ended["out"].as_str().unwrap()).unwrap_or_else(|_| panic!("{ended}"))
}

fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("{listed}"));
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

const FOR_AGENTS: [&str; 3] = [
    "notify_orchestrator",
    "ask_orchestrator",
    "request_permission",
];

/// Lists the tools and calls two of them, one of which is not for this caller.
async fn lists_and_calls(agent: &mut Agent, operator: &mut Wire, how: &[&str]) {
    let listed = agent
        .run_program(&[how, &["--method", "tools/list"]].concat())
        .await;
    assert_eq!(names(&printed(&listed)), FOR_AGENTS);
    let notify = [
        "--method",
        "tools/call",
        "--tool-name",
        "notify_orchestrator",
        "--tool-arg",
        "message=by inspector",
    ];
    let told = printed(&agent.run_program(&[how, &notify].concat()).await);
    assert_eq!(
        (&told["isError"], &told["structuredContent"]),
        (&json!(false), &json!({ "told": true }))
    );
    let events = operator.ok("host.events", json!({ "limit": 20 })).await;
    let noted = |event: &&Value| {
        event["kind"] == "agent.parent_notified" && event["payload"]["text"] == "by inspector"
    };
    assert_eq!(
        events.as_array().unwrap().iter().filter(noted).count(),
        1,
        "{events}"
    );
    let spawn = [
        "--method",
        "tools/call",
        "--tool-name",
        "spawn_agent",
        "--tool-arg",
        "prompt=x",
    ];
    let refused = agent.run_program(&[how, &spawn].concat()).await;
    let words = format!("{}{}", refused["out"], refused["err"]);
    assert!(words.contains("spawn_agent"), "{refused}");
    assert!(
        refused["code"] != 0 || printed(&refused)["isError"] == true,
        "{refused}"
    );
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_http() {
    let Some([node, program]) = found() else {
        return;
    };
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let params = json!({ "role": "agent", "agent_id": "worker" });
    let token = operator.ok("host.create_token", params).await;
    let mut agent = Agent::start(&host);
    let url = format!("http://{}/mcp", host.address);
    let bearer = format!("Authorization: Bearer {}", token["token"].as_str().unwrap());
    let home = format!("HOME={}", host.home().display());
    let begin = ["env", &home, &node, &program, "--cli"];
    let how = [&begin[..], &[&url, "--transport", "http"]].concat();
    let shown = [&how[..], &["--header", &bearer]].concat();
    lists_and_calls(&mut agent, &mut operator, &shown).await;
    let list = ["--method", "tools/list"];
    let in_query = format!("{url}?token={}", token["token"].as_str().unwrap());
    for refused in [
        [&how[..], &list].concat(),
        [
            &how[..],
            &["--header", "Authorization: Bearer wrong"],
            &list,
        ]
        .concat(),
        [&begin[..], &[&in_query, "--transport", "http"], &list].concat(),
    ] {
        let ended = agent.run_program(&refused).await;
        assert_ne!(ended["code"], 0, "{ended}");
    }
}

#[tokio::test]
async fn the_inspector_lists_and_calls_over_stdio() {
    let Some([node, program]) = found() else {
        return;
    };
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut operator, "worker").await;
    let socket = host.socket();
    let config = host.home().join("inspector.json");
    let server = json!({ "command": PROGRAM, "args": ["mcp", "--socket", socket] });
    std::fs::write(
        &config,
        json!({ "mcpServers": { "countersign": server } }).to_string(),
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let home = format!("HOME={}", host.home().display());
    let how = [
        "env",
        &home,
        &node,
        &program,
        "--cli",
        "--config",
        config,
        "--server",
        "countersign",
    ];
    lists_and_calls(&mut agent, &mut operator, &how).await;
}
