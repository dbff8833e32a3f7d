//! What a host does with the runners that an earlier one left.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_core::{AgentId, Snapshot};
use countersign_store::EventLog as _;
use tempfile::TempDir;

use super::find_runners;
use crate::driver::launch::AgentLaunch;
use crate::driver::runner_host::RunnerHost;
use crate::driver::test_support::{FakeRunners, RunnerCall};
use crate::service::tests as host;

/// The record of a host that launched an agent and was killed.
async fn left_record(folder: &TempDir) -> Snapshot {
    let (service, mut exit) = host::host(folder, &[]).await;
    host::request_agent(&service, "a").await;
    let agent = AgentId::new("a");
    let (found, _) = service.read_agent(agent.clone()).await.unwrap();
    let launch = AgentLaunch {
        service: &service,
        runners: &FakeRunners::default(),
        agent: &agent,
        name: "a",
    };
    let launched = launch.launch(&found.managed.unwrap()).await;
    assert!(launched.is_ok());
    service.stop().await;
    exit.wait().await;
    let (mut log, _) = countersign_store::open(&folder.path().join("log.db")).unwrap();
    log.load().unwrap()
}

#[tokio::test]
async fn a_runner_that_lives_is_adopted_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let mut snapshot = left_record(&folder).await;
    let fake = Arc::new(FakeRunners::default());
    let runners: Arc<dyn RunnerHost> = fake.clone();
    let adopted = find_runners(&mut snapshot, &runners).await.unwrap();
    assert_eq!(adopted.agents(), BTreeSet::from([AgentId::new("a")]));
    let connect = RunnerCall::Connect {
        offset: 0,
        open: Vec::new(),
    };
    assert_eq!(fake.take_calls(), [connect, RunnerCall::ClearOrphans(1)]);
}

#[tokio::test]
async fn what_a_runner_left_that_is_gone_is_ended_and_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut snapshot = left_record(&folder).await;
    let fake = Arc::new(FakeRunners {
        is_gone: true,
        ..FakeRunners::default()
    });
    let runners: Arc<dyn RunnerHost> = fake.clone();
    let adopted = find_runners(&mut snapshot, &runners).await.unwrap();
    assert_eq!(adopted.agents(), BTreeSet::new());
    let connect = RunnerCall::Connect {
        offset: 0,
        open: Vec::new(),
    };
    let expected = [
        connect,
        RunnerCall::End,
        RunnerCall::End,
        RunnerCall::RemoveFiles,
        RunnerCall::ClearOrphans(0),
    ];
    assert_eq!(fake.take_calls(), expected);
}
