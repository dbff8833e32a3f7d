//! A message for a person, ready to be sent.

use countersign_core::Timestamp;

/// One message. What is in it is everything that leaves the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyMessage {
    /// The same for every attempt to tell the same thing, whichever host makes it: receivers tell a
    /// repetition by it.
    pub id: String,
    /// The kind of event it is about, `digest` or `test`.
    pub kind: &'static str,
    /// One line, escaped.
    pub title: String,
    /// A short text, escaped.
    pub text: String,
    /// The public address of the host, without a slash at its end.
    pub public_url: Option<String>,
    /// The page on the host to read on.
    pub path: Option<String>,
    /// Where on the host a `POST` denies the ask. There is no address that allows one.
    pub deny_path: Option<String>,
    /// The name of the agent, escaped.
    pub agent: Option<String>,
    /// The id of the ask or question.
    pub subject: Option<String>,
    /// When it happened.
    pub at: Timestamp,
    /// Whether somebody waits for an answer.
    pub waits: bool,
}

impl NotifyMessage {
    /// Where to read on, for a receiver elsewhere.
    pub fn url(&self) -> Option<String> {
        Some(format!(
            "{}{}",
            self.public_url.as_ref()?,
            self.path.as_ref()?
        ))
    }

    /// Where a receiver elsewhere can deny the ask.
    pub fn deny_url(&self) -> Option<String> {
        Some(format!(
            "{}{}",
            self.public_url.as_ref()?,
            self.deny_path.as_ref()?
        ))
    }

    /// When it happened, as RFC 3339 has it.
    pub(crate) fn time(&self) -> String {
        let micros = i64::try_from(self.at.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_microsecond(micros)
            .unwrap_or(jiff::Timestamp::MAX)
            .to_string()
    }
}

#[cfg(test)]
pub(crate) fn sample() -> NotifyMessage {
    NotifyMessage {
        id: "evt_7_1700000000000000".to_owned(),
        kind: "approval.requested",
        title: "fix asks: Bash".to_owned(),
        text: "cargo test".to_owned(),
        public_url: Some("https://box.example".to_owned()),
        path: Some("/ask/approval-1".to_owned()),
        deny_path: Some("/notify/deny/SECRET".to_owned()),
        agent: Some("fix".to_owned()),
        subject: Some("approval-1".to_owned()),
        at: Timestamp(1_700_000_000_000_000),
        waits: true,
    }
}
