//! Finding the host again: it may be killed, upgraded or replaced while somebody waits.
//!
//! Invariant: only a connection that was lost is made anew; a host that says no has answered.

use std::time::{Duration, Instant};

use crate::client::{HostClient, HostEndpoint};
use crate::error::CliError;
use crate::output;

/// The first pause before a new try; each next one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long to look for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryLimit {
    /// A replaced host is back long before: for whoever wants an answer.
    Short,
    /// For whoever follows until told to stop.
    Unlimited,
}

impl RetryLimit {
    fn limit(self) -> Option<Duration> {
        match self {
            Self::Short => Some(Duration::from_secs(30)),
            Self::Unlimited => None,
        }
    }
}

/// Whether a new connection may help.
pub(crate) fn is_lost(error: &CliError) -> bool {
    match error {
        // A host that is about to end may accept a connection and close it, which looks like a failed
        // handshake.
        CliError::NoHost { .. } | CliError::Handshake { .. } => true,
        CliError::Call(error) => error.is_connection(),
        _ => false,
    }
}

/// Tries until a host answers, and says so. When patience is over, gives the reason of the last try.
pub(crate) async fn reconnect(
    endpoint: &HostEndpoint,
    patience: RetryLimit,
) -> Result<HostClient, CliError> {
    output::print_message("lost the host; waiting for it");
    let client = find_host(endpoint, patience).await?;
    output::print_message("reconnected to the host");
    Ok(client)
}

/// The same without a word, for whoever has given the terminal to another program.
pub(crate) async fn find_host(
    endpoint: &HostEndpoint,
    patience: RetryLimit,
) -> Result<HostClient, CliError> {
    let give_up = patience.limit().map(|limit| Instant::now() + limit);
    let mut pause = PAUSE_FIRST;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
        match HostClient::connect(endpoint).await {
            Ok(client) => return Ok(client),
            Err(error) if !is_lost(&error) => return Err(error),
            Err(error) if give_up.is_some_and(|at| Instant::now() >= at) => return Err(error),
            Err(_) => {}
        }
    }
}
