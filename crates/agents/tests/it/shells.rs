//! Terminals.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_agents::{
    CommandSpec, LocalShells, ProcessTree, ShellBackend, ShellError, TerminalId, TerminalOutput,
};
use countersign_core::limits::RELEASED_TERMINALS_KEPT;
use tempfile::TempDir;

use crate::support::{code, daemonise, env, guarded, is_alive, key_of, signal, trees};

/// Each with a key of its own.
fn spec(cwd: &Path, command: &str) -> CommandSpec {
    static KEYS: AtomicU64 = AtomicU64::new(1);
    CommandSpec {
        key: KEYS.fetch_add(1, Ordering::Relaxed),
        command: command.to_owned(),
        cwd: cwd.to_owned(),
        env: Vec::new(),
        output_bytes_max: 1_000,
    }
}

struct Room {
    shells: LocalShells,
    dir: TempDir,
}

impl Room {
    fn new(tree: ProcessTree) -> Self {
        Self {
            shells: LocalShells::new(tree, env()),
            dir: TempDir::new().expect("a folder"),
        }
    }

    fn marks() -> Self {
        Self::new(ProcessTree::create_with_marks().expect("a tree"))
    }

    async fn start(&self, command: &str) -> TerminalId {
        let created = self.shells.create(spec(self.dir.path(), command)).await;
        created.expect("it should start")
    }

    async fn run(&self, command: &str) -> TerminalOutput {
        self.run_spec(spec(self.dir.path(), command)).await
    }

    async fn run_spec(&self, spec: CommandSpec) -> TerminalOutput {
        let id = self.shells.create(spec).await.expect("it should start");
        let exit = guarded(self.shells.wait_for_exit(&id)).await.expect("exit");
        let output = self.output(&id).await;
        assert_eq!(output.exit, Some(exit));
        self.shells.release(&id).await.expect("release");
        output
    }

    async fn output(&self, id: &TerminalId) -> TerminalOutput {
        self.shells.output(id).await.expect("output")
    }

    /// Waits until the output has this many lines.
    async fn lines(&self, id: &TerminalId, count: usize) -> Vec<String> {
        let looking = async {
            loop {
                let output = self.output(id).await;
                if output.text.lines().count() >= count && output.text.ends_with('\n') {
                    return output.text.lines().map(str::to_owned).collect();
                }
                tokio::task::yield_now().await;
            }
        };
        guarded(looking).await
    }
}

fn output(text: &str, exit: countersign_agents::adapter::ProcessExit) -> TerminalOutput {
    TerminalOutput {
        text: text.to_owned(),
        truncated: false,
        exit: Some(exit),
    }
}

#[tokio::test]
async fn a_command_gives_its_output_and_its_code() {
    for tree in trees("codes") {
        let room = Room::new(tree.clone());
        let ran = room.run("echo out; echo err >&2; pwd -P; exit 3").await;
        let cwd = room.dir.path().canonicalize().expect("a real folder");
        let text = format!("out\nerr\n{}\n", cwd.display());
        assert_eq!(ran, output(&text, code(3)));
        assert_eq!(
            room.run("kill -SEGV $$").await,
            output("", signal("SIGSEGV"))
        );
        assert_eq!(room.run("cat").await, output("", code(0)));
        tree.kill_all().await.expect("nothing left");
    }
}

#[tokio::test]
async fn people_read_along_while_a_command_runs_and_after_its_release() {
    const WAIT_MS: u64 = 20_000;
    let room = Room::marks();
    let id = room
        .start("printf one; until [ -e go ]; do sleep 0.01; done; printf two; exit 3")
        .await;
    let read = async |after| {
        let read = room.shells.read_from(&id, after, WAIT_MS);
        let piece = guarded(read).await.expect("output");
        (
            piece.from,
            String::from_utf8(piece.bytes).expect("text"),
            piece.is_end,
        )
    };
    assert_eq!(read(0).await, (0, "one".to_owned(), false));
    let more = tokio::join!(read(3), async {
        std::fs::write(room.dir.path().join("go"), "").expect("a file");
    });
    assert_eq!((more.0.0, more.0.1.as_str()), (3, "two"));
    assert_eq!(read(6).await, (6, String::new(), true));
    guarded(room.shells.wait_for_exit(&id)).await.expect("exit");
    room.shells.release(&id).await.expect("release");
    assert!(matches!(
        room.shells.output(&id).await,
        Err(ShellError::NotFound(_))
    ));
    assert_eq!(read(1).await, (1, "netwo".to_owned(), true));
    let listed = room.shells.list().await.expect("a list");
    let [row] = &listed[..] else {
        panic!("{listed:?}")
    };
    assert_eq!(
        (row.id.as_str(), row.cwd.as_path(), &row.exit),
        (id.as_str(), room.dir.path(), &Some(code(3)))
    );
    assert_eq!((row.bytes, row.first_offset), (6, 0));
    assert!(row.ended_ms >= Some(row.started_ms));
}

#[tokio::test]
async fn only_the_newest_released_terminals_are_kept() {
    let room = Room::marks();
    for _ in 0..RELEASED_TERMINALS_KEPT + 2 {
        room.run("echo x").await;
    }
    let listed = room.shells.list().await.expect("a list");
    let ids: Vec<_> = listed.iter().map(|row| row.id.clone()).collect();
    let kept: Vec<_> = (3..RELEASED_TERMINALS_KEPT + 3)
        .map(|number| format!("term-{number}"))
        .collect();
    assert_eq!(ids, kept);
    let first = TerminalId::new("term-1");
    let read = room.shells.read_from(&first, 0, 0).await;
    assert!(matches!(read, Err(ShellError::NotFound(_))));
}

#[tokio::test]
async fn only_the_environment_that_was_given_is_seen() {
    let room = Room::marks();
    let ran = room.run("env | cut -d= -f1 | grep -v '^_$' | sort").await;
    let names = "COUNTERSIGN_TERMINAL\nCOUNTERSIGN_TREE\nPATH\nPWD\nSHLVL\n";
    assert_eq!(ran, output(names, code(0)));
}

#[tokio::test]
async fn a_gigabyte_is_read_and_its_end_kept() {
    let room = Room::marks();
    let ran = room
        .run("head -c 1000000000 /dev/zero | tr '\\0' x; echo the end")
        .await;
    let text = format!("{}the end\n", "x".repeat(992));
    let expected = TerminalOutput {
        text,
        truncated: true,
        exit: Some(code(0)),
    };
    assert_eq!(ran, expected);
}

#[tokio::test]
async fn invalid_text_does_not_end_the_output() {
    let room = Room::marks();
    let ran = room.run(r"printf 'a\377b\303'; printf 'end'").await;
    assert_eq!(ran, output("a\u{fffd}b\u{fffd}end", code(0)));
}

#[tokio::test]
async fn the_end_does_not_wait_for_who_inherited_the_output() {
    let room = Room::marks();
    let id = room.start("sleep 1000 & echo $!").await;
    let exit = guarded(room.shells.wait_for_exit(&id)).await.expect("exit");
    let left = key_of(room.lines(&id, 1).await[0].parse().expect("a number"));
    assert_eq!((exit, is_alive(left)), (code(0), true));
    room.shells.release(&id).await.expect("release");
    assert!(!is_alive(left));
}

#[tokio::test]
async fn release_ends_a_daemon_of_that_terminal_and_no_other() {
    for tree in trees("release") {
        let room = Room::new(tree.clone());
        let one = room.start(&daemonise("one", "")).await;
        let other = room.start(&daemonise("other", "")).await;
        let daemon = |lines: Vec<String>| key_of(lines[0].parse().expect("a number"));
        let (first, second) = (
            daemon(room.lines(&one, 1).await),
            daemon(room.lines(&other, 1).await),
        );
        room.shells.release(&one).await.expect("release");
        assert_eq!((is_alive(first), is_alive(second)), (false, true));
        tree.kill_all().await.expect("nothing left");
        assert!(!is_alive(second));
    }
}

#[tokio::test]
async fn kill_ends_what_ignores_signals_and_keeps_the_output() {
    for tree in trees("kill") {
        let room = Room::new(tree.clone());
        let command =
            "trap '' TERM HUP INT; echo $$; sleep 1000 & echo $!; while :; do sleep 1000; done";
        let id = room.start(command).await;
        let lines = room.lines(&id, 2).await;
        let keys: Vec<_> = lines
            .iter()
            .map(|line| key_of(line.parse().expect("a number")))
            .collect();
        guarded(room.shells.kill(&id)).await.expect("kill");
        let exit = room.shells.wait_for_exit(&id).await.expect("exit");
        assert_eq!(exit, signal("SIGKILL"));
        let text = format!("{}\n{}\n", keys[0].pid, keys[1].pid);
        assert_eq!(room.output(&id).await, output(&text, signal("SIGKILL")));
        assert_eq!(keys.iter().filter(|key| is_alive(**key)).count(), 0);
        room.shells.kill(&id).await.expect("kill again");
        tree.kill_all().await.expect("nothing left");
    }
}

#[tokio::test]
async fn release_can_be_repeated_and_forgets() {
    let room = Room::marks();
    let id = room.start("sleep 1000").await;
    room.shells.release(&id).await.expect("release");
    room.shells.release(&id).await.expect("release again");
    let gone = |error: ShellError| matches!(error, ShellError::NotFound(named) if named == id);
    assert!(room.shells.output(&id).await.is_err_and(gone));
    assert!(room.shells.wait_for_exit(&id).await.is_err_and(gone));
    assert!(room.shells.kill(&id).await.is_err_and(gone));
    let never = TerminalId::new("term-9");
    assert!(room.shells.release(&never).await.is_err());
}

#[tokio::test]
async fn a_wait_ends_when_its_terminal_is_released() {
    let room = Room::marks();
    let id = room.start("sleep 1000").await;
    let (exit, released) = tokio::join!(
        biased;
        guarded(room.shells.wait_for_exit(&id)),
        guarded(room.shells.release(&id)),
    );
    released.expect("release");
    assert_eq!(exit.expect("exit"), signal("SIGKILL"));
}

#[tokio::test]
async fn what_cannot_start_says_so() {
    let room = Room::marks();
    let error = room
        .shells
        .create(spec(Path::new("/no/such/folder"), "true"));
    let error = error.await.expect_err("there is no such folder");
    assert_eq!(
        error.to_string(),
        "could not run a command in `/no/such/folder`"
    );
    let many = "too many terminals are open; release some".to_owned();
    for _ in 0..128 {
        room.start("exit").await;
    }
    let error = room.shells.create(spec(room.dir.path(), "true")).await;
    assert!(matches!(error, Err(ShellError::NotPermitted(words)) if words == many));
}

#[tokio::test]
async fn nothing_starts_in_a_tree_that_was_ended() {
    for tree in trees("ended") {
        let room = Room::new(tree.clone());
        tree.kill_all().await.expect("nothing there");
        let error = room.shells.create(spec(room.dir.path(), "true")).await;
        assert!(matches!(error, Err(ShellError::Failed { .. })));
    }
}

#[tokio::test]
async fn a_key_starts_one_command_ever() {
    let room = Room::marks();
    let wanted = spec(room.dir.path(), "echo run >>ran; cat ran");
    let first = room
        .shells
        .create(wanted.clone())
        .await
        .expect("a terminal");
    guarded(room.shells.wait_for_exit(&first))
        .await
        .expect("exit");
    let second = room.shells.create(wanted.clone()).await.expect("the same");
    assert_eq!(second, first);
    assert_eq!(room.output(&first).await, output("run\n", code(0)));
    room.shells.release(&first).await.expect("release");
    let third = room.shells.create(wanted).await.expect("the same");
    assert_eq!(third, first);
    assert_eq!(room.run("cat ran").await, output("run\n", code(0)));
}

#[tokio::test]
async fn variables_are_added_to_those_of_the_agent() {
    let room = Room::marks();
    let wanted = CommandSpec {
        env: vec![
            ("ADDED".into(), "yes".into()),
            ("PATH".into(), "/bin".into()),
        ],
        ..spec(room.dir.path(), "echo $ADDED $PATH")
    };
    assert_eq!(room.run_spec(wanted).await, output("yes /bin\n", code(0)));
}
