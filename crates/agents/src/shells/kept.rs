//! The terminals of a run that is over: what was written last, for people to read.
//!
//! Invariants: no more than the bounds is kept; bytes keep their numbers; nothing runs any more.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::limits::{
    KEPT_COMMAND_BYTES_MAX, RELEASED_OUTPUT_BYTES_MAX, RELEASED_TERMINALS_KEPT, TERMINAL_DRAIN_MS,
    TERMINAL_PIECE_BYTES_MAX,
};
use countersign_core::truncate_with_ellipsis;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::time::timeout;

use super::readable_output::now_ms;
use super::{
    CommandSpec, ShellBackend, ShellError, ShellFuture, TerminalId, TerminalOutput, TerminalPiece,
    TerminalSummary,
};
use crate::adapter::ProcessExit;

/// See the module. Oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeptTerminals(Vec<KeptTerminal>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptTerminal {
    /// Its `first_offset` is the number of the first byte of `output`.
    summary: TerminalSummary,
    #[serde(serialize_with = "to_base64", deserialize_with = "from_base64")]
    output: Vec<u8>,
}

impl KeptTerminals {
    /// Takes what can still be read from the terminals of a run that is over: the newest of them, and
    /// the end of what each wrote.
    pub async fn collect(shells: &dyn ShellBackend) -> Result<Self, ShellError> {
        // Everything was killed, and how it ended is known at once, or never.
        let limit = Duration::from_millis(2 * TERMINAL_DRAIN_MS);
        drop(timeout(limit, await_exits(shells)).await);
        let mut listed = shells.list().await?;
        let surplus = listed.len().saturating_sub(RELEASED_TERMINALS_KEPT);
        let mut kept = Vec::new();
        for summary in listed.drain(surplus..) {
            match KeptTerminal::read(shells, summary).await {
                Ok(terminal) => kept.push(terminal),
                // One of an editor may be gone with its window; the others are still worth reading.
                Err(ShellError::NotFound(_) | ShellError::NotPermitted(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self(kept))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, id: &TerminalId) -> Result<&KeptTerminal, ShellError> {
        let mut all = self.0.iter();
        all.find(|terminal| terminal.summary.id == id.as_str())
            .ok_or_else(|| ShellError::NotFound(id.clone()))
    }
}

impl KeptTerminal {
    async fn read(
        shells: &dyn ShellBackend,
        mut summary: TerminalSummary,
    ) -> Result<Self, ShellError> {
        let id = TerminalId::new(summary.id.as_str());
        let mut next = summary
            .bytes
            .saturating_sub(to_count(RELEASED_OUTPUT_BYTES_MAX));
        let mut output = Vec::new();
        loop {
            let piece = shells.read_from(&id, next, 0).await?;
            if piece.from != next {
                // Older bytes were dropped meanwhile, and what was read before them stands alone.
                output.clear();
            }
            next = piece.from + to_count(piece.bytes.len());
            output.extend(&piece.bytes);
            if piece.is_end || piece.bytes.is_empty() {
                break;
            }
        }
        let surplus = output.len().saturating_sub(RELEASED_OUTPUT_BYTES_MAX);
        output.drain(..surplus);
        summary.bytes = next;
        summary.first_offset = next - to_count(output.len());
        // The run is over, and with it everything that it started.
        summary.ended_ms.get_or_insert_with(now_ms);
        summary.command = truncate_with_ellipsis(&summary.command, KEPT_COMMAND_BYTES_MAX);
        Ok(Self { summary, output })
    }

    fn read_from(&self, after: u64) -> TerminalPiece {
        let TerminalSummary {
            first_offset,
            bytes,
            ..
        } = self.summary;
        let from = after.clamp(first_offset, bytes.max(first_offset));
        let skipped = usize::try_from(from - first_offset).unwrap_or(usize::MAX);
        let rest = self.output.get(skipped..).unwrap_or_default();
        let piece = &rest[..rest.len().min(TERMINAL_PIECE_BYTES_MAX)];
        TerminalPiece {
            from,
            bytes: piece.to_vec(),
            is_end: piece.len() == rest.len(),
        }
    }
}

impl ShellBackend for KeptTerminals {
    fn create(&self, _: CommandSpec) -> ShellFuture<'_, TerminalId> {
        let reason = "the agent's run is over".to_owned();
        Box::pin(async { Err(ShellError::NotPermitted(reason)) })
    }

    fn output<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, TerminalOutput> {
        Box::pin(async move {
            let terminal = self.find(id)?;
            Ok(TerminalOutput {
                text: String::from_utf8_lossy(&terminal.output).into_owned(),
                truncated: terminal.summary.first_offset > 0,
                exit: terminal.summary.exit.clone(),
            })
        })
    }

    fn wait_for_exit<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ProcessExit> {
        Box::pin(async move { Ok(self.find(id)?.summary.exit.clone().unwrap_or_default()) })
    }

    fn kill<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ()> {
        Box::pin(async move { self.find(id).map(drop) })
    }

    fn release<'a>(&'a self, id: &'a TerminalId) -> ShellFuture<'a, ()> {
        Box::pin(async move { self.find(id).map(drop) })
    }

    fn list(&self) -> ShellFuture<'_, Vec<TerminalSummary>> {
        let all = self.0.iter().map(|terminal| terminal.summary.clone());
        let all = all.collect();
        Box::pin(async { Ok(all) })
    }

    fn read_from<'a>(
        &'a self,
        id: &'a TerminalId,
        after: u64,
        _: u64,
    ) -> ShellFuture<'a, TerminalPiece> {
        Box::pin(async move { Ok(self.find(id)?.read_from(after)) })
    }
}

async fn await_exits(shells: &dyn ShellBackend) -> Result<(), ShellError> {
    for terminal in shells.list().await? {
        if terminal.exit.is_none() {
            shells.wait_for_exit(&TerminalId::new(terminal.id)).await?;
        }
    }
    Ok(())
}

fn to_count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn to_base64<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(id: &str, bytes: u64) -> TerminalSummary {
        TerminalSummary {
            id: id.to_owned(),
            command: "ls".to_owned(),
            cwd: "/".into(),
            started_ms: 1,
            ended_ms: Some(2),
            exit: None,
            bytes,
            first_offset: 0,
        }
    }

    fn kept(id: &str, first_offset: u64, output: &[u8]) -> KeptTerminal {
        let bytes = first_offset + to_count(output.len());
        KeptTerminal {
            summary: TerminalSummary {
                first_offset,
                ..summary(id, bytes)
            },
            output: output.to_vec(),
        }
    }

    #[test]
    fn bytes_keep_their_numbers() {
        let terminal = kept("term-1", 10, b"abc");
        let read = |after| {
            let piece = terminal.read_from(after);
            (piece.from, piece.bytes, piece.is_end)
        };
        assert_eq!(read(0), (10, b"abc".to_vec(), true));
        assert_eq!(read(11), (11, b"bc".to_vec(), true));
        assert_eq!(read(99), (13, Vec::new(), true));
    }

    #[tokio::test]
    async fn the_newest_terminals_and_the_end_of_their_output_are_kept() {
        let long = vec![b'x'; RELEASED_OUTPUT_BYTES_MAX + TERMINAL_PIECE_BYTES_MAX + 3];
        let mut all: Vec<_> = (0..=RELEASED_TERMINALS_KEPT)
            .map(|number| kept(&format!("term-{number}"), 0, b"out\xff"))
            .collect();
        all.push(kept("term-long", 0, &long));
        let whole = KeptTerminals(all.clone());
        let collected = KeptTerminals::collect(&whole).await.unwrap();
        let mut expected = all.split_off(2);
        let end = &long[long.len() - RELEASED_OUTPUT_BYTES_MAX..];
        let dropped = to_count(long.len() - RELEASED_OUTPUT_BYTES_MAX);
        *expected.last_mut().unwrap() = kept("term-long", dropped, end);
        assert_eq!(collected, KeptTerminals(expected));
        let text = serde_json::to_string(&collected).unwrap();
        let read: KeptTerminals = serde_json::from_str(&text).unwrap();
        assert_eq!(read, collected);
    }
}
