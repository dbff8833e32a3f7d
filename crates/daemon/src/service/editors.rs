//! Editors that serve the host: they take calls and answer them.

use std::time::Duration;

use countersign_agents::{EditorAbilities, EditorCallError, EditorReply};
use countersign_core::limits::{EDITOR_TAKE_MS, WORD_BYTES_MAX};
use countersign_core::{AgentId, Caller, Json, Rejection};
use tokio::time::Instant;

use super::{Service, ServiceResult};
use crate::agent_editors::AgentEditorLink;

/// An editor that an agent is open in.
pub struct EditorPresence {
    /// What it calls itself, so that its terminals are known again.
    pub editor: String,
    pub terminals: bool,
    pub files: bool,
}

/// Which calls an editor takes.
pub struct EditorCallRange {
    /// Those with a greater number.
    pub after: u64,
    /// How long to wait for the first; [`EDITOR_TAKE_MS`] if absent or more.
    pub wait_ms: Option<u64>,
}

/// Editors of agents.
impl Service {
    /// What the editor is to do for an agent; waits until there is something. When it returns, the host knows that the
    /// editor is there. Only for people: what an editor says becomes what an agent reads.
    pub async fn take_editor_calls(
        &self,
        caller: &Caller,
        agent: &AgentId,
        presence: EditorPresence,
        range: EditorCallRange,
    ) -> ServiceResult<Vec<(u64, Json)>> {
        self.check_editor(caller, agent, &presence.editor)?;
        let wait_ms = range.wait_ms.unwrap_or(EDITOR_TAKE_MS).min(EDITOR_TAKE_MS);
        let until = Instant::now() + Duration::from_millis(wait_ms);
        let abilities = EditorAbilities {
            terminals: presence.terminals,
            files: presence.files,
        };
        let editors = &self.shared.editors;
        let calls = editors.take(agent, &presence.editor, abilities, range.after, until);
        let calls = calls.await.into_iter();
        // What cannot be written is left out, and its caller waits until it gives up.
        let calls = calls.filter_map(|(id, call)| Some((id, Json::from_value(&call).ok()?)));
        Ok(calls.collect())
    }

    /// Takes what an editor answered: `ok` or `error`. Anything else is a refusal.
    pub fn answer_editor_call(
        &self,
        caller: &Caller,
        agent: &AgentId,
        editor: &str,
        call: u64,
        reply: &Json,
    ) -> ServiceResult<()> {
        self.check_editor(caller, agent, editor)?;
        let parsed: Result<Result<EditorReply, EditorCallError>, _> =
            serde_json::from_str(reply.text());
        let result = parsed.unwrap_or_else(|error| {
            let message = error.to_string();
            Err(EditorCallError::Refused { message })
        });
        self.shared.editors.answer(agent, editor, call, result);
        Ok(())
    }

    /// The way to the editor of an agent.
    pub(crate) fn editor_link(&self, agent: &AgentId) -> AgentEditorLink {
        self.shared.editors.link(agent)
    }

    fn check_editor(&self, caller: &Caller, agent: &AgentId, editor: &str) -> ServiceResult<()> {
        caller.require_operator()?;
        let found = self.find_agent(agent);
        let found = found.ok_or_else(|| Rejection::UnknownAgent(agent.clone()))?;
        if found.managed.is_none() {
            return Err(Rejection::NotManaged(agent.clone()).into());
        }
        let is_name = !editor.is_empty() && editor.chars().all(|c| c.is_ascii_alphanumeric());
        if !is_name || editor.len() > WORD_BYTES_MAX / 4 {
            return Err(Rejection::BadName(editor.chars().take(100).collect()).into());
        }
        Ok(())
    }
}
