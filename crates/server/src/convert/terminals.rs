//! Terminals of agents on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_daemon::{OwnTerminalStatus, TerminalSummary};
use countersign_protocol::{OwnTerminalRow, TerminalOutputResult, TerminalRow, Time};

use crate::ops::terminals::ReadOutput;

pub(super) fn row(terminal: &TerminalSummary) -> TerminalRow {
    let exit = terminal.exit.as_ref();
    TerminalRow {
        bytes: terminal.bytes,
        command: terminal.command.clone(),
        cwd: terminal.cwd.to_str().map(str::to_owned),
        ended_at: terminal.ended_ms.map(time_of),
        exit_code: exit.and_then(|exit| exit.code),
        first_offset: terminal.first_offset,
        id: terminal.id.clone(),
        signal: exit.and_then(|exit| exit.signal.clone()),
        started_at: time_of(terminal.started_ms),
    }
}

pub(super) fn own_row(terminal: &OwnTerminalStatus) -> OwnTerminalRow {
    let TerminalRow {
        bytes,
        command,
        cwd,
        ended_at,
        exit_code,
        first_offset,
        id,
        signal,
        started_at,
    } = row(&terminal.summary);
    OwnTerminalRow {
        bytes,
        columns: terminal.size.columns,
        command,
        cwd,
        ended_at,
        exit_code,
        first_offset,
        id,
        rows: terminal.size.rows,
        signal,
        started_at,
    }
}

pub(super) fn output(read: &ReadOutput) -> TerminalOutputResult {
    let ReadOutput { after, piece } = read;
    let length = u64::try_from(piece.bytes.len()).unwrap_or(u64::MAX);
    TerminalOutputResult {
        data: STANDARD.encode(&piece.bytes),
        ended: piece.is_end,
        from: piece.from,
        next: piece.from.saturating_add(length),
        skipped: piece.from.saturating_sub(*after),
    }
}

fn time_of(ms: u64) -> Time {
    Time(ms.saturating_mul(1000))
}
