//! Addresses: read as the web platform reads them, compared by host.

use url::{Host, Url};

/// Where a fetch would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchTarget {
    /// The host: lower case, in its ASCII form, without a final dot.
    pub(crate) host: String,
    /// Whether it is a number or this machine: never covered by a rule for names.
    pub(crate) is_numeric_or_local: bool,
}

/// Reads an address. The second value says why it cannot be allowed, if it cannot.
pub(crate) fn read(address: &str) -> (Option<FetchTarget>, Option<&'static str>) {
    let Ok(url) = Url::parse(address) else {
        return (None, Some("the address cannot be read"));
    };
    // Also of an address that is doubted: a deny for its host still has to match.
    let target = url.host().map(|host| target(&host));
    let doubt = if address.chars().any(|c| c.is_control() || c.is_whitespace()) {
        Some("the address holds a blank or control character")
    } else if address.contains('\\') {
        Some("the address holds a backslash, which programs read differently")
    } else if !matches!(url.scheme(), "http" | "https") {
        Some("the address is not http or https")
    } else if !url.username().is_empty() || url.password().is_some() {
        Some("the address holds a user name")
    } else if target.is_none() {
        Some("the address has no host")
    } else {
        None
    };
    (target, doubt)
}

/// Reads a host's name; an address counts as numeric. Nothing if it is neither.
pub(crate) fn read_name(name: &str) -> Option<FetchTarget> {
    let host = Host::parse(name).ok()?;
    let host = match &host {
        Host::Domain(name) => Host::Domain(name.as_str()),
        Host::Ipv4(address) => Host::Ipv4(*address),
        Host::Ipv6(address) => Host::Ipv6(*address),
    };
    Some(target(&host)).filter(|target| !target.host.is_empty())
}

fn target(host: &Host<&str>) -> FetchTarget {
    match host {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name).to_lowercase();
            let local = name == "localhost" || name.ends_with(".localhost") || name.is_empty();
            FetchTarget {
                is_numeric_or_local: local,
                host: name,
            }
        }
        Host::Ipv4(address) => FetchTarget {
            host: address.to_string(),
            is_numeric_or_local: true,
        },
        Host::Ipv6(address) => FetchTarget {
            host: address
                // `[::ffff:127.0.0.1]` is the same machine as `127.0.0.1`, so a rule for one means
                // both.
                .to_ipv4_mapped()
                .map_or_else(|| format!("[{address}]"), |mapped| mapped.to_string()),
            is_numeric_or_local: true,
        },
    }
}

/// A host in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPattern {
    /// Every name.
    Every,
    /// One host.
    One(String),
    /// Whatever lies below a name, not the name itself.
    Below(String),
    /// One label after the other.
    Labels(Vec<HostLabel>),
}

/// One label of a host in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostLabel {
    Any,
    Name(String),
}

impl HostPattern {
    /// Reads the host of a rule; nothing if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text).to_lowercase();
        if text == "*" {
            return Some(Self::Every);
        }
        if let Some(name) = text.strip_prefix("*.")
            && !name.contains('*')
        {
            return plain(name).map(Self::Below);
        }
        if !text.contains('*') {
            return plain(&text).map(Self::One);
        }
        let labels = text.split('.').map(label).collect::<Option<Vec<_>>>()?;
        Some(Self::Labels(labels))
    }

    pub(crate) fn matches(&self, target: &FetchTarget) -> bool {
        let host = target.host.as_str();
        match self {
            Self::One(own) => own == host,
            Self::Every | Self::Below(_) | Self::Labels(_) if target.is_numeric_or_local => false,
            Self::Every => true,
            Self::Below(name) => host
                .strip_suffix(name.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            Self::Labels(labels) => {
                let mut names = host.split('.');
                labels.iter().all(|label| match (label, names.next()) {
                    (HostLabel::Any, Some(name)) => !name.is_empty(),
                    (HostLabel::Name(own), Some(name)) => own == name,
                    (_, None) => false,
                }) && names.next().is_none()
            }
        }
    }

    /// As `matches`, and a wildcard covers numbers and this machine too: for denies and asks.
    pub(crate) fn covers(&self, target: &FetchTarget) -> bool {
        *self == Self::Every || self.matches(target)
    }
}

fn plain(text: &str) -> Option<String> {
    read_name(text).map(|target| target.host)
}

fn label(text: &str) -> Option<HostLabel> {
    match text {
        "*" => Some(HostLabel::Any),
        "" => None,
        text if text.contains('*') => None,
        text => Some(HostLabel::Name(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(rule: &str, address: &str) -> bool {
        let target = read(address).0.unwrap();
        HostPattern::parse(rule).unwrap().matches(&target)
    }

    #[test]
    fn a_host_is_compared_whole() {
        assert!(matches("docs.rs", "https://DOCS.RS./x"));
        assert!(!matches("io.example", "https://io.example.com/"));
        assert!(matches("*.github.com", "https://api.github.com/"));
        assert!(!matches("*.github.com", "https://github.com/"));
        assert!(!matches("*.github.com", "https://xgithub.com/"));
        assert!(matches("a.*.com", "https://a.b.com/"));
        assert!(!matches("a.*.com", "https://a.b.c.com/"));
    }

    #[test]
    fn a_rule_for_names_never_covers_numbers_or_this_machine() {
        assert!(!matches("*", "http://127.0.0.1/"));
        assert!(!matches("*", "http://localhost/"));
        assert!(matches("127.0.0.1", "http://2130706433/"));
        assert!(matches("127.0.0.1", "http://[::ffff:127.0.0.1]/"));
    }
}
