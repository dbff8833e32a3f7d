//! A person's own terminals, each under a real runner.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use countersign_agents::own_terminal::{
    OwnTerminal, OwnTerminalProgram, OwnTerminalStart, TerminalSize, end_left_over, find_left,
    new_id, start,
};
use tempfile::TempDir;

use crate::support::{guarded, is_alive};

const SIZE: TerminalSize = TerminalSize {
    columns: 80,
    rows: 24,
};

fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    built.join("examples/runner")
}

struct Opened {
    terminal: OwnTerminal,
    dir: TempDir,
}

async fn open(command: &str) -> Opened {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("own");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .unwrap();
    let host = [
        ("SHELL", "/bin/sh"),
        ("PATH", "/usr/bin:/bin"),
        ("COUNTERSIGN_TOKEN", "secret"),
        ("TMUX", "x"),
    ];
    let host = host.map(|(name, value)| (name.into(), value.into()));
    let terminal = start(OwnTerminalStart {
        command: vec![program().into()],
        id: new_id().unwrap(),
        sockets: vec![folder.clone()],
        folder,
        host_lock: None,
        program: OwnTerminalProgram::of_person(Some(command), host.into_iter()),
        title: command.to_owned(),
        cwd: "/tmp".into(),
        size: SIZE,
    })
    .await
    .unwrap();
    Opened { terminal, dir }
}

async fn read_to_end(terminal: &OwnTerminal) -> Vec<u8> {
    let mut output = Vec::new();
    loop {
        let after = output.len() as u64;
        let piece = terminal.read(after, 10_000).await.unwrap();
        output.extend(piece.bytes);
        if piece.is_end {
            return output;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_has_a_terminal_of_its_size_and_no_secret_of_the_host() {
    guarded(async {
        let opened = open("stty size; tty >/dev/null && echo terminal; env | grep -c 'COUNTERSIGN_TOKEN\\|TMUX'; exit 3").await;
        let terminal = &opened.terminal;
        let output = read_to_end(terminal).await;
        assert_eq!(String::from_utf8_lossy(&output), "24 80\r\nterminal\r\n0\r\n");
        let status = terminal.wait_for_exit(10_000).await.unwrap();
        assert_eq!(status.summary.exit.unwrap().code, Some(3));
        assert_eq!(status.size, SIZE);
        // It stays to be read until it is closed.
        assert_eq!(read_to_end(terminal).await, output);
        let folder = opened.dir.path().join("own");
        let (living, over) = find_left(&folder);
        assert_eq!((living.len(), over.len()), (1, 0));
        terminal.close().await.unwrap();
        end_left_over(&terminal.record).await.unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_and_input_have_bounds() {
    guarded(async {
        let opened = open("head -c 3000000 /dev/zero | tr '\\0' x; stty -echo -icanon; echo; echo ready; sleep 1000").await;
        let terminal = &opened.terminal;
        let mut after = 0;
        loop {
            let piece = terminal.read(after, 10_000).await.unwrap();
            after = piece.from + piece.bytes.len() as u64;
            if piece.bytes.ends_with(b"ready\r\n") {
                break;
            }
        }
        let status = terminal.status().await.unwrap();
        assert!(status.summary.bytes > 3_000_000);
        assert_eq!(status.summary.bytes - status.summary.first_offset, 1024 * 1024);
        // Nobody reads what is typed.
        let typed = vec![b'x'; 64 * 1024];
        let mut taken = 0;
        loop {
            let written = terminal.write(&typed).await.unwrap();
            taken += written;
            if written < 64 * 1024 {
                break;
            }
        }
        assert!((256 * 1024..400 * 1024).contains(&taken), "{taken}");
        terminal.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_runner_left_is_found_and_ended() {
    guarded(async {
        let opened =
            open("(setsid sh -c 'echo started; exec sleep 1000' &); exec sleep 1000").await;
        let terminal = &opened.terminal;
        assert_eq!(
            terminal.read(0, 10_000).await.unwrap().bytes,
            b"started\r\n"
        );
        let runner =
            rustix::process::Pid::from_raw(terminal.runner.pid.try_into().unwrap()).unwrap();
        rustix::process::kill_process(runner, rustix::process::Signal::KILL).unwrap();
        while is_alive(terminal.runner) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let (living, over) = find_left(&opened.dir.path().join("own"));
        assert_eq!((living.len(), over.len()), (0, 1));
        assert!(over[0].status.is_none());
        // The one in a session of its own is found by its mark.
        assert!(end_left_over(&over[0].record).await.unwrap() >= 1);
    })
    .await;
}
