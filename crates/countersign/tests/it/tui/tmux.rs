//! A terminal of its own for each test, by tmux on a socket of its own.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::host::{Host, PATIENCE};

/// How long an answer to a typed line is waited for before it is typed again.
const TYPE_AGAIN: Duration = Duration::from_secs(5);
/// How often the screen is looked at: each look is a process.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// Looks again and again until there is something to see, within bounds.
pub(crate) fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begin.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

pub(crate) struct TmuxScreen {
    folder: TempDir,
}

impl TmuxScreen {
    /// The screen with arguments, in a terminal of this size.
    pub(crate) fn open(host: &Host, width: u16, height: u16, args: &[&str]) -> Self {
        let program = env!("CARGO_BIN_EXE_countersign");
        Self::start(host, width, height, &[&[program][..], args].concat())
    }

    /// A shell that finds the program by its name.
    pub(crate) fn open_in_shell(host: &Host, width: u16, height: u16) -> Self {
        Self::start(host, width, height, &["sh"])
    }

    fn start(host: &Host, width: u16, height: u16, command: &[&str]) -> Self {
        let screen = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let bin = PathBuf::from(env!("CARGO_BIN_EXE_countersign"));
        let path = format!(
            "PATH={}:/usr/local/bin:/usr/bin:/bin",
            bin.parent().unwrap().display()
        );
        let home = format!("COUNTERSIGN_HOME={}", host.home().display());
        let (width, height) = (width.to_string(), height.to_string());
        let mut args = vec![
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &width,
            "-y",
            &height,
        ];
        args.extend([
            "env",
            "-u",
            "NO_COLOR",
            "LANG=C.UTF-8",
            "PS1=$ ",
            &path,
            &home,
        ]);
        args.extend(command);
        screen.tmux(&args);
        screen
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.folder.path().join("tmux"))
            .args(args)
            .env_remove("TMUX")
            .output()
            .expect("tmux, which `scripts/tmux` installs");
        assert!(output.status.success(), "{args:?}: {output:?}");
        output
    }

    /// What is on the screen.
    pub(crate) fn capture(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until a text is on the screen.
    pub(crate) fn wait_for(&self, text: &str) {
        let begin = Instant::now();
        loop {
            let shown = self.capture();
            if shown.contains(text) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "no `{text}` in:\n{shown}");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until one of some texts is in the last lines of the screen, and gives its number.
    pub(crate) fn find(&self, texts: &[&str]) -> usize {
        let begin = Instant::now();
        loop {
            let shown = self.capture();
            let last: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
            let last = last[last.len().saturating_sub(2)..].join("\n");
            if let Some(found) = texts.iter().position(|text| last.contains(text)) {
                return found;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "no {texts:?} at the end of:\n{shown}"
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"][..], keys].concat());
    }

    pub(crate) fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Types a line until a text appears. On a busy machine tmux loses what is typed while its program starts.
    pub(crate) fn type_line_until(&self, line: &str, text: &str) {
        poll(text, || {
            self.type_text(line);
            self.press(&["Enter"]);
            let begin = Instant::now();
            while begin.elapsed() < TYPE_AGAIN {
                if self.capture().contains(text) {
                    return Some(());
                }
                std::thread::sleep(LOOK_EVERY);
            }
            None
        });
    }

    /// Presses a key until a text appears: a key that comes too soon is ignored, and says so.
    pub(crate) fn press_until(&self, key: &str, text: &str) {
        let ignored = [
            "key ignored",
            "just appeared",
            "another key",
            "read it to the end",
            "more below",
            "too soon",
        ];
        poll(text, || {
            if self.capture().contains(text) {
                return Some(());
            }
            self.press(&[key]);
            poll("an answer to the key", || {
                let shown = self.capture();
                let is_answered = ignored.iter().any(|said| shown.contains(said));
                (is_answered || shown.contains(text)).then_some(())
            });
            self.capture().contains(text).then_some(())
        });
    }

    /// Allows the ask that has the focus.
    pub(crate) fn approve(&self) {
        self.press_until("a", "allow once?");
        self.press_until("y", "allowed");
    }

    pub(crate) fn paste(&self, text: &str) {
        let file = self.folder.path().join("pasted");
        std::fs::write(&file, text).unwrap();
        self.tmux(&["load-buffer", &file.display().to_string()]);
        // With the brackets that a terminal puts around what is pasted.
        self.tmux(&["paste-buffer", "-p", "-r"]);
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        self.tmux(&[
            "resize-window",
            "-x",
            &width.to_string(),
            "-y",
            &height.to_string(),
        ]);
    }

    /// Waits until the program has ended, and its session with it.
    pub(crate) fn wait_for_end(&self) {
        poll("the screen to end", || {
            let listed = Command::new("tmux")
                .arg("-S")
                .arg(self.folder.path().join("tmux"))
                .arg("list-sessions")
                .output()
                .unwrap();
            (!listed.status.success()).then_some(())
        });
    }
}

impl Drop for TmuxScreen {
    fn drop(&mut self) {
        // Fails only where the program has ended already, and the server with it.
        let socket = self.folder.path().join("tmux");
        let ended = Command::new("tmux")
            .arg("-S")
            .arg(socket)
            .arg("kill-server")
            .output();
        drop(ended);
    }
}
