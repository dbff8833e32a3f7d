//! Sessions: opened, gone on with, and what the host does for them.

use std::path::PathBuf;

use countersign_agents::adapter::Adapter as _;
use countersign_agents::adapter::{
    AgentCommand, AgentEvent, ClientRequest, ClientRequestError, ClientResponse, CommandError,
    ProcessExit, RequestId, RunRequest, SessionSpec,
};
use countersign_core::event::TranscriptEntry;
use serde_json::json;

use super::talk::{Came, Talk, words};

impl Talk {
    async fn failed(&mut self) -> String {
        let found = self.until(|came| match came {
            Came::Happened(AgentEvent::StartFailed { message }) => Some(message.clone()),
            _ => None,
        });
        found.await.1
    }

    async fn wanted(&mut self) -> (RequestId, ClientRequest) {
        let found = self.until(|came| match came {
            Came::Happened(AgentEvent::ClientRequested {
                request,
                client_request: want,
                ..
            }) => Some((request.clone(), want.clone())),
            _ => None,
        });
        found.await.1
    }

    async fn serve(
        &mut self,
        request: RequestId,
        served: Result<ClientResponse, ClientRequestError>,
    ) {
        self.order(AgentCommand::Serve { request, served }).await;
    }
}

#[tokio::test]
async fn only_version_1_is_spoken() {
    let mut talk = Talk::start(&json!({"protocol": 7})).await;
    assert!(talk.failed().await.contains("version 7"));
    talk.end().await;
}

#[tokio::test]
async fn an_agent_that_wants_a_login_fails_with_what_to_do() {
    let mut talk = Talk::start(&json!({"wants_login": true})).await;
    assert!(talk.failed().await.contains("log in first (A key)"));
    talk.end().await;
}

#[tokio::test]
async fn what_is_said_before_the_session_is_kept() {
    let mut talk = Talk::start(&json!({"update_before_session": true})).await;
    let (before, _) = talk.ready().await;
    assert_eq!(words(&before), "before the session");
    talk.end().await;
}

#[tokio::test]
async fn a_mode_is_set_or_warned_about() {
    for (mode, current, warnings) in [("b", "b", 0), ("c", "a", 1)] {
        let script = json!({"modes": ["a", "b"]});
        let mut talk = Talk::launch(&script, tempfile::tempdir().unwrap()).await;
        let start = SessionSpec {
            mode: Some(mode.to_owned()),
            ..talk.plain_start()
        };
        talk.order(AgentCommand::Start(start)).await;
        let (_, ready) = talk.ready().await;
        assert_eq!(
            (ready.mode.as_deref(), ready.warnings.len()),
            (Some(current), warnings)
        );
        talk.end().await;
    }
}

#[tokio::test]
async fn a_session_goes_on_after_the_agents_exit_without_being_told_again() {
    for script in [
        json!({"can_load": true}),
        json!({"can_load": false, "can_resume": true}),
    ] {
        let mut talk = Talk::start(&script).await;
        let (_, ready) = talk.ready().await;
        talk.prompt(&json!([{"exit": 0}])).await;
        talk.exited().await;
        let folder = talk.end().await;

        let mut talk = Talk::launch(&script, folder).await;
        let start = SessionSpec {
            session: Some(ready.session.clone()),
            ..talk.plain_start()
        };
        talk.order(AgentCommand::Start(start)).await;
        let (before, again) = talk.ready().await;
        assert_eq!(before, []);
        assert_eq!((again.session, again.resumable), (ready.session, true));
        talk.prompt(&json!([{"say": "on"}])).await;
        assert_eq!(words(&talk.turn_ended().await.0), "on");
        talk.end().await;
    }
}

#[tokio::test]
async fn a_session_nobody_knows_is_refused_with_words() {
    let mut talk = Talk::launch(&json!({}), tempfile::tempdir().unwrap()).await;
    let start = SessionSpec {
        session: Some("gone".to_owned()),
        ..talk.plain_start()
    };
    talk.order(AgentCommand::Start(start)).await;
    assert!(
        talk.failed()
            .await
            .contains("no longer knows the session `gone`")
    );
    talk.end().await;
}

#[tokio::test]
async fn prompts_never_overlap() {
    let mut talk = Talk::open(&json!({})).await;
    talk.prompt(&json!([{"ask": {}}])).await;
    talk.asked().await;
    let again = AgentCommand::Prompt {
        attachments: Vec::new(),
        turn: 2,
        messages: vec!["more".to_owned()],
    };
    assert_eq!(talk.acp.apply_command(again), Err(CommandError::NotReady));
    talk.end().await;
}

#[tokio::test]
async fn files_are_wanted_and_served() {
    let mut talk = Talk::open(&json!({"string_ids": true})).await;
    let steps = json!([
        {"write": {"path": "/p/a", "content": "x"}},
        {"read": {"path": "/p/a"}},
        {"read": {"path": "a"}},
    ]);
    talk.prompt(&steps).await;
    let (request, want) = talk.wanted().await;
    let path = || PathBuf::from("/p/a");
    assert_eq!(
        want,
        ClientRequest::Write {
            path: path(),
            content: "x".to_owned()
        }
    );
    talk.serve(
        request,
        Err(ClientRequestError::NotPermitted(
            "a rule says so".to_owned(),
        )),
    )
    .await;
    let (request, want) = talk.wanted().await;
    assert_eq!(
        want,
        ClientRequest::Read {
            path: path(),
            line: None,
            limit: None
        }
    );
    talk.serve(request, Ok(ClientResponse::Text("y".to_owned())))
        .await;
    let (came, _) = talk.turn_ended().await;
    let said = words(&came);
    assert!(
        said.contains(r#"fs/read_text_file: {"content":"y"}"#),
        "{said}"
    );
    assert!(said.contains("-32602"), "{said}");
    talk.end().await;
}

#[tokio::test]
async fn a_terminal_is_wanted_step_by_step() {
    let mut talk = Talk::open(&json!({})).await;
    let terminal = json!({"command": "/bin/sh", "args": ["-c", "echo hi"], "output_byte_limit": 9, "kill": true});
    talk.prompt(&json!([{"terminal": terminal}])).await;
    let exit = || ProcessExit {
        code: Some(0),
        signal: None,
    };
    let run = RunRequest {
        command: "echo hi".to_owned(),
        cwd: None,
        env: Vec::new(),
    };
    let output = ClientResponse::Output {
        text: "hi\n".to_owned(),
        truncated: false,
        exit: Some(exit()),
    };
    let t = || "t".to_owned();
    for (want, served) in [
        (
            ClientRequest::CreateTerminal {
                run,
                output_bytes_max: Some(9),
            },
            ClientResponse::Terminal(t()),
        ),
        (ClientRequest::Kill { terminal: t() }, ClientResponse::Done),
        (
            ClientRequest::WaitForExit { terminal: t() },
            ClientResponse::Exited(exit()),
        ),
        (ClientRequest::Output { terminal: t() }, output),
        (
            ClientRequest::Release { terminal: t() },
            ClientResponse::Done,
        ),
    ] {
        let (request, wanted) = talk.wanted().await;
        assert_eq!(wanted, want);
        talk.serve(request, Ok(served)).await;
    }
    assert_eq!(talk.turn_ended().await.1.reason, "end_turn");
    talk.end().await;
}

#[tokio::test]
async fn plan_usage_and_mode_are_reported() {
    let mut talk = Talk::open(&json!({})).await;
    let steps = json!([
        {"think": "hm"},
        {"plan": [["one", "pending"]]},
        {"usage": {"used": 1, "size": 2, "cost": 0.5}},
        {"mode": "m"},
    ]);
    talk.prompt(&steps).await;
    let (came, _) = talk.turn_ended().await;
    let reports = came
        .iter()
        .filter(|came| matches!(came, Came::Happened(AgentEvent::Reported(_))));
    assert_eq!(reports.count(), 3);
    let thought = TranscriptEntry::Thinking {
        text: "hm".to_owned(),
    };
    assert_eq!(came[0], Came::Happened(AgentEvent::Transcript(thought)));
    talk.end().await;
}
