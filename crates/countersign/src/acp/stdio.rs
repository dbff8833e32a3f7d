//! Standard input and output of an editor's connection, each with a thread of its own: both block.

use std::io::{self, Write as _};
use std::thread;

use countersign_agents::editor::EditorLine;
use countersign_core::limits::EDITOR_LINE_BYTES_MAX;
use tokio::sync::mpsc;

use crate::mcp::lines::{InputLine, InputLines};

/// Lines on their way between a thread and the loop.
const LINES_BETWEEN: usize = 64;
/// What a thread needs that carries lines.
const STACK_BYTES: usize = 128 * 1024;

pub(super) enum StdioLine {
    Whole(Vec<u8>),
    /// More than is taken; it was passed over.
    TooLong,
}

pub(super) enum WrittenLine {
    /// A line whose time counts is with the editor.
    Timed(u64),
    /// The editor reads no more.
    Closed,
}

/// The editor's lines, until its input ends.
pub(super) fn read_lines() -> io::Result<mpsc::Receiver<StdioLine>> {
    let (sender, lines) = mpsc::channel(LINES_BETWEEN);
    thread::Builder::new()
        .name("stdin".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let mut input = InputLines::with_limit(io::stdin().lock(), EDITOR_LINE_BYTES_MAX);
            while let Ok(Some(line)) = input.next() {
                let line = match line {
                    InputLine::Whole(line) => StdioLine::Whole(line),
                    InputLine::TooLong => StdioLine::TooLong,
                };
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
    Ok(lines)
}

/// Where lines for the editor go, and what became of them.
pub(super) fn write_lines() -> io::Result<(mpsc::Sender<EditorLine>, mpsc::Receiver<WrittenLine>)> {
    let (sender, mut lines) = mpsc::channel::<EditorLine>(LINES_BETWEEN);
    let (written_sender, written) = mpsc::channel(LINES_BETWEEN);
    thread::Builder::new()
        .name("stdout".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            while let Some(line) = lines.blocking_recv() {
                let mut stdout = io::stdout().lock();
                let done = stdout.write_all(&line.bytes).and_then(|()| stdout.flush());
                drop(stdout);
                let report = match (done, line.timed) {
                    (Err(_), _) => WrittenLine::Closed,
                    (Ok(()), Some(request)) => WrittenLine::Timed(request),
                    (Ok(()), None) => continue,
                };
                if written_sender.blocking_send(report).is_err() {
                    return;
                }
            }
        })?;
    Ok((sender, written))
}
