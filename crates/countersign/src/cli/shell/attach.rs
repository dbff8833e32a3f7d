//! `shell attach`: this terminal becomes a window onto one of the person's own.
//!
//! Invariants: what is typed is sent once, in its order; the terminal is given back on every way out.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use countersign_core::limits::{OWN_TERMINAL_WRITE_BYTES_MAX, TERMINAL_WAIT_MS};
use countersign_protocol::{
    OwnTerminalOutputParams, ResizeTerminalParams, TerminalOutputResult, WriteTerminalParams,
    method,
};
use countersign_tui::agent_terminals::TerminalScreen;
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::detach_key::DetachKey;
use super::{saved_screen, shown_size};
use crate::cli::CommonArgs;
use crate::client::{CallError, HostClient, HostEndpoint};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::reconnect::{RetryLimit, find_host};
use crate::screen::terminal_error;

/// What a call may take beyond the time for which the host waits for output.
const MARGIN: Duration = Duration::from_secs(10);
/// How long what was typed before the key that detaches may take to be sent.
const LAST_WRITE: Duration = Duration::from_secs(2);
/// Typed text that waits for a program that does not read; then no more is read here.
const TYPED_CHUNKS_MAX: usize = 4_096;
const TYPED_CHUNK_BYTES: usize = 4 * 1024;

/// Why an attachment is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AttachEnd {
    Detached,
    ProgramEnded,
}

/// A usage error where keys cannot be read or nothing can be shown.
pub(super) fn require_terminal() -> Result<(), CliError> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        return Ok(());
    }
    Err(CliError::usage("attaching needs a terminal")
        .with_hint("without one, list terminals with `countersign shell list`"))
}

pub(super) async fn attach(
    common: &CommonArgs,
    id: &str,
    key: DetachKey,
) -> Result<CliExit, CliError> {
    require_terminal()?;
    output::print_message(format_args!("attached to {id}; detach key: {key}"));
    let terminal = HostTerminal {
        endpoint: common.endpoint()?,
        id: id.to_owned(),
    };
    let end = {
        let _raw = PassThrough::enter().map_err(terminal_error)?;
        terminal.pass_through(key).await?
    };
    match end {
        AttachEnd::Detached => output::print_message(format_args!(
            "detached from {id}, which keeps running; `countersign shell attach {id}` returns to it"
        )),
        AttachEnd::ProgramEnded => {
            output::print_message(format_args!("the program in {id} ended"));
        }
    }
    Ok(CliExit::Ok)
}

/// This terminal without a line editor of its own; dropping it gives it back.
struct PassThrough;

impl PassThrough {
    fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for PassThrough {
    fn drop(&mut self) {
        // As far as it goes: a terminal that is gone needs neither.
        show(saved_screen::RESTORE.as_bytes()).ok();
        disable_raw_mode().ok();
    }
}

/// Writes bytes as they are.
fn show(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// One of the person's terminals, and the way to it.
struct HostTerminal {
    endpoint: HostEndpoint,
    id: String,
}

impl HostTerminal {
    /// Shows, types and resizes side by side, so that a program that reads nothing can still be left.
    async fn pass_through(&self, key: DetachKey) -> Result<AttachEnd, CliError> {
        let typed = TypedKeys::read(key).map_err(terminal_error)?;
        tokio::select! {
            end = self.follow_output() => end,
            end = self.send_typed(typed.chunks) => end,
            failed = self.follow_size() => failed,
            () = wait_for_detach(typed.detached) => Ok(AttachEnd::Detached),
            ended = wait_for_signal() => ended,
        }
    }

    async fn follow_output(&self) -> Result<AttachEnd, CliError> {
        let mut client = HostClient::connect(&self.endpoint).await?;
        let mut after = self.show_screen(&mut client).await?;
        loop {
            let piece = match self.read(&mut client, after, true).await {
                Err(error) if error.is_connection() => {
                    client = self.reconnect().await?;
                    continue;
                }
                piece => piece?,
            };
            show(&decode(&piece)?).map_err(terminal_error)?;
            after = piece.next;
            if piece.ended {
                return Ok(AttachEnd::ProgramEnded);
            }
            if piece.skipped > 0 {
                self.redraw(&mut client).await;
            }
        }
    }

    /// Shows what is on the screen of the terminal, and gives the number of the byte after that.
    async fn show_screen(&self, client: &mut HostClient) -> Result<u64, CliError> {
        let size = shown_size().unwrap_or((80, 24));
        let mut screen = TerminalScreen::raw(&self.id, size);
        loop {
            let piece = self.read(client, screen.next, false).await?;
            screen.process(&decode(&piece)?);
            screen.next = piece.next;
            if piece.data.is_empty() || piece.ended {
                break;
            }
        }
        show(&saved_screen::drawing(&screen)).map_err(terminal_error)?;
        // The end of a terminal is told by the next read, also if it was reached here.
        Ok(screen.next)
    }

    async fn read(
        &self,
        client: &mut HostClient,
        after: u64,
        wait: bool,
    ) -> Result<TerminalOutputResult, CallError> {
        let params = OwnTerminalOutputParams {
            terminal_id: self.id.clone(),
            after: Some(after),
            wait,
        };
        let limit = Duration::from_millis(TERMINAL_WAIT_MS) + MARGIN;
        client
            .call_within::<method::OwnTerminalOutput>(limit, &params)
            .await
    }

    /// Has a program that fills the screen draw it anew, by another size: a part of what it wrote is lost.
    async fn redraw(&self, client: &mut HostClient) {
        let Some((columns, rows)) = shown_size().filter(|size| size.1 > 1) else {
            return;
        };
        for rows in [rows - 1, rows] {
            // The next reading call says why, if the host is gone.
            drop(self.resize(client, (columns, rows)).await);
        }
    }

    /// Sends what is typed until there is nobody to type.
    async fn send_typed(&self, mut chunks: mpsc::Receiver<Vec<u8>>) -> Result<AttachEnd, CliError> {
        let mut client = HostClient::connect(&self.endpoint).await?;
        while let Some(chunk) = chunks.recv().await {
            match self.write(&mut client, &chunk).await {
                Err(error) if error.is_connection() => {
                    client = self.reconnect().await?;
                    // What was on its way may have been typed; what was typed meanwhile was meant for what the
                    // screen showed then. Neither is sent again.
                    while chunks.try_recv().is_ok() {}
                }
                // The program has ended, which whoever reads the output learns as well.
                Err(CallError::Refused(_)) | Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(AttachEnd::Detached)
    }

    async fn write(&self, client: &mut HostClient, bytes: &[u8]) -> Result<(), CallError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let part = &rest[..rest.len().min(OWN_TERMINAL_WRITE_BYTES_MAX)];
            let params = WriteTerminalParams {
                terminal_id: self.id.clone(),
                data: BASE64_STANDARD.encode(part),
            };
            // The host waits for room, so that this does not spin while the program reads nothing.
            let taken = client.call::<method::WriteTerminal>(&params).await?.written;
            let taken = usize::try_from(taken).unwrap_or(usize::MAX);
            rest = &rest[taken.min(rest.len())..];
        }
        Ok(())
    }

    /// Gives the terminal the size of this one, now and whenever it changes. Ends only by a failure.
    async fn follow_size(&self) -> Result<AttachEnd, CliError> {
        let mut changes = signal(SignalKind::window_change()).map_err(terminal_error)?;
        let mut client = HostClient::connect(&self.endpoint).await?;
        loop {
            if let Some(size) = shown_size() {
                match self.resize(&mut client, size).await {
                    Err(error) if error.is_connection() => {
                        client = self.reconnect().await?;
                        continue;
                    }
                    Err(CallError::Refused(_)) | Ok(()) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            changes.recv().await;
        }
    }

    async fn resize(&self, client: &mut HostClient, size: (u16, u16)) -> Result<(), CallError> {
        let params = ResizeTerminalParams {
            terminal_id: self.id.clone(),
            columns: size.0,
            rows: size.1,
        };
        client.call::<method::ResizeTerminal>(&params).await?;
        Ok(())
    }

    /// Says nothing: the screen is the program's, which does not know that the host is away.
    async fn reconnect(&self) -> Result<HostClient, CliError> {
        find_host(&self.endpoint, RetryLimit::Unlimited).await
    }
}

fn decode(piece: &TerminalOutputResult) -> Result<Vec<u8>, CliError> {
    let bytes = BASE64_STANDARD.decode(&piece.data);
    bytes.map_err(|error| CliError::failed(error.to_string()))
}

/// What is typed here, in pieces, and when the person wants to leave.
struct TypedKeys {
    chunks: mpsc::Receiver<Vec<u8>>,
    detached: oneshot::Receiver<()>,
}

impl TypedKeys {
    /// Reads in a thread of its own, which ends with the process: reading a terminal cannot be given up.
    fn read(key: DetachKey) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(TYPED_CHUNKS_MAX);
        let (detach, detached) = oneshot::channel();
        std::thread::Builder::new()
            .name("typed".into())
            .spawn(move || {
                read_typed(key, &sender);
                drop(detach);
            })?;
        Ok(Self { chunks, detached })
    }
}

/// Until the key that detaches, or the end of the terminal.
fn read_typed(key: DetachKey, sender: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = [0; TYPED_CHUNK_BYTES];
    loop {
        let read = match io::stdin().lock().read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.unwrap_or(0),
        };
        let typed = &buffer[..read];
        let end = key.find(typed);
        let is_sent = sender.blocking_send(typed[..end.unwrap_or(read)].to_vec());
        if is_sent.is_err() || end.is_some() || read == 0 {
            return;
        }
    }
}

/// Gives what was typed before it some time to be sent.
async fn wait_for_detach(detached: oneshot::Receiver<()>) {
    // The thread drops its end when the person leaves.
    drop(detached.await);
    tokio::time::sleep(LAST_WRITE).await;
}

/// Whoever ends this command leaves the terminal, and does not end what runs in it.
async fn wait_for_signal() -> Result<AttachEnd, CliError> {
    let kinds = [
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::interrupt(),
    ];
    let [mut terminate, mut hangup, mut interrupt] = [
        signal(kinds[0]).map_err(terminal_error)?,
        signal(kinds[1]).map_err(terminal_error)?,
        signal(kinds[2]).map_err(terminal_error)?,
    ];
    tokio::select! {
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(AttachEnd::Detached)
}
