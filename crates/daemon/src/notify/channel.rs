//! Channels: where a message goes, and how it is sent there.

use countersign_agents::run_user_command;
use countersign_core::{Timestamp, TokenId};
use countersign_notify::{NotifyMessage, NtfyChannel, PushChannel, SendError, WebhookChannel};
use tokio::sync::oneshot;

use super::planner::NoticeKind;
use super::text::NoticeContent;

/// A channel as the user configured it.
#[derive(Clone)]
pub struct ChannelSettings {
    /// How the status and its stored cursor call it.
    pub name: String,
    pub target: ChannelTarget,
    pub content: NoticeContent,
    pub kinds: Vec<NoticeKind>,
    /// The token of whoever asked to be told; once it ends, so does the channel.
    pub owner: Option<TokenId>,
}

/// Where messages go.
#[derive(Clone)]
pub enum ChannelTarget {
    /// A program and its arguments, in which `{title}`, `{text}` and `{url}` are replaced.
    Command(Vec<String>),
    Ntfy(NtfyChannel),
    Webhook(WebhookChannel),
    Push(PushChannel),
}

/// The kinds of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    Command,
    Ntfy,
    Webhook,
    Push,
}

impl ChannelTarget {
    pub fn kind(&self) -> ChannelKind {
        match self {
            Self::Command(_) => ChannelKind::Command,
            Self::Ntfy(_) => ChannelKind::Ntfy,
            Self::Webhook(_) => ChannelKind::Webhook,
            Self::Push(_) => ChannelKind::Push,
        }
    }

    /// Whether a message that may have been sent is sent again after a crash. Receivers of the others
    /// tell a repetition by its id; a program that shows it on a screen cannot.
    pub(super) fn repeats(&self) -> bool {
        !matches!(self, Self::Command(_))
    }

    /// Sends a message once.
    pub(super) async fn send(
        &self,
        message: NotifyMessage,
        now: Timestamp,
    ) -> Result<(), SendError> {
        match self.clone() {
            Self::Command(command) => run_command(&command, &message).await,
            Self::Ntfy(channel) => on_thread(move || channel.send(&message)).await,
            Self::Webhook(channel) => on_thread(move || channel.send(&message, now)).await,
            Self::Push(channel) => on_thread(move || channel.send(&message, now)).await,
        }
    }
}

/// Runs a blocking call on a thread of its own. A channel has one under way at a time, and the end of
/// the host does not wait for it.
async fn on_thread(
    send: impl FnOnce() -> Result<(), SendError> + Send + 'static,
) -> Result<(), SendError> {
    let (answer, wait) = oneshot::channel();
    std::thread::Builder::new()
        .name("notify".to_owned())
        // Whoever waited may have been dropped at the end of the host.
        .spawn(move || drop(answer.send(send())))
        .map_err(|error| SendError::Later(error.to_string()))?;
    let ended = SendError::Later("the sending thread ended early".to_owned());
    wait.await.unwrap_or(Err(ended))
}

async fn run_command(command: &[String], message: &NotifyMessage) -> Result<(), SendError> {
    let url = message.url().unwrap_or_default();
    let deny_url = message.deny_url().unwrap_or_default();
    let words = [
        ("{title}", message.title.as_str()),
        ("{text}", &message.text),
        ("{url}", &url),
    ];
    let command: Vec<String> = command.iter().map(|word| fill_in(word, &words)).collect();
    let variables = [
        ("COUNTERSIGN_ID", message.id.as_str()),
        ("COUNTERSIGN_KIND", message.kind),
        ("COUNTERSIGN_TITLE", &message.title),
        ("COUNTERSIGN_TEXT", &message.text),
        (
            "COUNTERSIGN_AGENT",
            message.agent.as_deref().unwrap_or_default(),
        ),
        ("COUNTERSIGN_URL", &url),
        ("COUNTERSIGN_DENY_URL", &deny_url),
    ];
    let ran = run_user_command(&command, &variables).await;
    ran.map_err(|error| SendError::Refused(error.to_string()))
}

/// Replaces placeholders in one pass, so that none in a message is replaced too.
fn fill_in(word: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(start) = rest.find('{') {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        let found = values.iter().find(|(name, _)| rest.starts_with(name));
        let (name, value) = found.copied().unwrap_or(("{", "{"));
        filled.push_str(value);
        rest = &rest[name.len()..];
    }
    filled.push_str(rest);
    // An agent chooses its name, which a program must not take for an option.
    if filled.starts_with('-') && !word.starts_with('-') {
        filled.insert(0, ' ');
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once_and_never_become_options() {
        let values = [
            ("{title}", "a {text} b"),
            ("{text}", "--exec=x"),
            ("{url}", "u"),
        ];
        for (word, expected) in [
            ("{title}", "a {text} b"),
            ("[{url}] {title}", "[u] a {text} b"),
            ("{text}", " --exec=x"),
            ("--body={text}", "--body=--exec=x"),
            ("{other} {", "{other} {"),
            ("plain", "plain"),
        ] {
            assert_eq!(fill_in(word, &values), expected, "{word}");
        }
    }
}
