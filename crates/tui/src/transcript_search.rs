//! What was found in transcripts, newest first. Pure.

use countersign_protocol::{SearchHitRow, SearchResult};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranscriptSearch {
    /// What was searched for last; empty if nothing was.
    pub text: String,
    hits: Vec<SearchHitRow>,
    /// Where the next page begins.
    next: Option<u64>,
    /// Whether the first page was read.
    pub is_loaded: bool,
}

impl TranscriptSearch {
    pub fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    pub fn hits(&self) -> &[SearchHitRow] {
        &self.hits
    }

    /// The cursor of the next page, if there may be one.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Takes in the page that follows what is known.
    pub fn append_page(&mut self, page: SearchResult) {
        self.is_loaded = true;
        self.hits.extend(page.hits);
        self.next = page.next;
    }
}

/// A place in a transcript that somebody wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptGoal {
    pub agent: String,
    /// The part.
    pub sequence: u64,
    /// The entry of the part.
    pub entry: usize,
    /// A text in that entry, as it came.
    pub text: String,
}
