//! Agents that others wrote, on the built binary, against the scripted model.
//!
//! Each story is told of every agent; what they do differently stands in `told.rs`. An agent that is
//! not in the cache is said and left out (`make agents` and `make test-agents` fill it).

mod actor;
mod alike;
mod choices;
pub(crate) mod claude_process;
mod claudes_own;
mod confined;
mod edited;
mod family;
mod mcp_config;
mod natively;
mod orchestrator;
mod outlive;
mod outlive_steps;
mod prompt_tool;
mod questions;
mod rogue;
mod rules;
mod served;
mod stage;
mod stories;
mod told;
mod tools;

pub(crate) use stage::is_there;

/// A test of its own for each agent and story, in the sandbox that agents get by default.
macro_rules! told_of {
    ($($module:ident, $agent:ident: $($story:ident)+;)+) => {
        $(
            mod $module {
                use countersign_testkit::real::RealAgent;

                $(
                    #[tokio::test]
                    async fn $story() {
                        let stage = super::stage::Stage::set_confined(RealAgent::$agent).await;
                        if let Some(stage) = stage {
                            super::stories::$story(stage).await;
                        }
                    }
                )+
            }
        )+
    };
}

// All but the example, which uses no MCP servers, ask their orchestrator with the host's own tools: the
// host names its server in `session/new`, and each of them starts it.
told_of! {
    example, Example: allowed denied_with_words interrupted two_at_once struck runner_struck
        host_and_runner_struck;
    claude_acp, Claude:
        asks_upwards allowed denied_with_words interrupted two_at_once struck runner_struck
        host_and_runner_struck;
    claude, ClaudeCode: asks_upwards allowed denied_with_words interrupted two_at_once struck runner_struck
        host_and_runner_struck;
    codex, Codex: asks_upwards allowed denied_with_words interrupted two_at_once struck runner_struck
        host_and_runner_struck;
    gemini, Gemini: asks_upwards allowed denied_with_words interrupted two_at_once struck runner_struck
        host_and_runner_struck;
    opencode, Opencode: asks_upwards allowed denied_with_words interrupted two_at_once struck runner_struck
        host_and_runner_struck;
    defect, Defect: asks_upwards allowed denied_with_words interrupted two_at_once struck runner_struck
        host_and_runner_struck;
}
