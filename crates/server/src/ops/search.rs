//! Searching transcripts.
//!
//! Invariant: who may not read a transcript finds nothing in it.

use countersign_core::{Caller, Seq};
use countersign_daemon::{SearchPage, SearchRequest, Service};
use countersign_protocol as wire;
use countersign_protocol::Reason;

use super::agents::find_filter;
use super::{Result, page_rows};
use crate::api_error::ApiError;

/// Default number of hits on one page.
const HITS: usize = 50;

pub(crate) async fn search(
    service: &Service,
    caller: &Caller,
    params: wire::SearchParams,
) -> Result<SearchPage> {
    let words = SearchRequest::parse_words(&params.text)?;
    let words = words.ok_or_else(|| {
        let message = "text has no word to search for";
        ApiError::plain(Reason::InvalidParams, message)
    })?;
    let request = SearchRequest {
        words,
        agent: find_filter(service, caller, params.agent_id).await?,
        before: params.before.map(Seq),
        limit: page_rows(params.limit, HITS),
    };
    Ok(service.search(caller, request).await?)
}
