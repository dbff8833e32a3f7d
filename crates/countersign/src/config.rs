//! The configuration file: where to listen, and under which names.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use serde::Deserialize;

use crate::failure::CliError;

/// Where a host listens unless told otherwise.
pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7766);

/// What the file may say. Unknown words are errors: a misspelt one must not be ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// `"127.0.0.1:7766"`, or `"none"` for the Unix socket alone.
    #[serde(default)]
    pub(crate) listen: Option<Listen>,
    /// Names besides loopback under which the host may be reached.
    #[serde(default)]
    pub(crate) allow_hosts: Vec<String>,
}

/// Where to listen for TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Listen {
    None,
    At(SocketAddr),
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        let address: SocketAddr = text
            .parse()
            .map_err(|_| format!("`{text}` is no address like `127.0.0.1:7766`, nor `none`"))?;
        if !address.ip().is_loopback() {
            return Err(format!(
                "`{text}` is not a loopback address: reach the host through a tunnel instead"
            ));
        }
        Ok(Self::At(address))
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Config {
    /// Reads the file; none is the same as an empty one.
    pub(crate) fn load(path: &Path) -> Result<Self, CliError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|what| CliError::Failed {
                what: format!("`{}` {what}", path.display()),
                hint: None,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(CliError::io(
                format!("could not read `{}`", path.display()),
                source,
            )),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
            format!("line {line}: {}", error.message())
        })
    }

    pub(crate) fn listen(&self) -> Option<SocketAddr> {
        match self.listen {
            None => Some(DEFAULT_LISTEN),
            Some(Listen::None) => None,
            Some(Listen::At(address)) => Some(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_names_are_read() {
        let config =
            Config::parse("listen = \"127.0.0.1:8000\"\nallow_hosts = [\"desk\"]\n").unwrap();
        let expected = Config {
            listen: Some(Listen::At("127.0.0.1:8000".parse().unwrap())),
            allow_hosts: vec!["desk".into()],
        };
        assert_eq!(config, expected);
        assert_eq!(Config::parse("").unwrap().listen(), Some(DEFAULT_LISTEN));
        assert_eq!(Config::parse("listen = \"none\"").unwrap().listen(), None);
    }

    #[test]
    fn an_unknown_word_is_an_error_with_its_line() {
        let error = Config::parse("allow_hosts = []\nlisten_on = \"x\"\n").unwrap_err();
        assert_eq!(
            error,
            "line 2: unknown field `listen_on`, expected `listen` or `allow_hosts`"
        );
    }

    #[test]
    fn an_address_open_to_others_is_refused() {
        let error = Config::parse("listen = \"0.0.0.0:7766\"").unwrap_err();
        assert!(
            error.starts_with("line 1: `0.0.0.0:7766` is not a loopback address"),
            "{error}"
        );
    }
}
