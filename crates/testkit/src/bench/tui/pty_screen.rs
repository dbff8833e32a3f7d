//! A program in a pseudo-terminal, and the screen that it draws there.
//!
//! What comes is timed by a thread that does nothing else, and answers what a terminal is asked, as every terminal
//! does at once.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tempfile::TempDir;

pub(super) const COLUMNS: u16 = 200;
pub(super) const ROWS: u16 = 60;
/// What is not shown by then never will be.
const PATIENCE: Duration = Duration::from_mins(1);
const READ_CHUNK: usize = 64 * 1024;
/// Pieces that may wait to be looked at.
const PIECES_MAX: usize = 100_000;
/// What a terminal is asked at the start of a screen, and what it says: its colours, and what it is.
const ANSWERS: [(&[u8], &[u8]); 3] = [
    (b"\x1b]10;?", b"\x1b]10;rgb:d0d0/d0d0/d0d0\x1b\\"),
    (b"\x1b]11;?", b"\x1b]11;rgb:1010/1010/1010\x1b\\"),
    (b"\x1b[c", b"\x1b[?62;22c"),
];

type TimedPiece = (Instant, Vec<u8>);

/// The terminal UI of one host. It ends with this.
pub(super) struct PtyScreen {
    child: Child,
    keys: File,
    pieces: Receiver<TimedPiece>,
    parser: vt100::Parser,
    /// When it was started.
    pub(super) began: Instant,
    /// How many bytes it has written.
    pub(super) bytes: u64,
    /// Where it is opened, so that it finds nothing that another screen left.
    _folder: TempDir,
}

impl PtyScreen {
    pub(super) fn start(countersign: &Path, home: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (screen_end, program_end) = open_terminal()?;
        let keys = File::from(screen_end);
        let (sender, pieces) = sync_channel(PIECES_MAX);
        let output = keys.try_clone()?;
        std::thread::spawn(move || read(output, &sender));
        let began = Instant::now();
        // A screen asks the terminal that controls it, which `setsid` makes of this one.
        let child = Command::new("setsid")
            .args(["--ctty", "--"])
            .arg(countersign)
            .arg("tui")
            .current_dir(folder.path())
            .env("COUNTERSIGN_HOME", home)
            .env("TERM", "xterm-256color")
            .env("LANG", "C.UTF-8")
            .env_remove("NO_COLOR")
            .env_remove("TMUX")
            .env_remove("COUNTERSIGN_URL")
            .env_remove("COUNTERSIGN_TOKEN")
            .stdin(Stdio::from(program_end.try_clone()?))
            .stdout(Stdio::from(program_end.try_clone()?))
            .stderr(Stdio::from(program_end))
            .spawn()
            .context("could not start the screen with `setsid`")?;
        Ok(Self {
            child,
            keys,
            pieces,
            parser: vt100::Parser::new(ROWS, COLUMNS, 0),
            began,
            bytes: 0,
            _folder: folder,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn contents(&self) -> String {
        self.parser.screen().contents()
    }

    pub(super) fn press(&mut self, keys: &str) -> Result<Instant> {
        let pressed = Instant::now();
        self.keys.write_all(keys.as_bytes())?;
        Ok(pressed)
    }

    /// Presses a key and waits for a text; how long that took.
    pub(super) fn press_until(&mut self, keys: &str, text: &str) -> Result<Duration> {
        let pressed = self.press(keys)?;
        Ok(self.wait_for(text)? - pressed)
    }

    /// Waits until a text is on the screen, and says when the last of it came.
    pub(super) fn wait_for(&mut self, text: &str) -> Result<Instant> {
        let shows = |contents: &str| contents.contains(text);
        let seen = self.wait_until(shows);
        seen.with_context(|| format!("no `{text}` in:\n{}", self.contents()))
    }

    /// Waits until the screen is as wanted. What is there already counts as of now.
    pub(super) fn wait_until(&mut self, is_wanted: impl Fn(&str) -> bool) -> Result<Instant> {
        let give_up_at = Instant::now() + PATIENCE;
        let mut seen = Instant::now();
        while !is_wanted(&self.contents()) {
            let left = give_up_at.saturating_duration_since(Instant::now());
            let (at, piece) = self.pieces.recv_timeout(left)?;
            self.take(&piece);
            seen = at;
        }
        Ok(seen)
    }

    /// Reads until nothing came for so long.
    pub(super) fn settle(&mut self, quiet: Duration) -> Result<()> {
        let give_up_at = Instant::now() + PATIENCE;
        while self.read_piece(quiet)? {
            ensure!(Instant::now() < give_up_at, "the screen does not settle");
        }
        Ok(())
    }

    /// Reads whatever comes in this time.
    pub(super) fn read_for(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.read_piece(left)?;
        }
    }

    /// Whether something came in time.
    fn read_piece(&mut self, limit: Duration) -> Result<bool> {
        match self.pieces.recv_timeout(limit) {
            Ok((_, piece)) => self.take(&piece),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(gone) => return Err(gone.into()),
        }
        Ok(true)
    }

    fn take(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.parser.process(piece);
    }
}

impl Drop for PtyScreen {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Both ends of a new pseudo-terminal: the one of screens, and the one of programs.
fn open_terminal() -> Result<(OwnedFd, OwnedFd)> {
    let screen_end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    // Otherwise the program would have it too, and never see its terminal go.
    rustix::io::fcntl_setfd(&screen_end, rustix::io::FdFlags::CLOEXEC)?;
    grantpt(&screen_end)?;
    unlockpt(&screen_end)?;
    let size = Winsize {
        ws_row: ROWS,
        ws_col: COLUMNS,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&screen_end, size)?;
    let name = ptsname(&screen_end, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program_end = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    Ok((screen_end, program_end))
}

/// Until the program has let go of the terminal, or nobody looks any more.
fn read(mut output: File, pieces: &SyncSender<TimedPiece>) {
    let mut buffer = vec![0; READ_CHUNK];
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        let (at, piece) = (Instant::now(), buffer[..count].to_vec());
        for (question, answer) in ANSWERS {
            let is_asked = piece.windows(question.len()).any(|part| part == question);
            if is_asked && output.write_all(answer).is_err() {
                return;
            }
        }
        if pieces.send((at, piece)).is_err() {
            return;
        }
    }
}
