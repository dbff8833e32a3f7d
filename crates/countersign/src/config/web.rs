//! What the file says about the web page.

use countersign_core::limits::{DEVICE_SESSION_MS, TOKEN_TTL_MS_MAX};
use countersign_server::PublicUrl;
use serde::Deserialize;

const DAY_MS: u64 = 24 * 3_600_000;

/// What holds for the web page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WebConfig {
    /// Where other machines reach the host, as through a tunnel: what links for a phone say.
    #[serde(default)]
    public_url: Option<PublicUrlSetting>,
    /// How long a device stays logged in without being used.
    #[serde(default)]
    session_days: SessionDays,
}

impl WebConfig {
    pub(crate) fn public_url(&self) -> Option<&PublicUrl> {
        self.public_url.as_ref().map(|setting| &setting.0)
    }

    pub(crate) fn session_ms(&self) -> u64 {
        self.session_days.0 * DAY_MS
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct PublicUrlSetting(PublicUrl);

impl TryFrom<String> for PublicUrlSetting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

/// At least a day and at most as long as a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
struct SessionDays(u64);

impl SessionDays {
    const MAX: u64 = TOKEN_TTL_MS_MAX / DAY_MS;
}

impl Default for SessionDays {
    fn default() -> Self {
        Self(DEVICE_SESSION_MS / DAY_MS)
    }
}

impl TryFrom<i64> for SessionDays {
    type Error = String;

    fn try_from(days: i64) -> Result<Self, String> {
        let message = format!("`session_days` must be between 1 and {}", Self::MAX);
        super::within(days, Self::MAX).map(Self).ok_or(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HostConfig;

    #[test]
    fn an_address_and_the_length_of_a_session_are_read() {
        let read = |line: &str| {
            let config = HostConfig::parse(&format!("[web]\n{line}\n"))?;
            let url = config.web.public_url().map(ToString::to_string);
            Ok::<_, String>((url, config.web.session_ms() / DAY_MS))
        };
        assert_eq!(read(""), Ok((None, 30)));
        assert_eq!(read("session_days = 90"), Ok((None, 90)));
        assert_eq!(
            read("public_url = \"https://box.example\""),
            Ok((Some("https://box.example".to_owned()), 30))
        );
        for wrong in [
            "session_days = 0",
            "session_days = 91",
            "public_url = \"box.example\"",
            "public_url = \"https://box.example/page\"",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
