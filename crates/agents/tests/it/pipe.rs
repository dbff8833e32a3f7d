//! The pipe to an agent's process.

use std::path::PathBuf;
use std::time::Duration;

use countersign_agents::adapter::ProcessExit;
use countersign_agents::{
    AgentPipe, AgentProcess, LaunchError, LaunchSpec, PipeEvent, PipeWriteError, ProcessTree,
    launch,
};

use crate::support::{code, env, guarded, is_alive, key_of, signal, trees};

fn spec<'a>(tree: &'a ProcessTree, script: &str) -> LaunchSpec<'a> {
    LaunchSpec {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: "/".into(),
        env: env(),
        tree,
    }
}

fn start(tree: &ProcessTree, script: &str) -> (AgentPipe, AgentProcess) {
    launch(&spec(tree, script)).expect("it should start")
}

fn marks() -> ProcessTree {
    ProcessTree::create_with_marks().expect("a tree")
}

async fn next(pipe: &mut AgentPipe) -> PipeEvent {
    guarded(pipe.events.recv()).await.expect("an event")
}

/// Everything up to the end, which must be the end.
async fn rest(pipe: &mut AgentPipe) -> Vec<PipeEvent> {
    let mut events = Vec::new();
    while let Some(event) = guarded(pipe.events.recv()).await {
        events.push(event);
    }
    events
}

fn line(text: &str) -> PipeEvent {
    PipeEvent::Line(text.into())
}

fn exited(exit: ProcessExit) -> PipeEvent {
    PipeEvent::Exited(exit)
}

#[tokio::test]
async fn lines_come_in_order_and_the_exit_last() {
    for tree in trees("order") {
        let (mut pipe, process) = start(&tree, r"printf 'one\ntwo\r\n\nhalf'; exit 7");
        let expected = [
            line("one"),
            line("two\r"),
            line(""),
            line("half"),
            exited(code(7)),
        ];
        assert_eq!(rest(&mut pipe).await, expected);
        process.stop(Duration::ZERO).await.expect("nothing left");
    }
}

#[tokio::test]
async fn what_is_written_is_read_and_closing_ends_it() {
    let tree = marks();
    let (mut pipe, _process) = start(&tree, "cat; echo closed >&2");
    let written = pipe.writer.write(b"hello\n".to_vec());
    assert_eq!(guarded(written).await, Ok(()));
    assert_eq!(next(&mut pipe).await, line("hello"));
    let last = pipe.writer.write(b"last\n".to_vec());
    pipe.writer.close();
    assert_eq!(guarded(last).await, Ok(()));
    let late = pipe.writer.write(b"late\n".to_vec());
    assert_eq!(late.await, Err(PipeWriteError::Closed));
    let events = rest(&mut pipe).await;
    let lines: Vec<_> = events
        .iter()
        .filter(|event| matches!(event, PipeEvent::Line(_)))
        .collect();
    assert_eq!(lines, [&line("last")]);
    assert!(events.contains(&PipeEvent::Stderr("closed".into())));
    assert_eq!(events.last(), Some(&exited(code(0))));
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_still_heard() {
    let tree = marks();
    let (mut pipe, process) = start(&tree, "while :; do echo tick; done");
    let stuck = pipe.writer.write(vec![b'x'; 1024 * 1024]);
    for _ in 0..10_000 {
        assert_eq!(next(&mut pipe).await, line("tick"));
    }
    let too_much = pipe.writer.write(vec![b'x'; 40 * 1024 * 1024]);
    assert_eq!(too_much.await, Err(PipeWriteError::Full));
    let stopping = async {
        let exit = guarded(process.stop(Duration::ZERO)).await;
        exit.expect("nothing left")
    };
    let (exit, events) = tokio::join!(stopping, rest(&mut pipe));
    assert_eq!(events.last(), Some(&exited(exit)));
    assert_eq!(stuck.await, Err(PipeWriteError::Gone));
}

#[tokio::test]
async fn a_line_too_long_is_dropped_and_the_next_is_whole() {
    let tree = marks();
    let script = "head -c 17000000 /dev/zero | tr '\\0' x; echo; echo ok";
    let (mut pipe, _process) = start(&tree, script);
    let events = rest(&mut pipe).await;
    let dropped = PipeEvent::Oversized { bytes: 17_000_000 };
    assert_eq!(events, [dropped, line("ok"), exited(code(0))]);
}

#[tokio::test]
async fn long_lines_survive() {
    let tree = marks();
    let script = "for n in 1 2 3; do head -c 5000000 /dev/zero | tr '\\0' $n; echo; done";
    let (mut pipe, _process) = start(&tree, script);
    let events = rest(&mut pipe).await;
    let long = |letter: &str| line(&letter.repeat(5_000_000));
    // Not compared by a macro that would print them.
    assert!(events == [long("1"), long("2"), long("3"), exited(code(0))]);
}

#[tokio::test]
async fn the_exit_does_not_wait_for_who_inherited_the_pipes() {
    let tree = marks();
    let (mut pipe, process) = start(&tree, "sleep 1000 & echo $!; exit 4");
    let PipeEvent::Line(pid) = next(&mut pipe).await else {
        panic!("a line should come first")
    };
    let pid = String::from_utf8(pid).expect("text");
    let left = key_of(pid.parse().expect("a number"));
    assert_eq!(rest(&mut pipe).await, [exited(code(4))]);
    assert!(is_alive(left));
    let exit = process.stop(Duration::ZERO).await.expect("nothing left");
    assert_eq!((exit, is_alive(left)), (code(4), false));
}

#[tokio::test]
async fn a_slow_reader_loses_nothing() {
    let tree = marks();
    let (mut pipe, process) = start(&tree, "seq 20000");
    // It cannot end before most of it was taken.
    let mut events = vec![next(&mut pipe).await];
    events.extend(rest(&mut pipe).await);
    let mut expected: Vec<_> = (1..=20_000).map(|n: u32| line(&n.to_string())).collect();
    expected.push(exited(code(0)));
    assert!(events == expected);
    process.stop(Duration::ZERO).await.expect("nothing left");
}

#[tokio::test]
async fn stopping_asks_before_it_kills() {
    let grace = Duration::from_millis(300);
    let tree = marks();
    let (_pipe, process) = start(&tree, "cat; exit 5");
    assert_eq!(
        process.stop(Duration::from_mins(1)).await.expect("end"),
        code(5)
    );
    let tree = marks();
    let (mut pipe, process) = start(
        &tree,
        "trap 'exit 6' TERM; echo up; while :; do sleep 0.01; done",
    );
    assert_eq!(next(&mut pipe).await, line("up"));
    let stopped = guarded(process.stop(Duration::from_secs(2))).await;
    assert_eq!(stopped.expect("end"), code(6));
    let tree = marks();
    let (mut pipe, process) = start(&tree, "trap '' TERM; echo up; while :; do sleep 0.01; done");
    assert_eq!(next(&mut pipe).await, line("up"));
    let stopped = guarded(process.stop(grace)).await;
    assert_eq!(stopped.expect("end"), signal("SIGKILL"));
}

#[tokio::test]
async fn a_program_that_cannot_start_says_what_to_do() {
    let tree = marks();
    let absent = LaunchSpec {
        program: "no-such-agent".into(),
        ..spec(&tree, "")
    };
    let error = launch(&absent).expect_err("there is none");
    let words = "there is no program `no-such-agent`; install it, put its folder on PATH, or give \
                 its whole path";
    assert_eq!(error.to_string(), words);
    let forbidden = LaunchSpec {
        program: "/etc/passwd".into(),
        ..spec(&tree, "")
    };
    let error = launch(&forbidden).expect_err("it is no program");
    assert!(matches!(error, LaunchError::NotPermitted { .. }));
    let nowhere = LaunchSpec {
        cwd: "/no/such/folder".into(),
        ..spec(&tree, "")
    };
    let error = launch(&nowhere).expect_err("there is no such folder");
    let expected = PathBuf::from("/no/such/folder");
    assert!(matches!(error, LaunchError::BadFolder { cwd, .. } if cwd == expected));
}

#[tokio::test]
async fn a_process_leads_its_session_and_is_known_by_its_start() {
    let tree = marks();
    let (mut pipe, process) = start(&tree, "echo $$; cut -d' ' -f5,6 /proc/$$/stat; cat");
    let pid = process.key().pid;
    assert_eq!(next(&mut pipe).await, line(&pid.to_string()));
    assert_eq!(next(&mut pipe).await, line(&format!("{pid} {pid}")));
    assert_eq!(process.key(), key_of(pid));
    process.stop(Duration::ZERO).await.expect("nothing left");
    assert!(!is_alive(process.key()));
}
