//! Addresses that deny one ask: `/notify/deny/ASK.CHANNEL.CODE`.
//!
//! The code is computed from the ask and the channel with a key of the host, so that nothing has to be
//! stored, and an address outlives a restart. Invariants: an address denies exactly one ask and can do
//! nothing else; once the ask has ended, however it did, the address does nothing.

use countersign_core::ApprovalId;
use countersign_notify::NotifyKeys;

use super::text::{NoticeDetail, can_be_denied};

/// Makes the addresses that one channel carries.
pub(super) struct DenyLinks<'a> {
    pub(super) keys: &'a NotifyKeys,
    pub(super) channel: &'a str,
}

impl DenyLinks<'_> {
    /// The address that denies the ask, if it can be denied without being read.
    pub(super) fn path_for(&self, detail: &NoticeDetail) -> Option<String> {
        let NoticeDetail::Ask { ask, .. } = detail else {
            return None;
        };
        // A separator inside an id would let two asks share an address.
        let separate = !ask.id.as_str().contains(['.', '/', '%', '?', '#']);
        (can_be_denied(ask) && separate).then(|| {
            let code = self.keys.code_for(&covered(&ask.id, self.channel));
            format!("/notify/deny/{}.{}.{code}", ask.id, self.channel)
        })
    }
}

/// The ask and the channel of an address, if this host made it.
pub(super) fn parse_deny_code(keys: &NotifyKeys, text: &str) -> Option<(ApprovalId, String)> {
    let (subject, code) = text.rsplit_once('.')?;
    let (ask, channel) = subject.split_once('.')?;
    let ask = ApprovalId::new(ask);
    let made_here = keys.is_code_for(&covered(&ask, channel), code);
    made_here.then(|| (ask, channel.to_owned()))
}

fn covered(ask: &ApprovalId, channel: &str) -> String {
    format!("deny\n{ask}\n{channel}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::test_support;
    use super::*;

    fn detail(id: &str) -> NoticeDetail {
        NoticeDetail::Ask {
            ask: Arc::new(test_support::ask(json!({"id": id}))),
            agent: None,
        }
    }

    #[test]
    fn an_address_names_the_ask_it_was_made_for_and_no_other() {
        let keys = NotifyKeys::generate().unwrap();
        let links = DenyLinks {
            keys: &keys,
            channel: "webhook:hooks.example",
        };
        let path = links.path_for(&detail("approval-1")).unwrap();
        let text = path.strip_prefix("/notify/deny/").unwrap();
        let expected = (
            ApprovalId::new("approval-1"),
            "webhook:hooks.example".to_owned(),
        );
        assert_eq!(parse_deny_code(&keys, text), Some(expected));
        for wrong in [
            text.replace("approval-1", "approval-2"),
            text.replace("hooks", "other"),
            text[..text.len() - 1].to_owned(),
            String::new(),
            "..".to_owned(),
        ] {
            assert_eq!(parse_deny_code(&keys, &wrong), None, "{wrong}");
        }
        let other = NotifyKeys::generate().unwrap();
        assert_eq!(parse_deny_code(&other, text), None);
    }

    #[test]
    fn an_ask_whose_id_could_be_read_as_another_has_no_address() {
        let keys = NotifyKeys::generate().unwrap();
        let links = DenyLinks {
            keys: &keys,
            channel: "ntfy",
        };
        assert_eq!(links.path_for(&detail("a.b")), None);
    }
}
