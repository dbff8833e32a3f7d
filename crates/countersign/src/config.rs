//! The configuration file: where to listen, under which names, and what holds for agents.

mod editor;
mod notify;
mod profile;
mod questions;
mod web;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use countersign_core::limits::{
    HOOK_LIMIT_MS, HOOK_WAIT_MS_MAX, RUNNER_PATIENCE_MS, RUNNER_PATIENCE_MS_MAX,
};
use countersign_protocol::{DecideConfirm, HookEnd};
use countersign_sandbox::SandboxProfile;
use serde::Deserialize;

use crate::error::CliError;

pub(crate) use self::editor::EditorConfig;
pub(crate) use self::notify::{NotifyConfig, NotifyPlaces};
pub(crate) use self::profile::ProfileConfig;
pub(crate) use self::questions::QuestionsConfig;
pub(crate) use self::web::WebConfig;

/// The default address of a host.
pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7766);

const MINUTE_MS: u64 = 60 * 1000;

/// What the file may say. Unknown words are errors: a misspelt one must not be ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostConfig {
    /// `"127.0.0.1:7766"`, or `"none"` for the Unix socket alone.
    #[serde(default)]
    pub(crate) listen: Option<ListenSetting>,
    /// Names besides loopback under which the host may be reached.
    #[serde(default)]
    pub(crate) allow_hosts: Vec<String>,
    #[serde(default)]
    pub(crate) server: ServerConfig,
    #[serde(default)]
    pub(crate) agents: AgentsConfig,
    #[serde(default)]
    pub(crate) hook: HookConfig,
    #[serde(default)]
    pub(crate) questions: QuestionsConfig,
    #[serde(default)]
    pub(crate) web: WebConfig,
    #[serde(default)]
    pub(crate) notify: NotifyConfig,
    #[serde(default)]
    pub(crate) decide: DecideConfig,
    #[serde(default)]
    pub(crate) editor: EditorConfig,
    /// What `spawn --profile NAME` stands for.
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, ProfileConfig>,
    /// What `spawn --sandbox NAME` stands for.
    #[serde(default)]
    pub(crate) sandbox: BTreeMap<String, SandboxProfile>,
}

/// What holds for callers on TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerConfig {
    /// Whether a token alone counts where the calling process cannot be named, as through a forwarded port.
    /// An agent that hides then is whoever its token says.
    #[serde(default)]
    pub(crate) unnamed_callers: bool,
}

/// What holds for screens on which people answer asks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecideConfig {
    /// Which allows need a second act.
    #[serde(default = "always", deserialize_with = "DecideConfirm::strict")]
    pub(crate) confirm: DecideConfirm,
}

impl Default for DecideConfig {
    fn default() -> Self {
        Self { confirm: always() }
    }
}

fn always() -> DecideConfirm {
    DecideConfirm::Always
}

/// What holds for the hooks of sessions that the host does not run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookConfig {
    /// How long a hook waits for a person.
    #[serde(default)]
    pub(crate) limit_seconds: LimitSeconds,
    /// What it says when nobody answered: a no is certain, while `ask` leaves it to whoever happens to
    /// sit at the terminal.
    #[serde(default)]
    pub(crate) on_timeout: HookEnd,
    /// What it says when no host can decide.
    #[serde(default = "ask")]
    pub(crate) without_host: HookEnd,
}

impl Default for HookConfig {
    fn default() -> Self {
        Self {
            limit_seconds: LimitSeconds::default(),
            on_timeout: HookEnd::Deny,
            // As if there were no Countersign: a host that is stopped must not lock people out of their
            // own tools.
            without_host: ask(),
        }
    }
}

fn ask() -> HookEnd {
    HookEnd::Ask
}

/// At least a second and less than a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct LimitSeconds(u64);

impl LimitSeconds {
    const MAX: u64 = HOOK_WAIT_MS_MAX / 1000;

    pub(crate) fn as_secs(self) -> u64 {
        self.0
    }
}

impl Default for LimitSeconds {
    fn default() -> Self {
        Self(HOOK_LIMIT_MS / 1000)
    }
}

impl TryFrom<i64> for LimitSeconds {
    type Error = String;

    fn try_from(seconds: i64) -> Result<Self, String> {
        let seconds = within(seconds, Self::MAX);
        let message = format!("`limit_seconds` must be between 1 and {}", Self::MAX);
        seconds.map(Self).ok_or(message)
    }
}

/// What holds for agents that the host runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentsConfig {
    /// How long they go on without a host.
    #[serde(default)]
    pub(crate) alone_minutes: AloneMinutes,
    /// The sandbox profile of those that are not told otherwise.
    #[serde(default)]
    pub(crate) sandbox: Option<String>,
}

/// At least a minute and at most a week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct AloneMinutes(u64);

impl AloneMinutes {
    const MAX: u64 = RUNNER_PATIENCE_MS_MAX / MINUTE_MS;

    pub(crate) fn as_ms(self) -> u64 {
        self.0 * MINUTE_MS
    }
}

impl Default for AloneMinutes {
    fn default() -> Self {
        Self(RUNNER_PATIENCE_MS / MINUTE_MS)
    }
}

impl TryFrom<i64> for AloneMinutes {
    type Error = String;

    fn try_from(minutes: i64) -> Result<Self, String> {
        within(minutes, Self::MAX).map(Self).ok_or_else(|| {
            format!(
                "`alone_minutes` must be between 1 and {}: agents cannot run without a host for ever; \
                 `countersign down --all` ends them at once",
                Self::MAX
            )
        })
    }
}

/// A number between 1 and `max`.
fn within(number: i64, max: u64) -> Option<u64> {
    let number = u64::try_from(number).ok()?;
    (1..=max).contains(&number).then_some(number)
}

/// Where to listen for TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum ListenSetting {
    None,
    At(SocketAddr),
}

impl std::str::FromStr for ListenSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        let address: SocketAddr = text
            .parse()
            .map_err(|_| format!("`{text}` is no address like `127.0.0.1:7766`, nor `none`"))?;
        // There is no TLS: beyond this machine a token would travel readable.
        if !address.ip().is_loopback() {
            return Err(format!(
                "`{text}` is not a loopback address: reach the host through a tunnel instead"
            ));
        }
        Ok(Self::At(address))
    }
}

impl TryFrom<String> for ListenSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl HostConfig {
    /// Reads the file; none is the same as an empty one.
    pub(crate) fn load(path: &Path) -> Result<Self, CliError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text)
                .map_err(|what| CliError::failed(format!("`{}` {what}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(CliError::file("read", path, source)),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
            format!("line {line}: {}", error.message())
        })?;
        if config.sandbox.contains_key(SandboxProfile::OPEN) {
            return Err(
                "`[sandbox.open]`: `open` stands for no sandbox; choose another name".into(),
            );
        }
        Ok(config)
    }

    pub(crate) fn listen(&self) -> Option<SocketAddr> {
        match self.listen {
            None => Some(DEFAULT_LISTEN),
            Some(ListenSetting::None) => None,
            Some(ListenSetting::At(address)) => Some(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_names_are_read() {
        let text =
            "listen = \"127.0.0.1:8000\"\nallow_hosts = [\"desk\"]\n[agents]\nalone_minutes = 5\n";
        let config = HostConfig::parse(text).unwrap();
        let expected = HostConfig {
            listen: Some(ListenSetting::At("127.0.0.1:8000".parse().unwrap())),
            allow_hosts: vec!["desk".into()],
            server: ServerConfig::default(),
            agents: AgentsConfig {
                alone_minutes: AloneMinutes(5),
                sandbox: None,
            },
            hook: HookConfig::default(),
            questions: QuestionsConfig::default(),
            web: WebConfig::default(),
            notify: NotifyConfig::default(),
            decide: DecideConfig::default(),
            editor: EditorConfig::default(),
            profiles: BTreeMap::new(),
            sandbox: BTreeMap::new(),
        };
        assert_eq!(config, expected);
        assert_eq!(
            HostConfig::parse("").unwrap().listen(),
            Some(DEFAULT_LISTEN)
        );
        assert_eq!(
            HostConfig::parse("listen = \"none\"").unwrap().listen(),
            None
        );
    }

    #[test]
    fn an_unknown_word_is_an_error_with_its_line() {
        let error = HostConfig::parse("allow_hosts = []\nlisten_on = \"x\"\n").unwrap_err();
        assert_eq!(
            error,
            "line 2: unknown field `listen_on`, expected one of `listen`, `allow_hosts`, `server`, `agents`, `hook`, `questions`, `web`, `notify`, `decide`, `editor`, `profiles`, `sandbox`"
        );
    }

    #[test]
    fn every_allow_needs_a_second_act_unless_the_file_says_otherwise() {
        let read = |text: &str| HostConfig::parse(text).map(|config| config.decide.confirm);
        assert_eq!(read(""), Ok(DecideConfirm::Always));
        assert_eq!(read("[decide]\n"), Ok(DecideConfirm::Always));
        assert_eq!(
            read("[decide]\nconfirm = \"risky\"\n"),
            Ok(DecideConfirm::Risky)
        );
        assert_eq!(
            read("[decide]\nconfirm = \"sometimes\"\n").unwrap_err(),
            "line 2: unknown variant `sometimes`, expected one of `always`, `risky`, `never`"
        );
    }

    #[test]
    fn unnamed_callers_are_refused_by_default() {
        let read = |text: &str| HostConfig::parse(text).map(|config| config.server.unnamed_callers);
        assert_eq!(read(""), Ok(false));
        assert_eq!(read("[server]\nunnamed_callers = true\n"), Ok(true));
        assert!(read("[server]\nunnamed_caller = true\n").is_err());
    }

    #[test]
    fn agents_are_alone_for_a_minute_to_a_week() {
        let read = |minutes: &str| {
            let text = format!("[agents]\nalone_minutes = {minutes}\n");
            HostConfig::parse(&text).map(|config| config.agents.alone_minutes.as_ms())
        };
        assert_eq!(read("1"), Ok(60_000));
        assert_eq!(read("10080"), Ok(RUNNER_PATIENCE_MS_MAX));
        for wrong in ["0", "-1", "10081"] {
            let error = read(wrong).unwrap_err();
            assert!(
                error.starts_with("line 2: `alone_minutes` must be between 1 and 10080"),
                "{error}"
            );
        }
        assert_eq!(AloneMinutes::default().as_ms(), RUNNER_PATIENCE_MS);
    }

    #[test]
    fn hooks_deny_without_an_answer_and_ask_without_a_host_unless_told() {
        let read = |text: &str| HostConfig::parse(text).map(|config| config.hook);
        let usual = HookConfig {
            limit_seconds: LimitSeconds(600),
            on_timeout: HookEnd::Deny,
            without_host: HookEnd::Ask,
        };
        assert_eq!(read("").unwrap(), usual);
        assert_eq!(read("[hook]\n").unwrap(), usual);
        let told = "[hook]\nlimit_seconds = 5\non_timeout = \"ask\"\nwithout_host = \"deny\"\n";
        let expected = HookConfig {
            limit_seconds: LimitSeconds(5),
            on_timeout: HookEnd::Ask,
            without_host: HookEnd::Deny,
        };
        assert_eq!(read(told).unwrap(), expected);
        for wrong in [
            "limit_seconds = 0",
            "limit_seconds = 86401",
            "on_timeout = \"allow\"",
            "without_host = \"allow\"",
            "fallback = 1",
        ] {
            assert!(read(&format!("[hook]\n{wrong}\n")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sandbox_profile_says_only_what_differs_from_the_usual_one() {
        let read = |text: &str| HostConfig::parse(text).map(|config| config.sandbox);
        let text = "[sandbox.tight]\nnetwork = \"none\"\nrequire = \"landlock\"\n";
        let profile = SandboxProfile {
            network: countersign_sandbox::NetworkAccess::None,
            require: countersign_sandbox::RequiredLevel::Landlock,
            ..SandboxProfile::default()
        };
        let expected = BTreeMap::from([("tight".to_owned(), profile)]);
        assert_eq!(read(text).unwrap(), expected);
        for wrong in [
            "[sandbox.open]\n",
            "[sandbox.work]\nwrites = []\n",
            "[sandbox.work]\nrequire = \"some\"\n",
            "[sandbox.work]\nlimits = { process = 1 }\n",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_open_to_others_is_refused() {
        let error = HostConfig::parse("listen = \"0.0.0.0:7766\"").unwrap_err();
        assert!(
            error.starts_with("line 1: `0.0.0.0:7766` is not a loopback address"),
            "{error}"
        );
    }
}
