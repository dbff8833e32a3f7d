//! Promise one: the host may be killed at any instant, and nothing is lost. `make crash` kills many more.

use std::path::PathBuf;

use countersign_testkit::crash::{Mode, Plan, Summary, run};

async fn kill(mode: Mode, kills: usize) -> Summary {
    let plan = Plan {
        countersign: PathBuf::from(env!("CARGO_BIN_EXE_countersign")),
        kills,
        mode,
        seed: 1,
    };
    let outcome = Box::pin(run(&plan, |_| {})).await;
    outcome.unwrap_or_else(|error| panic!("{error:#}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn kill_at_every_commit_point_loses_nothing() {
    let summary = kill(Mode::Points, 33).await;
    assert_eq!(summary.progress.kills, 33, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_at_random_loses_nothing() {
    let summary = kill(Mode::Random, 20).await;
    assert_eq!(summary.progress.kills, 20, "{summary}");
}
