//! The tools: what each is called, says about itself and takes, and who may see it.
//!
//! Invariant: what is not for a caller is not listed for it, and refused in words if called all the same.

use std::sync::Arc;

use countersign_protocol::Reason;
use rmcp::model::{Tool, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::reply::{Outcome, Stop};
use super::{permission, upwards};
use crate::fault::Fault;

/// Who a tool is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    /// Every agent.
    Agents,
    /// Agents that start and steer others.
    Orchestrators,
}

/// What a tool does to the world, for clients that want to know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// It changes nothing.
    Reads,
    /// It adds something.
    Adds,
    /// It ends or changes something.
    Changes,
}

struct Described {
    name: &'static str,
    audience: For,
    does: Does,
    about: &'static str,
    input: Value,
}

fn all() -> Vec<Described> {
    for_agents()
}

fn for_agents() -> Vec<Described> {
    let text = |about: &str| json!({"type": "string", "description": about});
    vec![
        Described {
            name: "notify_orchestrator",
            audience: For::Agents,
            does: Does::Adds,
            about: "Tell whoever gave you your task something, without waiting for an answer: progress, \
                a finding, a problem. It is read between turns; do not repeat it.",
            input: object(
                &json!({"message": text("What to say, in plain words.")}),
                &["message"],
            ),
        },
        Described {
            name: "ask_orchestrator",
            audience: For::Agents,
            does: Does::Adds,
            about: "Ask whoever gave you your task a question and wait for the answer. Use it when you \
                cannot go on safely without a decision or a fact. A person may answer instead. If \
                nobody answers in time the result says so: then choose the safest way, or stop.",
            input: object(
                &json!({
                    "question": text("The question, with all that is needed to answer it."),
                    "timeout_s": {
                        "type": "integer", "minimum": 1, "maximum": 86400,
                        "description": "How many seconds to wait. 300 if left out.",
                    },
                }),
                &["question"],
            ),
        },
        Described {
            name: "request_permission",
            audience: For::Agents,
            does: Does::Adds,
            about: "Ask for permission to use a tool, and wait until a rule or a person decides. The \
                text of the result is JSON: {\"behavior\":\"allow\",\"updatedInput\":{…}}, and then exactly \
                that input may run, once; or {\"behavior\":\"deny\",\"message\":\"…\"}.",
            input: object(
                &json!({
                    "tool_name": text("The tool that is to be used."),
                    "input": {"type": "object", "description": "Its exact input."},
                    "tool_use_id": text("The id of the tool call; asking again with it is the same ask."),
                }),
                &["tool_name", "input"],
            ),
        },
    ]
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// The tools that a caller may know of.
pub(super) fn listed(is_agent: bool, steers: bool) -> Vec<Tool> {
    let all = if is_agent { all() } else { Vec::new() };
    all.into_iter()
        .filter(|tool| steers || tool.audience == For::Agents)
        .map(as_tool)
        .collect()
}

fn as_tool(described: Described) -> Tool {
    let schema = match described.input {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    let hints = ToolAnnotations::new()
        .read_only(described.does == Does::Reads)
        .destructive(described.does == Does::Changes)
        .open_world(false);
    let mut tool = Tool::new(described.name, described.about, Arc::new(schema));
    tool.annotations = Some(hints);
    tool
}

/// Performs a call, if there is such a tool and it is for this caller.
pub(super) async fn perform(call: &Call<'_>, name: &str, arguments: Map<String, Value>) -> Outcome {
    check_caller(call, name)?;
    match name {
        "notify_orchestrator" => upwards::notify(call, read(arguments)?).await,
        "ask_orchestrator" => upwards::ask(call, read(arguments)?).await,
        "request_permission" => permission::request(call, read(arguments)?).await,
        _ => Err(unknown(name)),
    }
}

fn check_caller(call: &Call<'_>, name: &str) -> Result<(), Stop> {
    let Some(tool) = all().into_iter().find(|tool| tool.name == name) else {
        return Err(unknown(name));
    };
    let Some(agent) = call.agent() else {
        let words =
            "these tools are for agents: people use `countersign` itself, the page or the API";
        return Err(Fault::refused(Reason::AgentNotAllowed, words).into());
    };
    if tool.audience == For::Orchestrators && !call.steers {
        let words = format!(
            "`{name}` is for orchestrators, and `{agent}` is none: ask_orchestrator can ask one"
        );
        return Err(Fault::refused(Reason::AgentNotAllowed, words).into());
    }
    Ok(())
}

fn unknown(name: &str) -> Stop {
    let words = format!("there is no tool `{}`", super::reply::named(name));
    Fault::plain(Reason::InvalidParams, words).into()
}

fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Stop> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| Fault::invalid(&error).into())
}
