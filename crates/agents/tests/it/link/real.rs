//! Hosts that come and go, and a runner that stays.

use std::time::Duration;

use countersign_agents::adapter::{AgentWrite, ProcessExit, WriteId, WriteKind};
use countersign_agents::runner::{
    Link, LinkError, LinkEvent, WriteError, WriteReceipt, connect, end_orphan, read_exit_report,
};
use countersign_agents::{CommandSpec, ShellError, TerminalId, TerminalOutput};
use rustix::process::{Pid, Signal, kill_process};

use super::wait_until_reaped;
use crate::support::run::Run;
use crate::support::{code, daemonise, guarded, is_alive, key_of, signal};

/// Says what it is told.
const ECHO: &str = "while read -r line; do echo \"heard $line\"; done";
fn to_write(name: WriteId, kind: WriteKind, text: &str) -> AgentWrite {
    AgentWrite {
        id: name,
        kind,
        bytes: format!("{text}\n").into(),
    }
}

fn receipt(name: WriteId, kind: WriteKind) -> WriteReceipt {
    WriteReceipt { id: name, kind }
}

fn line(number: u64, text: &str) -> LinkEvent {
    let bytes = text.into();
    LinkEvent::Line { number, bytes }
}

fn exited(exit: ProcessExit) -> LinkEvent {
    LinkEvent::Exited { exit, why: None }
}

async fn next(link: &mut Link) -> Option<LinkEvent> {
    guarded(link.events.recv()).await
}

#[tokio::test]
async fn a_line_goes_to_the_agent_and_its_words_come_back() {
    let run = Run::start().await;
    let mut link = run.connect(0, Vec::new()).await;
    assert_eq!((link.agent, link.log.as_str()), (None, ""));
    let agent = run.launch(&link, &format!("echo log >&2; {ECHO}")).await;
    assert_eq!(agent, key_of(agent.pid));
    assert_eq!(
        next(&mut link).await,
        Some(LinkEvent::Log("log".to_owned()))
    );
    let prompt = WriteId::Own("prompt".to_owned(), 1);
    let written = link
        .sender
        .write(vec![to_write(prompt.clone(), WriteKind::Served, "one")]);
    assert_eq!(
        guarded(written).await,
        Ok(vec![receipt(prompt, WriteKind::Served)])
    );
    assert_eq!(next(&mut link).await, Some(line(10, "heard one")));
    link.sender.stop(Duration::from_mins(1));
    assert_eq!(next(&mut link).await, Some(exited(code(0))));
    let late = vec![to_write(WriteId::Line(10), WriteKind::Unspecified, "late")];
    assert_eq!(
        guarded(link.sender.write(late)).await,
        Err(WriteError::Gone)
    );
    run.end(link).await;
}

#[tokio::test]
async fn the_next_host_hears_what_was_not_committed_and_says_nothing_twice() {
    let run = Run::start().await;
    let mut link = run.connect(0, Vec::new()).await;
    let agent = run.launch(&link, ECHO).await;
    let own = |number| WriteId::Own("prompt".to_owned(), number);
    let lines = vec![
        to_write(own(1), WriteKind::Unspecified, "one"),
        to_write(WriteId::Line(7), WriteKind::Allow, "two"),
    ];
    let receipts = vec![
        receipt(own(1), WriteKind::Unspecified),
        receipt(WriteId::Line(7), WriteKind::Allow),
    ];
    assert_eq!(guarded(link.sender.write(lines)).await, Ok(receipts));
    assert_eq!(next(&mut link).await, Some(line(10, "heard one")));
    assert_eq!(next(&mut link).await, Some(line(20, "heard two")));
    link.sender.committed(6, Vec::new());
    assert_eq!(guarded(link.sender.claim(own(1))).await, Ok(true));
    drop(link);

    let mut link = run.connect(10, vec![7]).await;
    assert_eq!(link.agent, Some(agent));
    let lines = vec![
        to_write(WriteId::Line(7), WriteKind::Deny, "never"),
        to_write(WriteId::Line(20), WriteKind::Unspecified, "three"),
    ];
    let receipts = vec![
        receipt(WriteId::Line(7), WriteKind::Allow),
        receipt(WriteId::Line(20), WriteKind::Unspecified),
    ];
    assert_eq!(guarded(link.sender.write(lines)).await, Ok(receipts));
    assert_eq!(guarded(link.sender.claim(own(1))).await, Ok(false));
    assert_eq!(next(&mut link).await, Some(line(20, "heard two")));
    assert_eq!(next(&mut link).await, Some(line(32, "heard three")));

    // The newest host counts.
    let newest = run.connect(32, Vec::new()).await;
    assert_eq!(next(&mut link).await, Some(LinkEvent::Lost));
    assert_eq!(next(&mut link).await, None);
    run.end(newest).await;
    assert!(!is_alive(agent));
}

#[tokio::test]
async fn terminals_go_on_without_a_host() {
    let run = Run::start().await;
    let link = run.connect(0, Vec::new()).await;
    run.launch(&link, ECHO).await;
    let fifo = run.dir.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    let spec = CommandSpec {
        key: 5,
        command: format!("echo $ADDED; read line <{}; echo $line", fifo.display()),
        cwd: run.dir.path().to_owned(),
        env: vec![("ADDED".into(), "added".into())],
        output_bytes_max: 1_000,
    };
    let shells = link.shells.clone();
    let terminal = guarded(shells.create(spec.clone())).await.expect("one");
    drop((link, shells));

    let link = run.connect(0, Vec::new()).await;
    let shells = link.shells.clone();
    let same = guarded(shells.create(spec)).await.expect("the same one");
    assert_eq!(same, terminal);
    let speak = async {
        let word = tokio::fs::write(&fifo, "spoken\n");
        word.await.expect("somebody should read");
    };
    let waiting = shells.wait_for_exit(&terminal);
    let (ended, ()) = guarded(async { tokio::join!(waiting, speak) }).await;
    assert_eq!(ended.expect("its end"), code(0));
    let output = guarded(shells.output(&terminal)).await.expect("its output");
    let expected = TerminalOutput {
        text: "added\nspoken\n".to_owned(),
        truncated: false,
        exit: Some(code(0)),
    };
    assert_eq!(output, expected);
    guarded(shells.release(&terminal)).await.expect("released");
    let absent = guarded(shells.kill(&TerminalId::new("term-9"))).await;
    assert!(matches!(absent, Err(ShellError::NotFound(id)) if id.as_str() == "term-9"));
    run.end(link).await;
}

#[tokio::test]
async fn last_words_say_what_the_next_host_did_not_hear() {
    let run = Run::start().await;
    let mut link = run.connect(0, Vec::new()).await;
    run.launch(&link, ECHO).await;
    let name = WriteId::Line(3);
    let written = link
        .sender
        .write(vec![to_write(name.clone(), WriteKind::Allow, "one")]);
    guarded(written).await.expect("written");
    assert_eq!(next(&mut link).await, Some(line(10, "heard one")));
    drop(link);
    let pid = i32::try_from(run.runner.pid).expect("a number");
    let pid = Pid::from_raw(pid).expect("a process");
    kill_process(pid, Signal::TERM).expect("it should live");
    wait_until_reaped(run.runner).await;
    let gone = guarded(connect(&run.record, run.runner, 0, Vec::new())).await;
    assert!(matches!(gone, Err(LinkError::Gone)));
    let words = read_exit_report(&run.record.folder).expect("its folder");
    let mut link = words.expect("its last words").into_link(0);
    assert_eq!(next(&mut link).await, Some(line(10, "heard one")));
    let why = Some("the runner was told to end".to_owned());
    let exit = code(0);
    assert_eq!(next(&mut link).await, Some(LinkEvent::Exited { exit, why }));
    assert_eq!(next(&mut link).await, None);
    let again = link
        .sender
        .write(vec![to_write(name.clone(), WriteKind::Deny, "no")]);
    assert_eq!(
        guarded(again).await,
        Ok(vec![receipt(name, WriteKind::Allow)])
    );
}

#[tokio::test]
async fn ending_what_is_left_leaves_nothing_of_the_agent() {
    let run = Run::start().await;
    let mut link = run.connect(0, Vec::new()).await;
    let fifo = run.dir.path().join("fifo");
    // Without the mark, so that only its descent tells.
    let daemon = daemonise(&fifo.display().to_string(), "env -u COUNTERSIGN_TREE");
    let agent = run.launch(&link, &format!("{daemon}; {ECHO}")).await;
    let Some(LinkEvent::Line { bytes, .. }) = next(&mut link).await else {
        panic!("the daemon's number should come");
    };
    let daemon = String::from_utf8(bytes).expect("a number");
    let daemon = key_of(daemon.parse().expect("a number"));
    let ended = guarded(end_orphan(&run.record, Some(run.runner))).await;
    assert_eq!(ended.expect("all ended"), 3);
    assert!(!is_alive(agent) && !is_alive(daemon) && !is_alive(run.runner));
    assert_eq!(next(&mut link).await, Some(LinkEvent::Lost));
}

#[tokio::test]
async fn much_that_is_said_at_once_comes_whole() {
    let run = Run::start().await;
    let mut link = run.connect(0, Vec::new()).await;
    run.launch(&link, "seq 300000; kill -KILL $$").await;
    let mut number = 0;
    for count in 1..=300_000_u32 {
        let text = count.to_string();
        number += text.len() as u64 + 1;
        assert_eq!(next(&mut link).await, Some(line(number, &text)));
        if count % 1_000 == 0 {
            link.sender.committed(number, Vec::new());
        }
    }
    assert_eq!(next(&mut link).await, Some(exited(signal("SIGKILL"))));
    run.end(link).await;
}
