//! What is committed before what, when an agent is launched.

use countersign_core::{AgentId, ManagedAgent};

use super::AgentLaunch;
use crate::driver::test_support::{FakeRunners, LinkCall, RUNNER, RunnerCall};
use crate::service::Service;
use crate::service::tests as host;

async fn managed(service: &Service) -> ManagedAgent {
    let (agent, _) = service.read_agent(AgentId::new("a")).await.unwrap();
    (*agent.managed.unwrap()).clone()
}

#[tokio::test]
async fn a_runner_is_committed_and_starts_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _exit) = host::host(&folder, &[]).await;
    host::request_agent(&service, "a").await;
    let (runners, agent) = (FakeRunners::default(), AgentId::new("a"));
    let launch = AgentLaunch {
        service: &service,
        runners: &runners,
        agent: &agent,
        name: "a",
    };
    let launched = launch.launch(&managed(&service).await).await;
    let (connected, _) = launched.unwrap_or_else(|error| panic!("{error:?}"));
    let expected = [
        RunnerCall::CreateTree("a-1".to_owned()),
        RunnerCall::Start,
        RunnerCall::Connect {
            offset: 0,
            open: Vec::new(),
        },
    ];
    assert_eq!(runners.take_calls(), expected);
    let launched = LinkCall::Launch("agent".into(), Vec::new(), "/".into());
    assert_eq!(runners.link.take_calls(), [launched]);
    let managed = managed(&service).await;
    assert_eq!(managed.process, Some(RUNNER));
    let record = serde_json::from_str(managed.runner.text()).ok();
    assert_eq!(record, Some(connected.record));
}

#[tokio::test]
async fn files_of_a_runner_that_did_not_start_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _exit) = host::host(&folder, &[]).await;
    host::request_agent(&service, "a").await;
    let agent = AgentId::new("a");
    let runners = FakeRunners {
        fails_to_start: true,
        ..FakeRunners::default()
    };
    let launch = AgentLaunch {
        service: &service,
        runners: &runners,
        agent: &agent,
        name: "a",
    };
    assert!(launch.launch(&managed(&service).await).await.is_err());
    let expected = [
        RunnerCall::CreateTree("a-1".to_owned()),
        RunnerCall::Start,
        RunnerCall::RemoveFiles,
    ];
    assert_eq!(runners.take_calls(), expected);
    assert_eq!(managed(&service).await.process, None);
}
