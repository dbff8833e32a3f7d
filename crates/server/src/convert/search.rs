//! Hits of a search on the wire.

use countersign_core::ExcerptPiece;
use countersign_core::event::SearchedKind;
use countersign_daemon::{SearchHit, SearchPage};
use countersign_protocol::{ExcerptRow, SearchHitKind, SearchHitRow, SearchResult};

use super::{AgentNames, time};

pub(super) fn page(page: &SearchPage, names: AgentNames<'_>) -> SearchResult {
    SearchResult {
        hits: page.hits.iter().map(|found| hit(found, names)).collect(),
        next: page.next.map(|seq| seq.0),
    }
}

fn hit(hit: &SearchHit, names: AgentNames<'_>) -> SearchHitRow {
    SearchHitRow {
        agent_id: hit.agent.to_string(),
        agent_name: names.find(&hit.agent),
        entry: hit.entry as u64,
        excerpt: hit.excerpt.iter().map(piece).collect(),
        kind: kind(hit.kind),
        sequence: hit.seq.0,
        timestamp: time(hit.at),
        turn: hit.turn,
    }
}

fn piece(piece: &ExcerptPiece) -> ExcerptRow {
    ExcerptRow {
        hit: piece.is_hit,
        text: piece.text.clone(),
    }
}

fn kind(kind: SearchedKind) -> SearchHitKind {
    match kind {
        SearchedKind::User => SearchHitKind::User,
        SearchedKind::Assistant => SearchHitKind::Assistant,
        SearchedKind::Thinking => SearchHitKind::Thinking,
        SearchedKind::ToolUse => SearchHitKind::ToolUse,
        SearchedKind::Plan => SearchHitKind::Plan,
        SearchedKind::Notice => SearchHitKind::Notice,
    }
}
