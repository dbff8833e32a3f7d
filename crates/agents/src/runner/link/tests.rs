//! The link with the runner's part played by hand.

use std::path::PathBuf;
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use tempfile::TempDir;
use tokio::io::BufReader;
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::*;
use crate::procfs;
use crate::runner::frame::{read_frame, write_frame};
use crate::runner::wire::{
    ShellCall, ShellFailure, ShellReply, VERSION, VERSION_OLDEST, WriteHeader, WriteStatus,
};
use crate::runner::{ExitReport, RunnerRecord};
use crate::shells::KeptTerminals;
use crate::tree::{ContainmentMethod, TreeRecord};

/// Far more than anything here takes, so that a test that waits in vain ends.
const GUARD: Duration = Duration::from_mins(2);

async fn guarded<T>(work: impl Future<Output = T>) -> T {
    timeout(GUARD, work)
        .await
        .expect("it should not take that long")
}

/// The runner's end.
struct Runner {
    reader: link_reader::SocketReader,
    writer: OwnedWriteHalf,
}

impl Runner {
    fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        let reader = BufReader::new(reader);
        Self { reader, writer }
    }

    async fn say(&mut self, head: &ToHost, body: &[u8]) {
        let said = write_frame(&mut self.writer, head, body);
        guarded(said).await.expect("the host should listen");
    }

    async fn output(&mut self, at: u64, body: &str) {
        self.say(&ToHost::Output { at }, body.as_bytes()).await;
    }

    async fn written(&mut self, name: WriteId, kind: WriteKind, outcome: WriteStatus) {
        let written = ToHost::Written {
            id: name,
            kind,
            outcome,
        };
        self.say(&written, &[]).await;
    }

    /// Nothing once the host has gone.
    async fn hear(&mut self) -> Option<(ToRunner, Vec<u8>)> {
        guarded(read_frame(&mut self.reader)).await.unwrap_or(None)
    }
}

struct Ends {
    events: mpsc::Receiver<LinkEvent>,
    line: Arc<LinkOutbox>,
    runner: Runner,
}

fn open(heard: u64) -> Ends {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let (reader, writer) = ours.into_split();
    let (events, line) = link_reader::begin(BufReader::new(reader), writer, heard);
    let runner = Runner::new(theirs);
    Ends {
        events,
        line,
        runner,
    }
}

async fn next(events: &mut mpsc::Receiver<LinkEvent>) -> Option<LinkEvent> {
    guarded(events.recv()).await
}

async fn rest(mut events: mpsc::Receiver<LinkEvent>) -> Vec<LinkEvent> {
    let mut all = Vec::new();
    while let Some(event) = next(&mut events).await {
        all.push(event);
    }
    all
}

fn line(number: u64, text: &str) -> LinkEvent {
    let bytes = text.into();
    LinkEvent::Line { number, bytes }
}

fn exited() -> LinkEvent {
    LinkEvent::Exited {
        exit: exit(),
        why: None,
    }
}

fn exit() -> ProcessExit {
    ProcessExit {
        code: Some(3),
        signal: None,
    }
}

fn to_write(number: u64, kind: WriteKind, text: &str) -> AgentWrite {
    AgentWrite {
        id: WriteId::Line(number),
        kind,
        bytes: text.into(),
    }
}

fn receipt(number: u64, kind: WriteKind) -> WriteReceipt {
    WriteReceipt {
        id: WriteId::Line(number),
        kind,
    }
}

fn own_key() -> ProcessKey {
    let pid = std::process::id();
    let start_time = procfs::read_stat(pid).map_or(0, |stat| stat.start_time);
    ProcessKey { pid, start_time }
}

#[tokio::test]
async fn lines_have_the_number_of_the_byte_after_them() {
    let mut ends = open(100);
    ends.runner.output(100, "one\ntw").await;
    let log = ToHost::Log {
        text: "a word".to_owned(),
    };
    ends.runner.say(&log, &[]).await;
    ends.runner.output(106, "o\n\nhalf").await;
    let end = ToHost::Exited {
        exit: exit(),
        why: None,
    };
    ends.runner.say(&end, &[]).await;
    drop(ends.runner);
    let expected = [
        line(104, "one"),
        LinkEvent::Log("a word".to_owned()),
        line(108, "two"),
        line(109, ""),
        line(113, "half"),
        exited(),
    ];
    assert_eq!(rest(ends.events).await, expected);
}

#[tokio::test]
async fn a_line_over_the_bound_is_dropped_with_its_number() {
    let mut ends = open(0);
    let long = limits::AGENT_LINE_BYTES_MAX + 1;
    let mut bytes = vec![b'x'; long];
    bytes.extend_from_slice(b"\nok\n");
    let events = tokio::task::LocalSet::new();
    let taken = events.run_until(async {
        let taking = tokio::task::spawn_local(rest(ends.events));
        ends.runner.say(&ToHost::Output { at: 0 }, &bytes).await;
        drop(ends.runner);
        guarded(taking).await.expect("events")
    });
    let number = long as u64 + 1;
    let oversized = LinkEvent::Oversized {
        number,
        bytes: long as u64,
    };
    let expected = [oversized, line(number + 3, "ok"), LinkEvent::Lost];
    assert_eq!(taken.await, expected);
}

#[tokio::test]
async fn what_is_not_next_cuts_the_link() {
    for at in [0, 4] {
        let mut ends = open(0);
        ends.runner.output(0, "a\n").await;
        ends.runner.output(at, "b\n").await;
        assert_eq!(rest(ends.events).await, [line(2, "a"), LinkEvent::Lost]);
        assert_eq!(ends.runner.hear().await, None);
    }
}

#[tokio::test]
async fn a_half_line_is_no_line_when_the_link_is_lost() {
    let mut ends = open(0);
    ends.runner.output(0, "a\nhalf").await;
    drop(ends.runner);
    assert_eq!(rest(ends.events).await, [line(2, "a"), LinkEvent::Lost]);
}

#[tokio::test]
async fn lines_are_written_in_order_and_receipts_say_what_was() {
    let mut ends = open(0);
    let first = vec![
        to_write(5, WriteKind::Allow, "yes\n"),
        to_write(9, WriteKind::Unspecified, "more\n"),
    ];
    let first = ends.line.write(first);
    let second = ends.line.write(vec![to_write(7, WriteKind::Deny, "no\n")]);
    let item = |number, kind: WriteKind, bytes| WriteHeader {
        id: WriteId::Line(number),
        kind,
        bytes,
    };
    let items = vec![
        item(5, WriteKind::Allow, 4),
        item(9, WriteKind::Unspecified, 5),
    ];
    let expected = (ToRunner::Write { items }, b"yes\nmore\n".to_vec());
    assert_eq!(ends.runner.hear().await, Some(expected));
    let items = vec![item(7, WriteKind::Deny, 3)];
    let expected = (ToRunner::Write { items }, b"no\n".to_vec());
    assert_eq!(ends.runner.hear().await, Some(expected));
    let names = [
        (5, WriteKind::Deny),
        (9, WriteKind::Unspecified),
        (7, WriteKind::Deny),
    ];
    for (number, kind) in names {
        let name = WriteId::Line(number);
        ends.runner.written(name, kind, WriteStatus::Written).await;
    }
    let receipts = vec![
        receipt(5, WriteKind::Deny),
        receipt(9, WriteKind::Unspecified),
    ];
    assert_eq!(guarded(first).await, Ok(receipts));
    assert_eq!(guarded(second).await, Ok(vec![receipt(7, WriteKind::Deny)]));
    assert_eq!(guarded(ends.line.write(Vec::new())).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_write_is_gone_with_the_agent_and_lost_with_the_link() {
    let mut ends = open(0);
    let both = vec![
        to_write(1, WriteKind::Unspecified, "a\n"),
        to_write(2, WriteKind::Unspecified, "b\n"),
    ];
    let gone = ends.line.write(both);
    let written = WriteStatus::Written;
    ends.runner
        .written(WriteId::Line(1), WriteKind::Unspecified, written)
        .await;
    ends.runner
        .written(WriteId::Line(2), WriteKind::Unspecified, WriteStatus::Gone)
        .await;
    assert_eq!(guarded(gone).await, Err(WriteError::Gone));
    let lost = ends
        .line
        .write(vec![to_write(3, WriteKind::Unspecified, "c\n")]);
    drop(ends.runner);
    assert_eq!(guarded(lost).await, Err(WriteError::Lost));
    assert_eq!(rest(ends.events).await, [LinkEvent::Lost]);
    let late = ends
        .line
        .write(vec![to_write(4, WriteKind::Unspecified, "d\n")]);
    assert_eq!(guarded(late).await, Err(WriteError::Lost));
    let name = WriteId::Line(4);
    assert_eq!(ends.line.claim(name).await, Err(WriteError::Lost));
    guarded(ends.line.bye()).await;
}

#[tokio::test]
async fn a_confirmation_of_what_was_not_said_cuts_the_link() {
    let mut ends = open(0);
    let written = ends
        .line
        .write(vec![to_write(1, WriteKind::Unspecified, "a\n")]);
    let outcome = WriteStatus::Written;
    ends.runner
        .written(WriteId::Line(2), WriteKind::Unspecified, outcome)
        .await;
    assert_eq!(guarded(written).await, Err(WriteError::Lost));
    assert_eq!(rest(ends.events).await, [LinkEvent::Lost]);
}

#[tokio::test]
async fn what_waits_to_be_confirmed_is_bounded() {
    let mut ends = open(0);
    let half = "x".repeat(limits::AGENT_WRITE_BYTES_QUEUED / 2);
    let first = ends
        .line
        .write(vec![to_write(1, WriteKind::Unspecified, &half)]);
    let second = ends
        .line
        .write(vec![to_write(2, WriteKind::Unspecified, &half)]);
    let full = ends
        .line
        .write(vec![to_write(3, WriteKind::Unspecified, "x")]);
    assert_eq!(guarded(full).await, Err(WriteError::Full));
    for number in [1, 2] {
        let (_, body) = ends.runner.hear().await.expect("a write");
        assert!(body == half.as_bytes());
        let name = WriteId::Line(number);
        ends.runner
            .written(name, WriteKind::Unspecified, WriteStatus::Written)
            .await;
    }
    assert_eq!(
        guarded(first).await,
        Ok(vec![receipt(1, WriteKind::Unspecified)])
    );
    assert_eq!(
        guarded(second).await,
        Ok(vec![receipt(2, WriteKind::Unspecified)])
    );
    let third = ends
        .line
        .write(vec![to_write(3, WriteKind::Unspecified, "x")]);
    ends.runner
        .written(
            WriteId::Line(3),
            WriteKind::Unspecified,
            WriteStatus::Written,
        )
        .await;
    assert_eq!(
        guarded(third).await,
        Ok(vec![receipt(3, WriteKind::Unspecified)])
    );
}

#[tokio::test]
async fn the_newest_commit_goes_out_after_what_was_written_before() {
    let mut ends = open(0);
    let much = "x".repeat(4 * 1024 * 1024);
    let written = ends
        .line
        .write(vec![to_write(1, WriteKind::Unspecified, &much)]);
    ends.line.committed(10, vec![4]);
    ends.line.committed(20, vec![4, 12]);
    let (head, _) = ends.runner.hear().await.expect("the write");
    assert!(matches!(head, ToRunner::Write { .. }));
    let newest = ToRunner::Committed {
        through: 20,
        open: vec![4, 12],
    };
    assert_eq!(ends.runner.hear().await, Some((newest, Vec::new())));
    drop(written);
    ends.line.stop(Duration::from_millis(70));
    guarded(ends.line.bye()).await;
    let stop = ToRunner::Stop { grace_ms: 70 };
    assert_eq!(ends.runner.hear().await, Some((stop, Vec::new())));
    assert_eq!(ends.runner.hear().await, Some((ToRunner::Bye, Vec::new())));
}

#[tokio::test]
async fn answers_come_while_nobody_takes_what_the_agent_says() {
    let mut ends = open(0);
    let lines = 4 * limits::AGENT_LINES_QUEUED;
    let text = "x\n".repeat(lines);
    ends.runner.output(0, &text).await;
    let written = ends
        .line
        .write(vec![to_write(1, WriteKind::Unspecified, "a\n")]);
    let outcome = WriteStatus::Written;
    ends.runner
        .written(WriteId::Line(1), WriteKind::Served, outcome)
        .await;
    assert_eq!(
        guarded(written).await,
        Ok(vec![receipt(1, WriteKind::Served)])
    );
    drop(ends.runner);
    let mut expected: Vec<_> = (1..=lines as u64).map(|n| line(2 * n, "x")).collect();
    expected.push(LinkEvent::Lost);
    assert_eq!(rest(ends.events).await, expected);
}

#[tokio::test]
async fn a_host_that_takes_nothing_makes_the_runner_wait() {
    let Ends {
        events,
        line: _line,
        mut runner,
    } = open(0);
    let chunk = "\n".repeat(1024 * 1024);
    let mut at = 0;
    while at < limits::LINK_BYTES_WAITING_MAX {
        runner.output(at as u64, &chunk).await;
        at += chunk.len();
    }
    // One frame may be taken beyond the bound, and a part of another lies in the sockets.
    for _ in 0..3 {
        let more = ToHost::Output { at: at as u64 };
        let body = chunk.as_bytes();
        let saying = write_frame(&mut runner.writer, &more, body);
        if timeout(Duration::from_millis(100), saying).await.is_err() {
            drop(events);
            assert_eq!(runner.hear().await, None);
            return;
        }
        at += chunk.len();
    }
    panic!("the host took {at} bytes that nobody wanted");
}

#[tokio::test]
async fn a_launch_a_claim_and_calls_are_answered() {
    let mut ends = open(0);
    let process = own_key();
    let launch = ends
        .line
        .launch("a".into(), Vec::new(), "/".into(), Vec::new(), None);
    let play = async {
        let launch = ToRunner::Launch(LaunchRequest {
            confinement: None,
            program: "a".into(),
            args: Vec::new(),
            cwd: PathBuf::from("/"),
            env: Vec::new(),
        });
        assert_eq!(ends.runner.hear().await, Some((launch, Vec::new())));
        ends.runner.say(&ToHost::Launched { process }, &[]).await;
    };
    let (launched, ()) = tokio::join!(guarded(launch), play);
    assert_eq!(launched, Ok(process));

    let name = WriteId::Own("prompt".to_owned(), 3);
    let claim = ends.line.claim(name.clone());
    let play = async {
        let claim = ToRunner::Claim { id: 1, name };
        assert_eq!(ends.runner.hear().await, Some((claim, Vec::new())));
        let claimed = ToHost::Claimed { id: 1, fresh: true };
        ends.runner.say(&claimed, &[]).await;
    };
    let (claimed, ()) = tokio::join!(guarded(claim), play);
    assert_eq!(claimed, Ok(true));

    let terminal = "term-1".to_owned();
    let call = ShellCall::Output { terminal };
    let calling = ends.line.call(call.clone());
    let play = async {
        let asked = ToRunner::Shell { id: 2, call };
        assert_eq!(ends.runner.hear().await, Some((asked, Vec::new())));
        let reply = ToHost::Shell {
            id: 2,
            result: Ok(output()),
        };
        ends.runner.say(&reply, b"text").await;
    };
    let (called, ()) = tokio::join!(guarded(calling), play);
    assert_eq!(called, Ok((output(), b"text".to_vec())));
}

fn output() -> ShellReply {
    ShellReply::Output {
        truncated: false,
        exit: None,
    }
}

#[tokio::test]
async fn everybody_who_waits_is_told_when_the_link_is_lost() {
    let ends = open(0);
    let runner = ends.runner;
    let launch = ends
        .line
        .launch("a".into(), Vec::new(), "/".into(), Vec::new(), None);
    let claim = ends.line.claim(WriteId::Line(1));
    let call = ends.line.call(ShellCall::Kill {
        terminal: "term-1".to_owned(),
    });
    let leave = async move {
        let mut runner = runner;
        for _ in 0..3 {
            assert!(runner.hear().await.is_some());
        }
    };
    let (launched, claimed, called, ()) =
        guarded(async { tokio::join!(launch, claim, call, leave) }).await;
    assert_eq!(launched, Err(LaunchRefused::lost()));
    assert_eq!(claimed, Err(WriteError::Lost));
    let words = WriteError::Lost.to_string();
    assert_eq!(called, Err(ShellFailure::Failed(words)));
}

#[tokio::test]
async fn last_words_are_heard_as_if_the_runner_lived() {
    let own = |number| WriteId::Own("prompt".to_owned(), number);
    let words = ExitReport {
        from: 10,
        output: b"old\nnew\nhalf".to_vec(),
        exit: exit(),
        why: Some("no host came".to_owned()),
        log: "its log".to_owned(),
        written: vec![
            (WriteId::Line(4), WriteKind::Deny),
            (own(7), WriteKind::Unspecified),
        ],
        terminals: KeptTerminals::default(),
    };
    let link = words.into_link(14);
    assert_eq!((link.agent, link.log.as_str()), (None, "its log"));
    let exited = LinkEvent::Exited {
        exit: exit(),
        why: Some("no host came".to_owned()),
    };
    let expected = [line(18, "new"), line(22, "half"), exited];
    assert_eq!(rest(link.events).await, expected);
    let written = link
        .sender
        .write(vec![to_write(4, WriteKind::Allow, "yes\n")]);
    assert_eq!(written.await, Ok(vec![receipt(4, WriteKind::Deny)]));
    let gone = vec![
        to_write(4, WriteKind::Allow, "yes\n"),
        to_write(5, WriteKind::Allow, "yes\n"),
    ];
    assert_eq!(link.sender.write(gone).await, Err(WriteError::Gone));
    let prompt = |number| AgentWrite {
        id: own(number),
        kind: WriteKind::Unspecified,
        bytes: b"go\n".to_vec(),
    };
    let id = own(6);
    let earlier = link.sender.write(vec![prompt(6)]).await;
    assert_eq!(
        earlier,
        Ok(vec![WriteReceipt {
            id,
            kind: WriteKind::Unspecified
        }])
    );
    let later = link.sender.write(vec![prompt(8)]).await;
    assert_eq!(later, Err(WriteError::Gone));
    assert_eq!(link.sender.claim(WriteId::Line(9)).await, Ok(false));
    guarded(link.sender.bye()).await;
}

fn record(dir: &TempDir) -> RunnerRecord {
    RunnerRecord {
        tree: TreeRecord {
            containment: ContainmentMethod::Marks { why: String::new() },
            mark: "0".to_owned(),
        },
        folder: dir.path().to_owned(),
        sockets: vec![dir.path().join("absent"), dir.path().join("there")],
        patience_ms: 1,
        protocol: countersign_core::event::Protocol::Acp,
    }
}

async fn accept(listener: &UnixListener) -> Runner {
    let (stream, _) = guarded(listener.accept()).await.expect("a caller");
    Runner::new(stream)
}

#[tokio::test]
async fn a_runner_is_reached_at_whichever_socket_it_has() {
    let dir = TempDir::new().expect("a folder");
    let record = record(&dir);
    let listener = UnixListener::bind(&record.sockets[1]).expect("a socket");
    let play = async {
        // The first call is cut, as when a runner is busy with an earlier host.
        drop(accept(&listener).await);
        let mut runner = accept(&listener).await;
        let hello = ToRunner::Hello {
            oldest: VERSION_OLDEST,
            newest: VERSION,
            heard: 40,
            open: vec![12],
        };
        assert_eq!(runner.hear().await, Some((hello, Vec::new())));
        let hello = ToHost::Hello {
            version: VERSION,
            agent: Some(own_key()),
            log: "said before".to_owned(),
        };
        runner.say(&hello, &[]).await;
        runner.output(40, "a\n").await;
    };
    let connecting = guarded(connect(&record, own_key(), 40, vec![12]));
    let (link, ()) = tokio::join!(connecting, play);
    let link = link.expect("a link");
    assert_eq!(link.agent, Some(own_key()));
    assert_eq!(link.log, "said before");
    assert_eq!(rest(link.events).await, [line(42, "a"), LinkEvent::Lost]);
}

#[tokio::test]
async fn a_refusal_is_passed_on() {
    let dir = TempDir::new().expect("a folder");
    let record = record(&dir);
    let listener = UnixListener::bind(&record.sockets[0]).expect("a socket");
    let play = async {
        let why = "not you".to_owned();
        let mut runner = accept(&listener).await;
        runner.say(&ToHost::Refused { why }, &[]).await;
        runner
    };
    let connecting = guarded(connect(&record, own_key(), 0, Vec::new()));
    let (link, _runner) = tokio::join!(connecting, play);
    assert!(matches!(link, Err(LinkError::Refused(why)) if why == "not you"));
}

#[tokio::test]
async fn a_process_that_is_not_there_is_gone_whoever_listens() {
    let dir = TempDir::new().expect("a folder");
    let record = record(&dir);
    let listener = UnixListener::bind(&record.sockets[0]).expect("a socket");
    let earlier = ProcessKey {
        start_time: own_key().start_time + 1,
        ..own_key()
    };
    let link = guarded(connect(&record, earlier, 0, Vec::new())).await;
    assert!(matches!(link, Err(LinkError::Gone)));
    // Nothing was said to it.
    assert_eq!(accept(&listener).await.hear().await, None);
}

/// The parent of this test lives and listens nowhere.
#[tokio::test]
async fn another_process_in_the_runners_place_is_told_nothing() {
    let dir = TempDir::new().expect("a folder");
    let record = record(&dir);
    let listener = UnixListener::bind(&record.sockets[0]).expect("a socket");
    let parent = procfs::read_stat(std::process::id())
        .expect("our stat")
        .parent;
    let runner = ProcessKey {
        pid: parent,
        start_time: procfs::read_stat(parent).expect("its stat").start_time,
    };
    let tried = guarded(connect::greet_runner(
        &record.sockets[0],
        runner,
        &ToRunner::Bye,
    ))
    .await;
    assert!(matches!(tried, Err(connect::GreetError::Failed(_))));
    assert_eq!(accept(&listener).await.hear().await, None);
}
