//! Notes to people: which of them are listed, and for how long.
//!
//! A note needs no answer, so it is listed for a while and not until something ends it.

use countersign_protocol::{EventsParams, HostEvent, Kinds, Reason, method};

use crate::client::{CallError, HostClient};
use crate::duration;
use crate::render::decisions;
pub(crate) use crate::render::notes::{LISTED_MAX, is_recent};

/// How many events are looked through. Notes that orchestrators read are among them.
const SEARCHED_MAX: u64 = 500;

/// The notes that are listed, oldest first.
pub(crate) async fn recent(
    client: &mut HostClient,
    agent_id: Option<String>,
) -> Result<Vec<HostEvent>, CallError> {
    let params = EventsParams {
        after: None,
        before: None,
        limit: Some(SEARCHED_MAX),
        kinds: Some(Kinds(vec![decisions::NOTE.to_owned()])),
        agent_id,
    };
    let mut notes = match client.call::<method::Events>(&params).await {
        // Agents may list their asks, and not the record.
        Err(error) if error.reason() == Some(Reason::AgentNotAllowed) => return Ok(Vec::new()),
        found => found?,
    };
    let now = duration::now();
    notes
        .retain(|note| is_recent(note.timestamp, now) && decisions::note_to_people(note).is_some());
    notes.sort_by_key(|note| note.sequence);
    notes.drain(..notes.len().saturating_sub(LISTED_MAX));
    Ok(notes)
}
