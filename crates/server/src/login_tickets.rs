//! One-time tickets, with which a browser gets its cookie. A token in the address would stay in the
//! browser's history and in logs; a ticket there is useless after its first use.

use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::Timestamp;
use countersign_core::limits::{TICKET_MS, TICKETS_MAX};
use countersign_daemon::new_secret;
use countersign_protocol::Reason;
use subtle::ConstantTimeEq as _;

use crate::api_error::ApiError;

/// Tickets that were not used yet. In memory only: a restart ends them.
#[derive(Default)]
pub(crate) struct LoginTickets {
    waiting: Mutex<Vec<IssuedTicket>>,
}

struct IssuedTicket {
    secret: String,
    name: Arc<str>,
    expires_at: Timestamp,
}

impl LoginTickets {
    pub(crate) fn issue(
        &self,
        name: &Arc<str>,
        now: Timestamp,
    ) -> Result<(String, Timestamp), ApiError> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the count, so that unused tickets keep nobody out for longer than they are valid.
        waiting.retain(|ticket| now < ticket.expires_at);
        if waiting.len() >= TICKETS_MAX {
            return Err(ApiError::refused(
                Reason::TooMany,
                "too many login links wait to be used",
            ));
        }
        let (secret, expires_at) = (new_secret(), now.plus_ms(TICKET_MS));
        waiting.push(IssuedTicket {
            secret: secret.clone(),
            name: name.clone(),
            expires_at,
        });
        Ok((secret, expires_at))
    }

    /// Whether a ticket could be redeemed now.
    pub(crate) fn is_valid(&self, secret: &str, now: Timestamp) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        find_ticket(&waiting, secret).is_some_and(|found| now < waiting[found].expires_at)
    }

    /// Uses a ticket up and returns the name that it was issued to; `None` if it is not valid.
    pub(crate) fn redeem(&self, secret: &str, now: Timestamp) -> Option<Arc<str>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let found = find_ticket(&waiting, secret)?;
        // Removed under the same lock that found it, so that of two uses at once only one succeeds.
        let ticket = waiting.swap_remove(found);
        (now < ticket.expires_at).then_some(ticket.name)
    }
}

fn find_ticket(waiting: &[IssuedTicket], secret: &str) -> Option<usize> {
    // In constant time: unlike a token, a ticket is kept as it is and not as a hash, so the time of
    // a comparison could tell how much of a guess is right.
    waiting
        .iter()
        .position(|ticket| ticket.secret.as_bytes().ct_eq(secret.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_works_once_and_in_time() {
        let tickets = LoginTickets::default();
        let (secret, expires_at) = tickets.issue(&"ann".into(), Timestamp(0)).unwrap();
        assert_eq!(tickets.redeem("wrong", Timestamp(1)), None);
        assert!(tickets.is_valid(&secret, Timestamp(1)));
        assert!(!tickets.is_valid("wrong", Timestamp(1)));
        assert!(!tickets.is_valid(&secret, expires_at));
        assert_eq!(
            tickets.redeem(&secret, Timestamp(1)).as_deref(),
            Some("ann")
        );
        assert_eq!(tickets.redeem(&secret, Timestamp(1)), None);
        let (late, _) = tickets.issue(&"ann".into(), Timestamp(0)).unwrap();
        assert_eq!(tickets.redeem(&late, expires_at), None);
    }
}
