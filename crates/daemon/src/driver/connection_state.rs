//! What a host keeps of an agent, so that the next one goes on where it stopped.
//!
//! Invariant: it is taken in one breath, and what it says was said, told or asked is on the record in
//! the commit that carries it, or in one before.

use std::collections::BTreeMap;

use countersign_agents::adapter::{AgentWrite, ClientRequest, RequestId, WriteKind};
use countersign_core::{ApprovalId, Checkpoint, Json, ManagedAgent, Seq};
use serde::{Deserialize, Serialize};

/// One side of the connection to an agent, as of a line that was heard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct ConnectionState {
    /// What the adapter knows; nothing for one that never heard a line.
    #[serde(default)]
    pub(super) adapter: Json,
    /// What was said and may not be written yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unwritten: Vec<AgentWrite>,
    /// What was told.
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

/// What an agent was told already.
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
}

/// An answer that was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentAnswer {
    /// The line of the request.
    pub(super) line: u64,
    pub(super) kind: WriteKind,
}

impl From<&ManagedAgent> for PerformedDuties {
    /// What one that is about to start knows: the turns of earlier runs are none of its business.
    fn from(managed: &ManagedAgent) -> Self {
        Self {
            turn: managed.turns,
            interrupted: managed.turns,
            configured: managed.configured,
            answers: BTreeMap::new(),
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
    use countersign_agents::adapter::{RunRequest, WriteId};
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
