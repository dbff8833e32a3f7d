//! Searching transcripts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::scalar::Time;
use crate::states::SearchHitKind;

/// `host.search`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SearchParams {
    /// The words to search for, of which an entry must have all. The last one may be the beginning of a word. At most
    /// 512 bytes; other characters than letters and digits only separate words.
    pub text: String,
    /// Only in the transcript of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// At most this many hits (default: 50); more than 200 counts as 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Only in what is older than this: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

/// One page of hits, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchResult {
    pub hits: Vec<SearchHitRow>,
    /// The `before` of the next page, which may be empty. Absent if everything was searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// An entry of a transcript with all words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchHitRow {
    pub agent_id: String,
    /// Its name, if it is still listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Which entry of its part of the transcript, counted from 0.
    pub entry: u64,
    /// The text around the first word that was found, in pieces that follow each other.
    pub excerpt: Vec<ExcerptRow>,
    pub kind: SearchHitKind,
    /// The part of the transcript, as `host.transcript` numbers it.
    pub sequence: u64,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Time,
    /// The turn it belongs to; 0 before the first.
    pub turn: u32,
}

/// A piece of an excerpt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExcerptRow {
    /// Whether this piece is what was searched for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hit: bool,
    /// The text, in which runs of white space are one space.
    pub text: String,
}
