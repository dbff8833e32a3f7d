//! The tools that the host itself offers to agents, by the names under which agents know them.

/// The name of the host's own MCP server, which agents put before the names of its tools.
pub const OWN_SERVER: &str = "countersign";

/// The tools of that server. Those that only orchestrators have come last.
pub const OWN_TOOLS: [&str; 21] = [
    "notify_orchestrator",
    "ask_orchestrator",
    "request_permission",
    "spawn_agent",
    "list_agents",
    "read_transcript",
    "send_to_agent",
    "interrupt_agent",
    "kill_agent",
    "resume_agent",
    "archive_agent",
    "wait_for_agents",
    "list_questions",
    "answer_question",
    "list_approvals",
    "resolve_approval",
    "propose_layout",
    "save_layout",
    "list_layouts",
    "propose_theme",
    "propose_key_binding",
];

/// What agents call one of the host's tools when they ask whether they may use it.
pub fn own_tool_name(tool: &str) -> String {
    format!("mcp__{OWN_SERVER}__{tool}")
}

/// Whether an agent that asks to use `name` means one of the host's own tools.
pub fn is_own_tool(name: &str) -> bool {
    let own = name.strip_prefix("mcp__");
    let own = own.and_then(|rest| rest.strip_prefix(OWN_SERVER));
    let own = own.and_then(|rest| rest.strip_prefix("__"));
    own.is_some_and(|tool| OWN_TOOLS.contains(&tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_names_are_ours() {
        assert!(
            OWN_TOOLS
                .iter()
                .all(|tool| is_own_tool(&own_tool_name(tool)))
        );
        for other in [
            "notify_orchestrator",
            "mcp__countersign__",
            "mcp__countersign__notify_orchestrator2",
            "mcp__countersign2__notify_orchestrator",
            "MCP__countersign__notify_orchestrator",
        ] {
            assert!(!is_own_tool(other), "{other}");
        }
    }
}
