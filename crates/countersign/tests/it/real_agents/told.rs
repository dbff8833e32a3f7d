//! What is told of an agent: prompts that make it do something, and what it does in its own way.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

/// A prompt that carries a script for the model. The example follows none: it has one story. A script
/// within the script is for an agent that this one starts or asks.
pub(super) fn script(steps: &Value) -> String {
    format!("Follow the script. <script>{steps}</script>")
}

/// A prompt on which the agent says something and asks to make a file, and nothing else.
pub(super) fn makes(file: &str) -> String {
    script(&json!([{ "say": "First words. " }, { "shell": command(file) }]))
}

/// What it asks then.
pub(super) fn command(file: &str) -> String {
    format!("touch {file} && echo made")
}

/// A prompt on which the agent says something and asks for what shows how often it ran.
pub(super) fn adds() -> String {
    script(&json!([{ "say": "First words. " }, { "shell": ADDS }]))
}

/// What it asks then.
pub(super) const ADDS: &str = "echo ran >> ran && echo made";

/// A prompt on which the agent asks for a command that prints, waits for a file and prints more.
pub(super) fn waits() -> String {
    let command = "seq 1 100; echo ran >> ran; until [ -e go ]; do sleep 0.05; done; \
                   seq 101 200; echo over >> over";
    let steps =
        json!([{ "say": "First words. " }, { "shell": command }, { "say": "More words. " }]);
    script(&steps)
}

/// What that prints before it waits.
pub(super) fn first_lines() -> String {
    let numbers: Vec<String> = (1..=100).map(|number: u8| number.to_string()).collect();
    numbers.join("\n") + "\n"
}

/// A prompt on which the agent runs something without an end, once it is allowed.
pub(super) fn runs_on(file: &str) -> String {
    script(&json!([{ "shell": format!("touch {file} && tail -f /dev/null") }]))
}

/// Words of the agent before it asks.
pub(super) fn first_words(kind: RealAgent) -> &'static str {
    match kind {
        RealAgent::Example => "Let me start by reading some files",
        _ => "First words. ",
    }
}

/// Words of the agent once it did what it was allowed.
pub(super) fn words_when_allowed(kind: RealAgent) -> &'static str {
    match kind {
        RealAgent::Example => "The changes have been applied.",
        _ => "The script is over. The last result: ",
    }
}

/// How a turn ends in which an ask was denied.
pub(super) fn stop_when_denied(kind: RealAgent) -> &'static str {
    match kind {
        RealAgent::Codex => "cancelled",
        _ => "end_turn",
    }
}

/// Whether a denial ends the turn, so that what else the script says is not done.
pub(super) fn ends_turn_when_denied(kind: RealAgent) -> bool {
    matches!(kind, RealAgent::Codex | RealAgent::Opencode)
}

/// How a turn ends that was interrupted while an ask was open.
pub(super) fn stop_when_asked_and_interrupted(kind: RealAgent) -> &'static str {
    match kind {
        // It takes the end of its ask for an answer.
        RealAgent::Example => "end_turn",
        _ => "cancelled",
    }
}

/// Whether words of a denial reach the agent with it, and not as its next message.
pub(super) fn takes_denial_message(kind: RealAgent) -> bool {
    kind == RealAgent::ClaudeCode
}

/// Whether the agent can do what a script says.
pub(super) fn follows_scripts(kind: RealAgent) -> bool {
    kind != RealAgent::Example
}

/// Whether the agent ends a command when its turn is interrupted. Codex may leave it running, and it
/// ends with codex.
pub(super) fn ends_what_it_ran(kind: RealAgent) -> bool {
    kind != RealAgent::Codex
}

/// Whether a command runs within the agent, so that it hears the end of it without a host.
pub(super) fn runs_commands_itself(kind: RealAgent) -> bool {
    kind != RealAgent::Defect
}

/// Whether the agent goes on with an earlier session.
pub(super) fn can_resume(kind: RealAgent) -> bool {
    kind != RealAgent::Example
}

/// What an agent says it used: the names of what is known.
pub(super) fn accounts(kind: RealAgent) -> &'static [&'static str] {
    match kind {
        RealAgent::Claude | RealAgent::ClaudeCode => &[
            "context_size",
            "context_used",
            "cost_micro_usd",
            "tokens_in",
            "tokens_out",
        ],
        RealAgent::Codex => &["context_size", "context_used"],
        RealAgent::Opencode => &["tokens_in", "tokens_out"],
        RealAgent::Example | RealAgent::Defect | RealAgent::Gemini => &[],
    }
}

/// The name for a tool of the host's own server that most agents have, and rules.
pub(super) fn host_tool(tool: &str) -> String {
    format!("mcp__countersign__{tool}")
}

/// The name that an agent's model knows the tool by.
pub(super) fn host_tool_of(kind: RealAgent, tool: &str) -> String {
    match kind {
        RealAgent::Gemini => format!("mcp_countersign_{tool}"),
        RealAgent::Opencode => format!("countersign_{tool}"),
        _ => host_tool(tool),
    }
}

/// Whether the agent asks about a tool of the host's own server without naming it, so that nobody but a
/// person can settle it.
pub(super) fn asks_about_host_tools(kind: RealAgent) -> bool {
    matches!(kind, RealAgent::Defect | RealAgent::Gemini)
}
