//! The end of a run, as it reaches the record.

use std::sync::Arc;

use countersign_core::RunEvent;
use countersign_core::event::{AnswerDelivery, RunEnd};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{AgentLoop, FinishedRun};
use crate::driver::AgentDrivers;
use crate::driver::output_reader::FinalOutput;
use crate::driver::run::failed_run;
use crate::driver::test_support::{FakeRunners, TestRun, line, said};
use crate::service::settle_input;

fn drivers() -> AgentDrivers {
    AgentDrivers {
        tasks: TaskTracker::new(),
        shutdown: CancellationToken::new(),
        runners: Arc::new(FakeRunners::default()),
    }
}

fn agent_loop<'a>(run: &'a TestRun, drivers: &'a AgentDrivers) -> AgentLoop<'a> {
    AgentLoop {
        service: &run.service,
        agent: &run.key.agent,
        name: "a",
        drivers,
    }
}

/// Output that a reader could not commit.
fn uncommitted_output(committed: u64) -> FinalOutput {
    FinalOutput {
        events: vec![RunEvent::EntriesAdded(vec![said("one")])],
        committed,
        ..FinalOutput::default()
    }
}

#[tokio::test]
async fn the_end_of_a_run_comes_after_what_was_not_committed_before() {
    let run = TestRun::start().await;
    run.read(vec![line(20, "ask 1")]).await;
    let ask = run.approve().await;
    let finished = FinishedRun {
        unsent: vec![settle_input(&ask, AnswerDelivery::Delivered)],
        ..failed_run(1, RunEnd::Killed, "killed".to_owned())
    };
    let finished = finished.with_final_output(uncommitted_output(20));
    run.disk.fill();
    let drivers = drivers();
    let agent_loop = agent_loop(&run, &drivers);
    let free_later = async {
        while run.disk.failures() == 0 {
            tokio::task::yield_now().await;
        }
        run.disk.free();
    };
    tokio::join!(agent_loop.record_end(finished), free_later);
    let expected = [
        "asked 1",
        "Allowed",
        "settled: Delivered",
        "said one",
        "Notice { text: \"killed; allowed in this turn, and may already have run: run it\" }",
        "exited: Killed",
    ];
    assert_eq!(run.recorded_output().await, expected);
}

#[tokio::test]
async fn output_of_a_commit_that_only_seemed_to_fail_is_not_recorded_again() {
    let run = TestRun::start().await;
    run.read(vec![line(20, "ask 1")]).await;
    let drivers = drivers();
    let agent_loop = agent_loop(&run, &drivers);
    let last = agent_loop.drop_if_committed(uncommitted_output(7)).await;
    let expected = FinalOutput {
        committed: 7,
        ..FinalOutput::default()
    };
    assert_eq!(last, expected);
    let last = agent_loop.drop_if_committed(uncommitted_output(20)).await;
    assert_eq!(last, uncommitted_output(20));
}
