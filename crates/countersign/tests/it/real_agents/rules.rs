//! The same agents under rules: what is allowed runs by itself and is on the record, what is denied
//! never runs.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::stage::{Stage, WAIT};
use super::told;

const RULES: &str = r#"
allow = ["Bash(touch:*)", "Bash(echo:*)", "Bash(true)"]
deny = ["Bash(mkdir:*)"]
"#;

/// What the deny covers, however it is wrapped.
const WRAPPED: [&str; 8] = [
    "mkdir forbidden",
    "sh -c 'mkdir forbidden'",
    "env A=b mkdir forbidden",
    "echo forbidden | xargs mkdir",
    r#"bash -c "sh -c 'mkdir forbidden'""#,
    "true && mkdir forbidden",
    "echo $(mkdir forbidden)",
    r#""mk"'dir' forbidden"#,
];

async fn what_a_rule_allows_runs_by_itself(kind: RealAgent) {
    let Some(mut stage) = Stage::set_with(kind, RULES).await else {
        return;
    };
    let actor = stage.spawn("ann", &told::makes("made"));
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    assert!(actor.has("made"));
    let asks = stage.asks_of(&actor).await;
    let record: Vec<Value> = asks.iter().map(trace).collect();
    let expected = json!({
        "command": told::command("made"), "state": "allowed", "role": "host", "delivery": "delivered",
        "rules": ["Bash(touch:*)", "Bash(echo:*)"],
    });
    assert_eq!(record, [expected]);
    stage.end(&actor).await;
}

async fn what_a_rule_denies_never_runs(kind: RealAgent) {
    let Some(mut stage) = Stage::set_with(kind, RULES).await else {
        return;
    };
    // One that ends its turn when it is denied gets each command in a turn of its own.
    let prompts: Vec<String> = if told::ends_turn_when_denied(kind) {
        let one = |command| told::script(&json!([{ "shell": command }]));
        WRAPPED.into_iter().map(one).collect()
    } else {
        let all = WRAPPED.map(|command| json!({ "shell": command }));
        vec![told::script(&json!(all))]
    };
    let actor = stage.spawn("ann", &prompts[0]);
    for prompt in &prompts[1..] {
        stage.ok(&["send", "ann", prompt]);
    }
    stage.turn_ended(&actor, prompts.len() as u64).await;
    stage.ok(&["wait", "ann", "--timeout", WAIT]);
    assert!(!actor.has("forbidden"));
    let asks = stage.asks_of(&actor).await;
    let record = asks.iter().map(|ask| {
        let words = ask["message"].as_str().unwrap_or_default();
        assert!(words.contains("Bash(mkdir:*)"), "{ask}");
        (ask["input"]["command"].clone(), ask["state"].clone())
    });
    let record: Vec<(Value, Value)> = record.collect();
    let expected = WRAPPED.map(|command| (json!(command), json!("denied")));
    assert_eq!(record, expected);
    stage.end(&actor).await;
}

/// What the record has of an ask that rules settled.
fn trace(ask: &Value) -> Value {
    let parts = ask["verdict"]["parts"].as_array().unwrap().iter();
    let rules: Vec<&Value> = parts.map(|part| &part["rule"]["rule"]).collect();
    json!({
        "command": ask["input"]["command"], "state": ask["state"], "role": ask["resolved_by"]["role"],
        "delivery": ask["delivery"], "rules": rules,
    })
}

macro_rules! ruled {
    ($($module:ident $agent:ident;)+) => {
        $(
            mod $module {
                use countersign_testkit::real::RealAgent;

                #[tokio::test]
                async fn what_a_rule_allows_runs_by_itself() {
                    super::what_a_rule_allows_runs_by_itself(RealAgent::$agent).await;
                }

                #[tokio::test]
                async fn what_a_rule_denies_never_runs() {
                    super::what_a_rule_denies_never_runs(RealAgent::$agent).await;
                }
            }
        )+
    };
}

ruled! {
    claude_acp Claude; claude ClaudeCode; codex Codex; defect Defect; gemini Gemini;
    opencode Opencode;
}
