//! What the file says about notifications.
//!
//! Invariant: secrets are never in the file itself, only in files that their user alone can read.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use countersign_core::limits::{NOTIFY_SECRET_BYTES_MAX, NOTIFY_WEBHOOKS_MAX};
use countersign_daemon::{
    ChannelSettings, ChannelTarget, NoticeContent, NoticeKind, NotifySettings, NtfyChannel,
    QuietHours, WebhookChannel, check_address,
};
use serde::Deserialize;

use crate::error::CliError;
use crate::paths::current_uid;

/// How people elsewhere are told. Nothing is sent anywhere unless the file says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifyConfig {
    /// A program and its arguments.
    #[serde(default)]
    command: Option<CommandSetting>,
    #[serde(default)]
    ntfy: Option<NtfyConfig>,
    #[serde(default)]
    webhook: WebhookList,
    #[serde(default)]
    quiet: Option<QuietSetting>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct NtfyConfig {
    server: ServerAddress,
    topic: TopicName,
    #[serde(default)]
    token_file: Option<PathBuf>,
    #[serde(default)]
    content: Option<ContentSetting>,
    #[serde(default)]
    kinds: Option<KindList>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookConfig {
    url: ServerAddress,
    #[serde(default)]
    secret_file: Option<PathBuf>,
    #[serde(default)]
    content: Option<ContentSetting>,
    #[serde(default)]
    kinds: Option<KindList>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ContentSetting {
    Names,
    Full,
}

impl From<ContentSetting> for NoticeContent {
    fn from(setting: ContentSetting) -> Self {
        match setting {
            ContentSetting::Names => Self::Names,
            ContentSetting::Full => Self::Full,
        }
    }
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
struct CommandSetting(Vec<String>);

impl TryFrom<Vec<String>> for CommandSetting {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        match words.first().map(String::as_str) {
            None | Some("") => Err(
                "`command` needs a program, like `[\"notify-send\", \"{title}\", \"{text}\"]`"
                    .to_owned(),
            ),
            Some(_) => Ok(Self(words)),
        }
    }
}

/// An address that messages and secrets may be sent to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct ServerAddress {
    text: String,
    host: String,
}

impl TryFrom<String> for ServerAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let address = check_address(&text).map_err(|error| error.to_string())?;
        let host = address.host_str().unwrap_or_default().to_owned();
        Ok(Self { text, host })
    }
}

/// What ntfy accepts as a topic.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct TopicName(String);

impl TryFrom<String> for TopicName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_plain = text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if is_plain && (1..=64).contains(&text.len()) {
            Ok(Self(text))
        } else {
            Err(format!(
                "`{text}` is not a topic: 1 to 64 letters, digits, `-` and `_`"
            ))
        }
    }
}

/// Which events are told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
struct KindList(Vec<NoticeKind>);

impl TryFrom<Vec<String>> for KindList {
    type Error = String;

    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let read = names.iter().map(|name| {
            let mut kinds = NoticeKind::ALL.into_iter();
            kinds.find(|kind| kind.name() == name).ok_or_else(|| {
                let known = NoticeKind::ALL
                    .map(|kind| format!("`{}`", kind.name()))
                    .join(", ");
                format!("`{name}` cannot be told, expected some of {known}")
            })
        });
        read.collect::<Result<_, _>>().map(Self)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<WebhookConfig>")]
struct WebhookList(Vec<WebhookConfig>);

impl TryFrom<Vec<WebhookConfig>> for WebhookList {
    type Error = String;

    fn try_from(webhooks: Vec<WebhookConfig>) -> Result<Self, String> {
        if webhooks.len() > NOTIFY_WEBHOOKS_MAX {
            return Err(format!(
                "at most {NOTIFY_WEBHOOKS_MAX} webhooks can be told"
            ));
        }
        Ok(Self(webhooks))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct QuietSetting(QuietHours);

impl TryFrom<String> for QuietSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

/// Where a host keeps its keys, and what its links say.
pub(crate) struct NotifyPlaces {
    /// Relative paths of secrets start here.
    pub(crate) config_dir: PathBuf,
    pub(crate) key_file: PathBuf,
    pub(crate) public_url: Option<String>,
}

impl NotifyConfig {
    /// Everything a host needs, with the secrets read.
    pub(crate) fn settings(&self, places: NotifyPlaces) -> Result<NotifySettings, CliError> {
        let mut channels = Vec::new();
        channels.extend(self.command.as_ref().map(command_channel));
        if let Some(ntfy) = &self.ntfy {
            channels.push(ntfy.channel(&places.config_dir)?);
        }
        for webhook in &self.webhook.0 {
            let mut channel = webhook.channel(&places.config_dir)?;
            channel.name = unused_name(&channels, &channel.name);
            channels.push(channel);
        }
        Ok(NotifySettings {
            channels,
            quiet: self.quiet.map(|setting| setting.0),
            public_url: places.public_url,
            key_file: Some(places.key_file),
        })
    }

    /// Files with secrets, which no agent may read.
    pub(crate) fn secret_files(&self, config_dir: &Path) -> Vec<PathBuf> {
        let token = self.ntfy.as_ref().and_then(|ntfy| ntfy.token_file.as_ref());
        let webhooks = self.webhook.0.iter();
        let secrets = webhooks.filter_map(|webhook| webhook.secret_file.as_ref());
        token
            .into_iter()
            .chain(secrets)
            .map(|file| config_dir.join(file))
            .collect()
    }
}

impl NtfyConfig {
    fn channel(&self, config_dir: &Path) -> Result<ChannelSettings, CliError> {
        let token = self.token_file.as_ref();
        let token = token
            .map(|file| read_secret(&config_dir.join(file)))
            .transpose()?;
        let target = NtfyChannel {
            server: self.server.text.clone(),
            topic: self.topic.0.clone(),
            token,
        };
        Ok(ChannelSettings {
            name: "ntfy".to_owned(),
            target: ChannelTarget::Ntfy(target),
            // Whoever knows the topic can read it.
            content: self.content.unwrap_or(ContentSetting::Names).into(),
            kinds: kinds(self.kinds.as_ref()),
            owner: None,
        })
    }
}

impl WebhookConfig {
    fn channel(&self, config_dir: &Path) -> Result<ChannelSettings, CliError> {
        let file = self.secret_file.as_ref().map(|file| config_dir.join(file));
        let secret = file.as_deref().map(read_secret).transpose()?;
        let target = WebhookChannel::new(self.url.text.clone(), secret.as_deref());
        let target = target.map_err(|error| {
            let file = file.unwrap_or_default();
            CliError::failed(format!(
                "`{}` does not contain a valid webhook secret: {error}",
                file.display()
            ))
        })?;
        Ok(ChannelSettings {
            name: format!("webhook:{}", self.url.host),
            target: ChannelTarget::Webhook(target),
            content: self.content.unwrap_or(ContentSetting::Full).into(),
            kinds: kinds(self.kinds.as_ref()),
            owner: None,
        })
    }
}

fn command_channel(command: &CommandSetting) -> ChannelSettings {
    ChannelSettings {
        name: "command".to_owned(),
        target: ChannelTarget::Command(command.0.clone()),
        content: NoticeContent::Full,
        kinds: NoticeKind::ALL.to_vec(),
        owner: None,
    }
}

fn kinds(setting: Option<&KindList>) -> Vec<NoticeKind> {
    setting.map_or_else(|| NoticeKind::ALL.to_vec(), |list| list.0.clone())
}

/// The name, or one with a number where two webhooks have the same host. A channel's cursor is found by
/// its name.
fn unused_name(channels: &[ChannelSettings], name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|name| channels.iter().all(|channel| channel.name != *name))
        .unwrap_or_default()
}

/// The text of a file that only its user can read.
fn read_secret(path: &Path) -> Result<String, CliError> {
    let shown = path.display();
    let file = std::fs::File::open(path).map_err(|source| CliError::file("read", path, source))?;
    let found = file
        .metadata()
        .map_err(|source| CliError::file("read", path, source))?;
    if !found.is_file() {
        return Err(CliError::failed(format!("`{shown}` is not a file")));
    }
    if found.uid() != current_uid() {
        return Err(CliError::failed(format!(
            "`{shown}` belongs to user {}",
            found.uid()
        )));
    }
    if found.mode() & 0o077 != 0 {
        let message = format!(
            "`{shown}` can be read by others (mode {:o})",
            found.mode() & 0o777
        );
        return Err(CliError::failed(message).with_hint(format!("chmod 600 {shown}")));
    }
    let mut text = String::new();
    let read = file.take(NOTIFY_SECRET_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|source| CliError::file("read", path, source))?;
    let secret = text.trim();
    let is_plain = secret
        .chars()
        .all(|character| character.is_ascii_graphic() || character == ' ');
    if secret.is_empty() || !is_plain {
        return Err(CliError::failed(format!(
            "`{shown}` does not hold one line with a secret"
        )));
    }
    Ok(secret.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::HostConfig;

    fn parse(text: &str) -> Result<NotifyConfig, String> {
        HostConfig::parse(&format!("[notify]\n{text}\n")).map(|config| config.notify)
    }

    fn settings(text: &str, folder: &Path) -> Result<NotifySettings, CliError> {
        parse(text).unwrap().settings(NotifyPlaces {
            config_dir: folder.to_owned(),
            key_file: folder.join("notify.keys"),
            public_url: Some("https://box.example".to_owned()),
        })
    }

    fn write_secret(folder: &Path, text: &str, mode: u32) {
        let path = folder.join("secret");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn nothing_is_told_unless_the_file_says_so() {
        let scratch = tempfile::tempdir().unwrap();
        assert!(settings("", scratch.path()).unwrap().channels.is_empty());
    }

    #[test]
    fn channels_have_names_of_their_own_and_their_secrets() {
        let scratch = tempfile::tempdir().unwrap();
        write_secret(scratch.path(), "a secret of twenty-four bytes\n", 0o600);
        let text = r#"
            command = ["notify-send", "{title}"]
            ntfy = { server = "https://ntfy.example", topic = "asks", token_file = "secret" }
            webhook = [
                { url = "https://hooks.example/a", secret_file = "secret", kinds = ["agent.exited"] },
                { url = "https://hooks.example/b", content = "names" },
            ]
            quiet = "22:00-07:00""#;
        let settings = settings(text, scratch.path()).unwrap();
        let told: Vec<_> = settings
            .channels
            .iter()
            .map(|channel| (channel.name.as_str(), channel.content, channel.kinds.len()))
            .collect();
        let expected = [
            ("command", NoticeContent::Full, 4),
            ("ntfy", NoticeContent::Names, 4),
            ("webhook:hooks.example", NoticeContent::Full, 1),
            ("webhook:hooks.example-2", NoticeContent::Names, 4),
        ];
        assert_eq!(told, expected);
        assert_eq!(settings.quiet, Some("22:00-07:00".parse().unwrap()));
        let ChannelTarget::Ntfy(ntfy) = &settings.channels[1].target else {
            panic!("the second channel is ntfy")
        };
        assert_eq!(ntfy.token.as_deref(), Some("a secret of twenty-four bytes"));
        let secret = scratch.path().join("secret");
        let files = parse(text).unwrap().secret_files(scratch.path());
        assert_eq!(files, [secret.clone(), secret]);
    }

    #[test]
    fn wrong_values_are_named_with_their_line() {
        for (text, message) in [
            ("command = []", "line 2: `command` needs a program"),
            (
                r#"ntfy = { server = "http://ntfy.example", topic = "a" }"#,
                "line 2: `http://ntfy.example` is not encrypted",
            ),
            (
                r#"ntfy = { server = "https://ntfy.example", topic = "a b" }"#,
                "line 2: `a b` is not a topic",
            ),
            (
                r#"ntfy = { server = "https://ntfy.example", topic = "a", token = "tk" }"#,
                "line 2: unknown field `token`",
            ),
            (
                r#"webhook = [{ url = "https://a.example", kinds = ["approval"] }]"#,
                "line 2: `approval` cannot be told, expected some of `approval.requested`",
            ),
            (r#"quiet = "late""#, "line 2: `late` is not a time span"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_secret_that_others_can_read_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let text =
            r#"ntfy = { server = "https://ntfy.example", topic = "a", token_file = "secret" }"#;
        let error = |content: &str, mode: u32| {
            write_secret(scratch.path(), content, mode);
            settings(text, scratch.path())
                .err()
                .map(|error| error.to_string())
        };
        let shown = scratch.path().join("secret").display().to_string();
        let open = format!("`{shown}` can be read by others (mode 644)");
        assert_eq!(error("tk_1", 0o644), Some(open));
        let empty = format!("`{shown}` does not hold one line with a secret");
        assert_eq!(error(" \n", 0o600), Some(empty.clone()));
        assert_eq!(error("a\nb", 0o600), Some(empty));
        assert_eq!(error("tk_1\n", 0o600), None);
    }
}
