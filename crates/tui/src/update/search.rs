//! Searching transcripts, and going to what was found.

use countersign_protocol::{SearchHitRow, SearchParams, method};

use crate::host_call::{CallFailure, CallLane, CallResult, HostCall, ReplyTag, parse_result};
use crate::layout::{PanelKind, PanelSpec};
use crate::message::Effect;
use crate::model::{Model, TextPurpose};
use crate::transcript_search::{TranscriptGoal, TranscriptSearch};

use super::{commands, overlays, say};

/// Hits in one page.
const PAGE_HITS: u64 = 100;
/// Rows before the end at which older hits are read.
const READ_AHEAD: usize = 20;
/// Among the pages that are being read.
const LOADING: &str = "search";

/// Goes to what was found last, and asks what to search for.
pub(super) fn ask_text(model: &mut Model) -> Vec<Effect> {
    commands::go(model, PanelKind::Search);
    let start = model.search.text.clone();
    overlays::open_text(model, TextPurpose::Search, &start)
}

/// Begins a search. What an earlier one finds from now on is left out.
pub(super) fn begin(model: &mut Model, text: &str) -> Vec<Effect> {
    if !model.host.is_up() {
        return say(model, "not connected: nothing can be searched");
    }
    model.search = TranscriptSearch::new(text);
    let panel = model.focused_panel().id;
    model.view_mut(&panel).cursor = 0;
    model.loading.remove(LOADING);
    read_page(model)
}

/// Searches once more for the same words.
pub(super) fn reload(model: &mut Model) -> Vec<Effect> {
    let text = model.search.text.clone();
    if text.is_empty() {
        return ask_text(model);
    }
    begin(model, &text)
}

/// Reads the page that follows what is known.
fn read_page(model: &mut Model) -> Vec<Effect> {
    if !model.host.is_up() || !model.loading.insert(LOADING.to_owned()) {
        return Vec::new();
    }
    let params = SearchParams {
        text: model.search.text.clone(),
        agent_id: None,
        limit: Some(PAGE_HITS),
        before: model.search.next(),
    };
    let tag = ReplyTag::SearchPage {
        text: params.text.clone(),
        before: params.before,
    };
    vec![Effect::Call(HostCall::new::<method::Search>(
        CallLane::Read,
        &params,
        tag,
    ))]
}

pub(super) fn take_page(
    model: &mut Model,
    text: &str,
    before: Option<u64>,
    result: CallResult,
) -> Result<Vec<Effect>, CallFailure> {
    // Something else is searched for by now, or the same from the beginning.
    let is_wanted = model.search.text == text && model.search.next() == before;
    if !is_wanted || !model.loading.remove(LOADING) {
        return Ok(Vec::new());
    }
    // Also after a failure, so that the panel does not say that it waits.
    model.search.is_loaded = true;
    let page = parse_result::<method::Search>(result)?;
    let goes_on = page.hits.is_empty() && page.next.is_some();
    model.search.append_page(page);
    if goes_on {
        // The host looked through as much as it does at once, and found nothing there.
        return Ok(read_page(model));
    }
    Ok(Vec::new())
}

pub(super) fn move_cursor(model: &mut Model, panel: &PanelSpec, steps: isize) -> Vec<Effect> {
    let count = model.search_rows().len();
    let view = model.view_mut(&panel.id);
    view.cursor = view
        .cursor
        .saturating_add_signed(steps)
        .min(count.saturating_sub(1));
    let is_near_end = view.cursor + READ_AHEAD >= count;
    if is_near_end && steps > 0 && model.search.next().is_some() {
        return read_page(model);
    }
    Vec::new()
}

/// The hit in the selected row.
fn selected_hit(model: &Model) -> Option<SearchHitRow> {
    let cursor = model.view(&model.focused_panel().id).cursor;
    let rows = model.search_rows();
    let last = rows.len().checked_sub(1)?;
    rows.get(cursor.min(last)).map(|row| (*row).clone())
}

/// Shows a hit where it stands in its transcript.
pub(super) fn open_selected(model: &mut Model) -> Vec<Effect> {
    let Some(hit) = selected_hit(model) else {
        return ask_text(model);
    };
    if !model.host.agents.contains_key(&hit.agent_id) {
        return say(model, "the agent that this is about is not there any more");
    }
    let found = hit.excerpt.into_iter().find(|piece| piece.hit);
    model.transcript_goal = Some(TranscriptGoal {
        agent: hit.agent_id.clone(),
        sequence: hit.sequence,
        entry: usize::try_from(hit.entry).unwrap_or(usize::MAX),
        text: found.map(|piece| piece.text).unwrap_or_default(),
    });
    model.selected_agent = Some(hit.agent_id);
    commands::go(model, PanelKind::Transcript)
}
