//! The host dies at a certain step, and the next one goes on from there: crash points, which only builds
//! with debug assertions have.

use countersign_testkit::real::RealAgent;

use super::outlive::{are_open, ran_once};
use super::stage::Stage;
use super::told;
use crate::host::poll;

/// An answer is committed, and the host dies before it is known to be delivered.
async fn an_answer_on_its_way_is_settled(kind: RealAgent, point: &str) {
    let Some(mut stage) = Stage::set_to_crash(kind, point).await else {
        return;
    };
    let actor = stage.spawn("ann", &told::adds());
    let ask = stage.ask(&actor).await;
    // Whether this is told that it succeeded depends on who is faster.
    drop(stage.run(&["approve", ask["id"].as_str().unwrap()]));
    stage.host.restart_after_crash();
    stage.listen_again().await;
    ran_once(&mut stage, &actor, &ask).await;
    stage.end(&actor).await;
}

/// The agent has its answer and did what it wanted, and the host knows nothing of it.
async fn an_answer_that_arrived_is_settled(kind: RealAgent) {
    let Some(mut stage) = Stage::set_to_crash(kind, "answer_sent:1:60000").await else {
        return;
    };
    let actor = stage.spawn("ann", &told::adds());
    let ask = stage.ask(&actor).await;
    let ask = stage.approve(&ask).await;
    poll("the model to hear of the command", || {
        let received = stage.model.received();
        let mut lines = received.iter().flatten().flat_map(|text| text.lines());
        lines.any(|line| line == "made").then_some(())
    });
    stage.host.kill();
    stage.host.start_disarmed();
    stage.listen_again().await;
    ran_once(&mut stage, &actor, &ask).await;
    stage.end(&actor).await;
}

/// Every host dies one step further than the one before.
async fn each_host_dies_a_step_later(kind: RealAgent) {
    let Some(mut stage) = Stage::set_to_crash(kind, "session_recorded:1").await else {
        return;
    };
    let actor = stage.spawn("ann", &told::adds());
    stage.host.await_crash();
    for point in ["prompt_written:1", "ask_heard:1", "ask_accepted:1"] {
        stage.host.crash_at(point);
    }
    stage.host.start_armed("answer_owed:1");
    stage.listen_again().await;
    let ask = stage.ask(&actor).await;
    are_open(&stage, &[&ask]);
    drop(stage.run(&["approve", ask["id"].as_str().unwrap()]));
    stage.host.await_crash();
    for point in ["answer_sent:1", "answer_written:1"] {
        stage.host.crash_at(point);
    }
    stage.host.start_disarmed();
    stage.listen_again().await;
    ran_once(&mut stage, &actor, &ask).await;
    stage.end(&actor).await;
}

macro_rules! outlived_by {
    ($($module:ident $agent:ident;)+) => {
        $(
            mod $module {
                use countersign_testkit::real::RealAgent;

                #[tokio::test]
                #[cfg_attr(
                    not(debug_assertions),
                    ignore = "only builds with debug assertions have crash points"
                )]
                async fn an_answer_that_was_not_sent_is_settled() {
                    super::an_answer_on_its_way_is_settled(RealAgent::$agent, "answer_owed:1").await;
                }

                #[tokio::test]
                #[cfg_attr(
                    not(debug_assertions),
                    ignore = "only builds with debug assertions have crash points"
                )]
                async fn an_answer_that_was_sent_is_settled() {
                    super::an_answer_on_its_way_is_settled(RealAgent::$agent, "answer_sent:1").await;
                }

                #[tokio::test]
                #[cfg_attr(
                    not(debug_assertions),
                    ignore = "only builds with debug assertions have crash points"
                )]
                async fn each_host_dies_a_step_later() {
                    super::each_host_dies_a_step_later(RealAgent::$agent).await;
                }
            }
        )+
    };
}

outlived_by! { claude_acp Claude; claude ClaudeCode; codex Codex; defect Defect; }

/// Defect needs the host for what was allowed, and so cannot go on without one.
#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn claude_has_its_answer_and_the_host_dies() {
    for kind in [RealAgent::Claude, RealAgent::ClaudeCode] {
        an_answer_that_arrived_is_settled(kind).await;
    }
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn codex_has_its_answer_and_the_host_dies() {
    an_answer_that_arrived_is_settled(RealAgent::Codex).await;
}

/// The command was allowed and runs in a terminal of ours: the host dies before it is begun, or after.
#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn a_terminal_is_begun_once_whichever_host_begins_it() {
    for point in ["request_allowed:1", "request_done:1"] {
        an_answer_on_its_way_is_settled(RealAgent::Defect, point).await;
    }
}
