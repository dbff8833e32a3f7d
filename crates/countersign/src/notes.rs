//! Notes to people: which of them are listed, and for how long.
//!
//! A note needs no answer, so it is listed for a while and not until something ends it.

use countersign_protocol::{EventsParams, HostEvent, Kinds, Reason, Time, method};

use crate::client::{CallError, HostClient};
use crate::duration;
use crate::render::decisions;

/// How long notes are listed: a day, so that those of a night are seen in the morning.
const LISTED_MICROS: u64 = 24 * 3_600_000_000;
/// How many of them at most.
pub(crate) const LISTED_MAX: usize = 20;
/// How many events are looked through. Notes that orchestrators read are among them.
const SEARCHED_MAX: u64 = 500;

/// Whether a note from then is still listed.
pub(crate) fn is_recent(sent: Time, now: Time) -> bool {
    sent.0 >= now.0.saturating_sub(LISTED_MICROS)
}

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
