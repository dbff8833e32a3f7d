//! What is done outside the screen: copying, the mouse, an editor, suspending.

use std::io::{self, Write as _};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use rustix::process::{Signal, getpid, kill_process};

/// Terminals take no more than this.
const COPY_BYTES_MAX: usize = 74_994;

/// Asks the terminal to keep a text for pasting (OSC 52), also over ssh.
pub(super) fn copy(text: &str) -> io::Result<()> {
    let bytes = text.as_bytes();
    let encoded = STANDARD.encode(&bytes[..bytes.len().min(COPY_BYTES_MAX)]);
    let mut out = io::stdout().lock();
    write!(out, "\x1b]52;c;{encoded}\x07")?;
    out.flush()
}

pub(super) fn capture_mouse(captures: bool) -> io::Result<()> {
    if captures {
        execute!(io::stdout(), EnableMouseCapture)
    } else {
        execute!(io::stdout(), DisableMouseCapture)
    }
}

/// Stops this process until the shell continues it.
pub(super) fn suspend() {
    kill_process(getpid(), Signal::TSTP).ok();
}

/// Lets the person write a text in their editor; nothing if that failed.
pub(super) fn edit(text: &str) -> Option<String> {
    let folder = std::env::temp_dir().join(format!(
        "countersign-{}",
        crate::random_id::random_id().ok()?
    ));
    crate::paths::make_private_folder(&folder).ok()?;
    let file = folder.join("text.md");
    let written = std::fs::write(&file, text)
        .ok()
        .and_then(|()| run_editor(&file));
    // What a person wrote is no business of whoever looks into the folder later.
    std::fs::remove_dir_all(&folder).ok();
    written
}

fn run_editor(file: &std::path::Path) -> Option<String> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let status = Command::new(words.next()?)
        .args(words)
        .arg(file)
        .status()
        .ok()?;
    status
        .success()
        .then(|| std::fs::read_to_string(file).ok())?
}
