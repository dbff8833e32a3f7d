//! Agents that an orchestrator asks to start: what rules can say of them, and what only a person can.

use countersign_core::SPAWN_TOOL;
use countersign_rules::{
    Effect, Floor, LayerAllows, LayerView, NoFacts, Rule, RuleError, ToolRequest, Verdict, assess,
    explain, judge, suggest,
};
use serde_json::{Value, json};

use crate::support::{place, rules};

fn request(input: &Value) -> ToolRequest {
    ToolRequest::from_tool(SPAWN_TOOL, Some(input), place())
}

fn verdict(input: &Value, lines: &[&str]) -> Verdict {
    let set = rules(lines);
    let layer = LayerView {
        rules: &set,
        admits: &|_| true,
        allows: &LayerAllows::Count,
    };
    judge(
        &assess(&request(input), &NoFacts),
        &Floor::default(),
        &[layer],
    )
}

/// The effect, and whether nothing lifts it.
fn said(input: &Value, lines: &[&str]) -> (Effect, bool) {
    let verdict = verdict(input, lines);
    (verdict.effect, verdict.parts.iter().any(|part| part.floor))
}

fn codex() -> Value {
    json!({
        "agent": "codex", "cwd": "/home/dev/proj/api", "prompt": "go", "name": "api", "worktree": true,
        "allowed_tools": ["Read"], "disallowed_tools": ["Bash"], "model": "m", "mode": null, "env": [],
    })
}

#[test]
fn rules_speak_of_agents_by_kind() {
    let cases: [(&[&str], Effect); 16] = [
        (&[], Effect::Ask),
        (&["+SpawnAgent"], Effect::Allow),
        (&["+SpawnAgent(*)"], Effect::Allow),
        (&["+SpawnAgent(codex)"], Effect::Allow),
        (&["+SpawnAgent(claude)"], Effect::Ask),
        (&["+SpawnAgent(Codex)"], Effect::Ask),
        (&["+mcp__countersign__spawn_agent"], Effect::Allow),
        (&["+mcp__countersign__*"], Effect::Allow),
        (&["+mcp__other__spawn_agent"], Effect::Ask),
        (&["+SpawnAgent", "?SpawnAgent(codex)"], Effect::Ask),
        (&["+SpawnAgent", "-SpawnAgent(codex)"], Effect::Deny),
        (&["+SpawnAgent", "-SpawnAgent(CODEX)"], Effect::Deny),
        (&["+SpawnAgent(codex)", "-SpawnAgent"], Effect::Deny),
        (&["+SpawnAgent(codex)", "-Spawn*"], Effect::Deny),
        (&["+SpawnAgent(codex)", "-mcp__*"], Effect::Deny),
        (&["+SpawnAgent", "-SpawnAgent(claude)"], Effect::Allow),
    ];
    for (lines, effect) in cases {
        assert_eq!(said(&codex(), lines), (effect, false), "{lines:?}");
    }
}

#[test]
fn what_reaches_further_is_left_to_a_person_whatever_rules_say() {
    let every = [
        "+SpawnAgent",
        "+SpawnAgent(codex)",
        "+mcp__countersign__spawn_agent",
    ];
    let with = |name: &str, value: Value| {
        let mut input = codex();
        input[name] = value;
        input
    };
    let beyond = [
        with("env", json!([{ "name": "PATH", "value": "/tmp" }])),
        with("env", json!({ "LD_PRELOAD": "/tmp/x.so" })),
        with("command", json!(["sh", "-c", "id"])),
        with("command", json!("sh")),
        with("role", json!("orchestrator")),
        with("mode", json!("bypassPermissions")),
        with("mode", json!("acceptEdits")),
        with("mode", json!(["plan"])),
        with("agent", json!(7)),
        with("surprise", json!(true)),
        json!({ "command": ["codex"] }),
        json!({}),
        json!("codex"),
        json!(null),
    ];
    for input in beyond {
        assert_eq!(said(&input, &every), (Effect::Ask, true), "{input}");
        assert_eq!(said(&input, &["-SpawnAgent"]).0, Effect::Deny, "{input}");
    }
    for usual in [
        with("mode", json!("plan")),
        with("mode", json!("default")),
        with("env", json!({})),
        with("command", json!([])),
        with("role", json!(null)),
    ] {
        assert_eq!(said(&usual, &every), (Effect::Allow, false), "{usual}");
    }
}

#[test]
fn a_kind_that_is_denied_is_denied_under_a_command_too() {
    let named = json!({ "command": ["/usr/bin/codex", "acp"] });
    let both = json!({ "agent": "claude", "command": "codex acp" });
    for input in [named, both] {
        assert_eq!(
            said(&input, &["-SpawnAgent(codex)"]).0,
            Effect::Deny,
            "{input}"
        );
    }
    // It may be anything, so it is not waved through either.
    assert_eq!(said(&json!({}), &["-SpawnAgent(codex)"]).0, Effect::Ask);
}

#[test]
fn a_verdict_says_why_and_a_suggestion_is_narrow() {
    let mut orchestrator = codex();
    orchestrator["role"] = json!("orchestrator");
    let words = explain(&verdict(&orchestrator, &["+SpawnAgent"]));
    assert!(
        words.contains("SpawnAgent(codex)") && words.contains("it would start agents of its own"),
        "{words}"
    );
    let offered = |input: &Value| -> Vec<String> {
        let candidates = suggest(&request(input), &NoFacts, &Floor::default(), &[]);
        candidates.into_iter().map(|one| one.rule).collect()
    };
    assert_eq!(offered(&codex()), ["SpawnAgent(codex)"]);
    assert_eq!(offered(&orchestrator), Vec::<String>::new());
    let odd = json!({ "agent": "a)(b" });
    assert_eq!(offered(&odd), Vec::<String>::new());
}

#[test]
fn the_call_alone_is_known_by_its_name() {
    let set = rules(&["+mcp__countersign__spawn_agent", "-SpawnAgent(codex)"]);
    let layer = LayerView {
        rules: &set,
        admits: &|_| true,
        allows: &LayerAllows::Count,
    };
    let call = ToolRequest::from_call(SPAWN_TOOL, place());
    let verdict = judge(&assess(&call, &NoFacts), &Floor::default(), &[layer]);
    assert_eq!(verdict.effect, Effect::Allow);
}

#[test]
fn a_kind_is_a_name_or_everything() {
    for wrong in ["SpawnAgent(co*)", "SpawnAgent(a b)", "SpawnAgent(a/b)"] {
        let kind = wrong
            .trim_start_matches("SpawnAgent(")
            .trim_end_matches(')');
        for effect in [Effect::Allow, Effect::Deny] {
            assert_eq!(
                Rule::parse(effect, wrong),
                Err(RuleError::AgentKind(kind.to_owned()))
            );
        }
    }
}
