use super::message::{
    AgentMessage, HostMessage, McpRequest, read_agent_message, read_host_message,
};
use super::*;

/// The socket that is given, empty for the usual one; nothing if the args are left to others.
fn parse(args: &[&str]) -> Option<PathBuf> {
    let read = arguments(args.iter().map(OsString::from));
    read.map(|args| args.socket.unwrap_or_default())
}

#[test]
fn an_agents_words_are_read_at_once_and_others_are_not() {
    assert_eq!(parse(&["mcp"]), Some(PathBuf::new()));
    assert_eq!(parse(&["mcp", "--socket", "/s"]), Some(PathBuf::from("/s")));
    for other in [
        &["mcp", "--help"] as &[&str],
        &["mcp", "--socket"],
        &["mcp", "--socket", "/s", "more"],
        &["up"],
        &[],
    ] {
        assert_eq!(parse(other), None, "{other:?}");
    }
}

#[test]
fn a_call_is_known_by_its_id_tool_and_token() {
    let line = br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"ask_orchestrator",
        "arguments":{"name":1},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let expected = McpRequest {
        id: r#""a""#.to_owned(),
        method: "tools/call".to_owned(),
        tool: Some("ask_orchestrator".to_owned()),
        progress_token: Some("7".to_owned()),
        version: Some("2026-07-28".to_owned()),
    };
    assert_eq!(read_agent_message(line), AgentMessage::Request(expected));
}

#[test]
fn what_is_no_request_is_told_apart() {
    let cancelled =
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#;
    assert_eq!(
        read_agent_message(cancelled),
        AgentMessage::Cancelled("3".to_owned())
    );
    let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(read_agent_message(initialized), AgentMessage::Other);
    assert_eq!(
        read_agent_message(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
        AgentMessage::Other
    );
    assert!(matches!(read_agent_message(b"[]"), AgentMessage::Broken(_)));
    assert!(matches!(
        read_agent_message(b"\xff"),
        AgentMessage::Broken(_)
    ));
}

#[test]
fn only_what_does_no_harm_twice_is_repeated() {
    let call = |tool: &str| McpRequest {
        method: "tools/call".to_owned(),
        tool: Some(tool.to_owned()),
        ..McpRequest::default()
    };
    let tools = [
        "ask_orchestrator",
        "spawn_agent",
        "send_to_agent",
        "kill_agent",
        "unheard_of",
    ];
    let repeated = tools.map(|tool| call(tool).is_repeatable());
    assert_eq!(repeated, [true, true, false, false, false]);
    let list = McpRequest {
        method: "tools/list".to_owned(),
        ..McpRequest::default()
    };
    assert!(list.is_repeatable());
}

#[test]
fn what_the_host_says_is_told_apart() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
    assert_eq!(read_host_message(answer), HostMessage::Answer);
    let ends = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32099,"message":"it ends"}}"#;
    assert_eq!(read_host_message(ends), HostMessage::HostEnds);
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"soon"}}"#;
    let soon = HostMessage::Progress(Some("soon".to_owned()));
    assert_eq!(read_host_message(progress), soon);
    assert_eq!(
        read_host_message(r#"{"error":{"message":"no"}}"#),
        HostMessage::Broken
    );
}
