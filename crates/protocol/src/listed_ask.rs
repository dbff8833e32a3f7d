//! The row of an open ask in a list: what a list shows of it, without what follows from the rest.
//!
//! A thousand open asks are a few hundred kilobytes in this form. Everything else of an ask is read by its id.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ask_view::HostAskView;
use crate::rows::{HostApproval, HostChoiceQuestion, Who};
use crate::scalar::{Raw, Time};
use crate::states::{HostApprovalState, HostApprovalStatus};

const USUAL_OPTIONS: [&str; 2] = ["approve", "deny"];
const USUAL_APPROVING: [&str; 1] = ["approve"];

pub(crate) fn usual_options() -> Vec<String> {
    USUAL_OPTIONS.map(str::to_owned).to_vec()
}

pub(crate) fn usual_approving() -> Vec<String> {
    USUAL_APPROVING.map(str::to_owned).to_vec()
}

/// Writes the asks of a snapshot.
pub(crate) fn serialize<S: Serializer>(
    rows: &[HostApproval],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rows.iter().map(ListedAsk))
}

/// Reads the asks of a snapshot, and gives brief ones what was left out of them.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<HostApproval>, D::Error> {
    let mut rows = Vec::<HostApproval>::deserialize(deserializer)?;
    rows.iter_mut().for_each(HostApproval::fill_listed);
    Ok(rows)
}

/// An ask as a snapshot of brief rows has it. One that is not brief, or that has ended, is written with all its fields.
#[derive(Clone, Copy, Debug)]
pub struct ListedAsk<'a>(pub &'a HostApproval);

impl Serialize for ListedAsk<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self.0;
        if row.brief && row.state == HostApprovalState::Pending {
            ListedFields::of(row).serialize(serializer)
        } else {
            row.serialize(serializer)
        }
    }
}

/// The fields that are written. Absent options are the usual ones; see `fill_listed`.
#[derive(Serialize)]
struct ListedFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approving: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_by: Option<&'a Who>,
    brief: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<&'a str>,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_digest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lapses_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<&'a [String]>,
    #[serde(skip_serializing_if = "<[HostChoiceQuestion]>::is_empty")]
    questions: &'a [HostChoiceQuestion],
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<&'a str>,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    view: Option<ListedView<'a>>,
}

#[derive(Serialize)]
struct ListedView<'a> {
    summary: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

impl<'a> ListedFields<'a> {
    fn of(row: &'a HostApproval) -> Self {
        Self {
            agent_id: row.agent_id.as_deref(),
            agent_name: row.agent_name.as_deref(),
            approving: (row.approving != USUAL_APPROVING).then_some(&row.approving),
            asked_by: row.asked_by.as_ref(),
            brief: true,
            client_id: row.client_id.as_deref(),
            created_at: row.created_at,
            cwd: row.cwd.as_deref(),
            id: &row.id,
            input_digest: row.input_digest.as_deref(),
            lapses_at: row.lapses_at,
            options: (row.options != USUAL_OPTIONS).then_some(&row.options),
            questions: &row.questions,
            repeats: row.repeats.as_deref(),
            sequence: row.sequence,
            tool: row.tool.as_deref(),
            view: row.view.as_ref().map(ListedView::of),
        }
    }
}

impl<'a> ListedView<'a> {
    fn of(view: &'a HostAskView) -> Self {
        Self {
            summary: &view.summary,
            warnings: &view.warnings,
        }
    }
}

impl HostApproval {
    /// Leaves out what grows with the ask, and says so.
    pub fn make_brief(&mut self) {
        self.brief = true;
        self.a2ui = None;
        self.details = Raw::empty_object();
        self.edited_input = None;
        self.input = None;
        if let Some(view) = &mut self.view {
            view.cut();
        }
    }

    /// Leaves of an open ask only what a list shows.
    pub fn make_listed(&mut self) {
        self.make_brief();
        self.action = String::new();
        // A list names the agent, and nobody else if there is one.
        if self.agent_name.is_some() {
            self.asked_by = None;
        }
        self.deadline = None;
        self.idempotency_key = None;
        self.sandbox = None;
        self.tool_call_id = None;
        self.turn = None;
        self.verdict = None;
        if let Some(view) = &mut self.view {
            view.editable = false;
        }
    }

    /// Gives what was left out of a listed row because it follows from the rest.
    fn fill_listed(&mut self) {
        // Only such a row comes without a status.
        if !self.brief || self.status != HostApprovalStatus::Unknown {
            return;
        }
        self.status = HostApprovalStatus::Pending;
        self.state = HostApprovalState::Pending;
        self.details = Raw::empty_object();
        if let Some(view) = &mut self.view {
            view.cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rows::HostSnapshot;

    fn snapshot(row: &serde_json::Value) -> HostSnapshot {
        let snapshot = json!({
            "agents": [], "approvals": [row], "devices": [], "event_sequence": 1, "events": [],
            "pending_signins": [], "subscribed": true,
        });
        serde_json::from_value(snapshot).unwrap()
    }

    fn whole_row() -> serde_json::Value {
        json!({
            "action": "Run it", "agent_id": "fix", "agent_name": "fix", "approving": ["approve"],
            "asked_by": { "agent_id": "fix", "name": "fix", "role": "agent" },
            "created_at": "2026-01-01T00:00:00.000000Z", "cwd": "/p", "deliveries": 0,
            "details": { "kind": "execute" }, "id": "approval-1", "input": { "command": "ls" },
            "input_digest": "d1gest", "options": ["approve", "deny"], "sequence": 7,
            "state": "pending", "status": "pending", "tool": "Bash", "turn": "1",
            "verdict": { "effect": "ask", "parts": [], "text": "ls: no rule" },
            "view": {
                "command": "ls", "editable": true, "edits": [], "summary": "Bash: ls", "warnings": [],
            },
        })
    }

    #[test]
    fn a_listed_row_has_what_a_list_shows_and_is_read_as_it_was_written() {
        let mut listed = snapshot(&whole_row());
        listed.approvals[0].make_listed();
        let written = serde_json::to_value(&listed).unwrap();
        let expected = json!([{
            "agent_id": "fix", "agent_name": "fix", "brief": true,
            "created_at": "2026-01-01T00:00:00.000000Z", "cwd": "/p", "id": "approval-1",
            "input_digest": "d1gest", "sequence": 7, "tool": "Bash", "view": { "summary": "Bash: ls" },
        }]);
        assert_eq!(written["approvals"], expected);
        let read: HostSnapshot = serde_json::from_value(written).unwrap();
        assert_eq!(read, listed);
    }

    #[test]
    fn what_is_unusual_stays_in_a_listed_row() {
        let mut row = whole_row();
        // An agent that is not listed any more has no name.
        row.as_object_mut().unwrap().remove("agent_name");
        row["approving"] = json!([]);
        row["options"] = json!(["yes", "no"]);
        row["view"]["warnings"] = json!(["It has a hidden character."]);
        let mut listed = snapshot(&row);
        listed.approvals[0].make_listed();
        let written = serde_json::to_value(&listed).unwrap();
        let kept = &written["approvals"][0];
        for name in ["approving", "asked_by", "options"] {
            assert_eq!(kept[name], row[name], "{name}");
        }
        assert_eq!(kept["view"]["warnings"], row["view"]["warnings"]);
        let read: HostSnapshot = serde_json::from_value(written).unwrap();
        assert_eq!(read, listed);
    }

    #[test]
    fn rows_that_are_not_listed_are_written_whole() {
        let mut ended = whole_row();
        ended["state"] = json!("denied");
        ended["status"] = json!("resolved");
        for mut whole in [snapshot(&whole_row()), snapshot(&ended)] {
            let written = serde_json::to_value(&whole).unwrap();
            assert_eq!(
                written["approvals"][0]["options"],
                json!(["approve", "deny"])
            );
            assert_eq!(
                serde_json::from_value::<HostSnapshot>(written).unwrap(),
                whole
            );
            if whole.approvals[0].state != HostApprovalState::Pending {
                whole.approvals[0].make_brief();
                let written = serde_json::to_value(&whole).unwrap();
                assert_eq!(
                    serde_json::from_value::<HostSnapshot>(written).unwrap(),
                    whole
                );
            }
        }
    }
}
