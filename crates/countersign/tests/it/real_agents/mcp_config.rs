//! MCP servers that a person gives Claude Code.

use countersign_testkit::real::RealAgent;
use serde_json::json;

use super::stage::Stage;
use super::told::script;

/// A server with one tool, in the shell that every machine has.
const SERVER: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"docs","version":"1"}}' ;;
  *'"tools/list"'*) result='{"tools":[{"name":"lookup","description":"looks up","inputSchema":{"type":"object"}}]}' ;;
  *'"tools/call"'*) touch called; result='{"content":[{"type":"text","text":"looked up"}]}' ;;
  *) result='{}' ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[tokio::test]
async fn a_given_server_is_there_is_asked_about_and_ends_with_the_agent() {
    let Some(mut stage) = Stage::set(RealAgent::ClaudeCode).await else {
        return;
    };
    let folder = stage.outside();
    let server = folder.join("docs-server.sh");
    std::fs::write(&server, SERVER).unwrap();
    let entry = json!({ "command": "/bin/sh", "args": [server], "alwaysLoad": true });
    let config = folder.join("mcp.json");
    let servers = json!({ "docs": entry });
    std::fs::write(&config, json!({ "mcpServers": servers }).to_string()).unwrap();
    let steps = json!([{ "tool": "mcp__docs__lookup", "input": {} }]);
    let config = config.to_str().unwrap();
    let actor = stage.spawn_with("ann", &script(&steps), &["--mcp-config", config]);
    let ask = stage.ask(&actor).await;
    assert_eq!(ask["tool"], "mcp__docs__lookup", "{ask}");
    assert!(!actor.has("called"));
    assert!(actor.runs("docs-server.sh"));
    stage.approve(&ask).await;
    stage.turn_ended(&actor, 1).await;
    assert!(actor.has("called"));
    stage.hears(&actor, "assistant", "looked up").await;
    let spawned = stage.next(&actor, "agent.spawned").await;
    assert!(spawned.to_string().contains("docs-server.sh"), "{spawned}");
    stage.end(&actor).await;
}

#[tokio::test]
async fn a_server_under_the_hosts_own_name_is_refused() {
    let Some(stage) = Stage::set(RealAgent::ClaudeCode).await else {
        return;
    };
    let config = stage.outside().join("mcp.json");
    for (servers, expected) in [
        (json!({ "countersign": { "command": "x" } }), "countersign"),
        (json!(["x"]), "an object"),
    ] {
        std::fs::write(&config, json!({ "mcpServers": servers }).to_string()).unwrap();
        let refused = stage.run(&[
            "spawn",
            "--command",
            "/bin/true",
            "--protocol",
            "claude",
            "--mcp-config",
            config.to_str().unwrap(),
            "go",
        ]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}
