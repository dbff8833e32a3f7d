//! The driver's state in a checkpoint, from which the next host continues.
//!
//! Invariant: it is taken under one lock, and everything that it calls read, performed or asked is
//! committed together with it or before it.

use std::collections::BTreeMap;

use countersign_agents::adapter::{AgentWrite, ClientRequest, RequestId, WriteId, WriteKind};
use countersign_agents::runner::{WriteError, WriteReceipt};
use countersign_core::event::AnswerDelivery;
use countersign_core::{ApprovalId, Checkpoint, Json, ManagedAgent, Seq};
use serde::{Deserialize, Serialize};

/// The host's side of the connection to an agent, as of a line that was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ConnectionState {
    /// What the adapter knows; nothing for one that never read a line.
    #[serde(default)]
    pub(super) adapter: Json,
    /// What was sent and may not be in the agent's pipe yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unwritten: Vec<AgentWrite>,
    pub(super) performed: PerformedDuties,
    /// Requests of the agent that wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) open: Vec<WaitingRequest>,
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WaitingRequest {
    /// The agent's id of it.
    pub(super) request: RequestId,
    /// The line it came with.
    pub(super) line: u64,
    /// The ask that was made for it, if it needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ask: Option<ApprovalId>,
    /// What is to be done, unless it only waits for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) want: Option<ClientRequest>,
}

/// Duties that were performed, so that no host performs them again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PerformedDuties {
    /// The newest turn.
    pub(super) turn: u32,
    /// The newest turn that was interrupted.
    pub(super) interrupted: u32,
    /// The newest mode and model.
    pub(super) configured: u32,
    /// Answers that are not settled yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) answers: BTreeMap<Seq, SentAnswer>,
    /// Decided requests that are being served, by their ask, with the line of each. A request may end
    /// with its turn meanwhile, and then nothing else tells under which id its answer was sent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) serving: BTreeMap<Seq, u64>,
}

/// An answer that was sent and whose settlement is not committed yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentAnswer {
    /// The line of the request.
    pub(super) line: u64,
    pub(super) kind: WriteKind,
    /// Whether it is unknown if the request was served. Such an answer never counts as delivered.
    #[serde(default)]
    pub(super) is_uncertain: bool,
    /// What became of it, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delivery: Option<AnswerDelivery>,
}

impl SentAnswer {
    /// The answer to a request for a file or a terminal.
    pub(super) fn to_request(line: u64, is_served: bool) -> Self {
        Self {
            line,
            kind: if is_served {
                WriteKind::Served
            } else {
                WriteKind::Refused
            },
            is_uncertain: false,
            delivery: None,
        }
    }

    /// Notes what became of a write that had this answer among its lines.
    pub(super) fn note_write(&mut self, written: &Result<Vec<WriteReceipt>, WriteError>) {
        let delivery = match written {
            _ if self.is_uncertain => AnswerDelivery::Unknown,
            Ok(receipts) => {
                let id = WriteId::Line(self.line);
                let own = receipts.iter().find(|receipt| receipt.id == id);
                match own.map(|receipt| receipt.kind) {
                    None => AnswerDelivery::Delivered,
                    Some(kind) if kind == self.kind => AnswerDelivery::Delivered,
                    // The runner forgot what was written under this id.
                    Some(WriteKind::Unspecified) => AnswerDelivery::Unknown,
                    // Under this id another answer was written before, so this one never will be.
                    Some(_) => AnswerDelivery::Withdrawn,
                }
            }
            // The line was sent twice, and what the first write found out is still true.
            Err(_) if self.delivery.is_some() => return,
            Err(WriteError::Full) => AnswerDelivery::Withdrawn,
            // The agent ended meanwhile: some of it may have been in its pipe.
            Err(WriteError::Gone | WriteError::Lost) => AnswerDelivery::Unknown,
        };
        self.delivery = Some(delivery);
    }
}

impl From<&ManagedAgent> for PerformedDuties {
    /// For a run that is about to start: the turns of earlier runs are not its duties.
    fn from(managed: &ManagedAgent) -> Self {
        Self {
            turn: managed.turns,
            interrupted: managed.turns,
            configured: managed.configured,
            answers: BTreeMap::new(),
            serving: BTreeMap::new(),
        }
    }
}

impl ConnectionState {
    /// From a checkpoint that an earlier host left.
    pub(super) fn read(checkpoint: &Checkpoint) -> Result<Self, serde_json::Error> {
        serde_json::from_str(checkpoint.state.text())
    }
}

#[cfg(test)]
mod tests {
    use countersign_agents::adapter::RunRequest;
    use countersign_core::AgentId;

    use super::*;

    #[test]
    fn what_is_kept_is_read_as_it_was() {
        let line = AgentWrite {
            id: WriteId::Line(7),
            kind: WriteKind::Allow,
            bytes: b"{\"id\":1}\n".to_vec(),
        };
        let told = SentAnswer {
            line: 7,
            kind: WriteKind::Allow,
            is_uncertain: true,
            delivery: Some(AnswerDelivery::Unknown),
        };
        let run = RunRequest {
            command: "ls".to_owned(),
            cwd: None,
            env: vec![("A".to_owned(), "b".to_owned())],
        };
        let kept = ConnectionState {
            adapter: Json::from_value(&serde_json::json!({"phase": "open"})).unwrap(),
            unwritten: vec![line],
            performed: PerformedDuties {
                turn: 3,
                interrupted: 2,
                configured: 1,
                answers: BTreeMap::from([(Seq(12), told)]),
                serving: BTreeMap::from([(Seq(14), 9)]),
            },
            open: vec![WaitingRequest {
                request: RequestId("\"r\"".to_owned()),
                line: 9,
                ask: Some(ApprovalId::new("approval-1")),
                want: Some(ClientRequest::CreateTerminal {
                    run,
                    output_bytes_max: Some(10),
                }),
            }],
        };
        let checkpoint = Checkpoint {
            agent: AgentId::new("a"),
            run: 1,
            offset: 9,
            state: Json::from_value(&kept).unwrap(),
        };
        assert_eq!(ConnectionState::read(&checkpoint).unwrap(), kept);
    }

    #[test]
    fn one_that_never_heard_anything_keeps_nothing() {
        let kept = ConnectionState::default();
        let text = Json::from_value(&kept).unwrap();
        assert_eq!(
            serde_json::from_str::<ConnectionState>(text.text()).unwrap(),
            kept
        );
    }
}
