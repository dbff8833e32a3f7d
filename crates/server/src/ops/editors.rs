//! Editors that serve the host.
//!
//! Invariant: only operators may call them.

use countersign_core::{Caller, Json};
use countersign_daemon::{EditorCallRange, EditorPresence, Service};
use countersign_protocol as wire;

use super::Result;
use super::agents::find_id;
use crate::convert;

/// What an editor is to do.
pub(crate) struct NumberedCall {
    pub(crate) id: u64,
    pub(crate) call: Json,
}

pub(crate) async fn take(
    service: &Service,
    caller: &Caller,
    params: wire::EditorCallsParams,
) -> Result<Vec<NumberedCall>> {
    caller.require_operator()?;
    let agent = find_id(service, caller, &params.agent_id)?;
    let presence = EditorPresence {
        editor: params.editor_id,
        terminals: params.terminals,
        files: params.files,
    };
    let range = EditorCallRange {
        after: params.after,
        wait_ms: params.wait_ms,
    };
    let calls = service.take_editor_calls(caller, &agent, presence, range);
    let calls = calls.await?.into_iter();
    Ok(calls.map(|(id, call)| NumberedCall { id, call }).collect())
}

#[expect(clippy::unused_async, reason = "the dispatcher awaits every operation")]
pub(crate) async fn answer(
    service: &Service,
    caller: &Caller,
    params: wire::AnswerEditorCallParams,
) -> Result<()> {
    caller.require_operator()?;
    let agent = find_id(service, caller, &params.agent_id)?;
    let reply = convert::json(params.reply);
    service.answer_editor_call(caller, &agent, &params.editor_id, params.call_id, &reply)?;
    Ok(())
}
