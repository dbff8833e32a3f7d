//! Searching transcripts, as far as it is the same for every backend.
//!
//! Invariants: an index only proposes parts of transcripts; whether one matches is decided on its payload, so that
//! what was erased is not found whatever an index still holds. Parts are looked through newest first, and a page ends
//! at a bound on what was read, with the place where the next one begins.

use std::ops::ControlFlow;

use countersign_core::event::{SearchedKind, TranscriptAdded};
use countersign_core::limits::PAGE_BYTES_MAX;
use countersign_core::{AgentId, ExcerptPiece, Seq, Timestamp, WordQuery, excerpt};

/// What to look for in transcripts.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    pub words: WordQuery,
    /// Only in the transcripts of these agents; `None` for all.
    pub agents: Option<Vec<AgentId>>,
    /// Only in parts older than this event: the cursor of the next page.
    pub before: Option<Seq>,
    /// At most this many hits.
    pub limit: usize,
}

/// An entry of a transcript in which all words are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// The part that it belongs to.
    pub seq: Seq,
    pub at: Timestamp,
    pub agent: AgentId,
    pub turn: u32,
    /// Which entry of the part, counted from 0.
    pub entry: usize,
    pub kind: SearchedKind,
    pub excerpt: Vec<ExcerptPiece>,
}

/// Hits, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchPage {
    pub hits: Vec<SearchHit>,
    /// The `before` of the next page. Nothing if everything was looked through.
    pub next: Option<Seq>,
}

/// A page while it is filled with parts, newest first.
pub(crate) struct SearchCollector<'a> {
    query: &'a SearchQuery,
    page: SearchPage,
    bytes: usize,
}

impl<'a> SearchCollector<'a> {
    pub(crate) fn new(query: &'a SearchQuery) -> Self {
        Self {
            query,
            page: SearchPage::default(),
            bytes: 0,
        }
    }

    /// Whether the transcript of an agent is to be looked through.
    pub(crate) fn wants(&self, agent: &AgentId) -> bool {
        let agents = self.query.agents.as_ref();
        agents.is_none_or(|agents| agents.contains(agent))
    }

    /// Takes the hits of a part, of which `bytes` were read.
    pub(crate) fn take(
        &mut self,
        seq: Seq,
        at: Timestamp,
        part: &TranscriptAdded,
        bytes: usize,
    ) -> ControlFlow<()> {
        let mut hits = find_hits(self.query, seq, at, part);
        let room = self.query.limit.saturating_sub(self.page.hits.len());
        if hits.len() > room && !self.page.hits.is_empty() {
            // The part begins the next page, so that none of its hits is lost between two.
            self.page.next = Some(seq.next());
            return ControlFlow::Break(());
        }
        hits.truncate(room);
        self.page.hits.extend(hits);
        self.bytes += bytes;
        if self.page.hits.len() >= self.query.limit || self.bytes >= PAGE_BYTES_MAX {
            self.page.next = Some(seq);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    pub(crate) fn finish(self) -> SearchPage {
        self.page
    }
}

/// The entries of a part that match, newest first.
fn find_hits(
    query: &SearchQuery,
    seq: Seq,
    at: Timestamp,
    part: &TranscriptAdded,
) -> Vec<SearchHit> {
    let entries = part.entries.iter().enumerate().rev();
    let hits = entries.filter_map(|(entry, said)| {
        let (kind, text) = said.searched_text()?;
        let places = query.words.find(&text)?;
        Some(SearchHit {
            seq,
            at,
            agent: part.agent.clone(),
            turn: part.turn,
            entry,
            kind,
            excerpt: excerpt(&text, &places),
        })
    });
    hits.collect()
}
