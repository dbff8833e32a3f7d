//! Connections out of a sandbox: where one would go, and what rules say of that.
//!
//! Invariant: a rule for names never covers an address. What a name stands for may change, and an address of this
//! machine or of a private network is somebody's service.

use std::net::IpAddr;

use countersign_core::event::Effect;
use serde_json::{Map, Value};

use crate::host::{FetchTarget, HostPattern, read_name};
use crate::language::RuleError;
use crate::request::ToolAction;

/// The tool under which connections are asked about.
pub(crate) const NAME: &str = "Network";

/// Where a connection would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkHost {
    /// A name that is looked up once it is allowed.
    Domain(String),
    /// An address.
    Address(IpAddr),
}

/// What was understood of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkTarget {
    Name(FetchTarget),
    Address(IpAddr, u16),
}

/// Reads the input of the tool.
pub(crate) fn read(fields: &Map<String, Value>) -> Option<ToolAction> {
    let port = u16::try_from(fields.get("port")?.as_u64()?).ok()?;
    let host = match (fields.get("domain"), fields.get("address")) {
        (Some(Value::String(name)), None) => NetworkHost::Domain(name.clone()),
        (None, Some(Value::String(address))) => NetworkHost::Address(address.parse().ok()?),
        _ => return None,
    };
    (fields.len() == 2).then_some(ToolAction::Connect { host, port })
}

/// Where a connection would go, and its subject for people; nothing if the name is none.
pub(crate) fn target(host: &NetworkHost, port: u16) -> (Option<NetworkTarget>, String) {
    match host {
        NetworkHost::Domain(name) => {
            let target = read_name(name).filter(|target| !target.is_numeric_or_local);
            (target.map(NetworkTarget::Name), format!("{name}:{port}"))
        }
        NetworkHost::Address(address) => {
            let address = address.to_canonical();
            let subject = std::net::SocketAddr::new(address, port).to_string();
            (Some(NetworkTarget::Address(address, port)), subject)
        }
    }
}

/// Where a rule lets connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkPattern {
    /// Every name; in a deny every address as well.
    Every,
    Domain(HostPattern),
    Address {
        network: IpAddr,
        prefix: u8,
        port: Option<u16>,
    },
}

impl NetworkPattern {
    pub(crate) fn parse(spec: Option<&str>) -> Result<Self, RuleError> {
        let Some(spec) = spec else {
            return Ok(Self::Every);
        };
        if let Some(name) = spec.strip_prefix("domain:") {
            let name = name.trim();
            let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
            return HostPattern::parse(name)
                .filter(|_| !is_address)
                .map(Self::Domain)
                .ok_or_else(|| RuleError::Domain(name.to_owned()));
        }
        let text = spec
            .strip_prefix("address:")
            .ok_or(RuleError::NetworkMissing)?
            .trim();
        parse_address(text).ok_or_else(|| RuleError::Address(text.to_owned()))
    }

    /// An allow matches less than it might mean, a deny more.
    pub(crate) fn matches(&self, target: Option<&NetworkTarget>, effect: Effect) -> bool {
        let is_allow = effect == Effect::Allow;
        match (self, target) {
            (Self::Every, Some(NetworkTarget::Name(_))) => true,
            (Self::Every, _) => !is_allow,
            (Self::Domain(host), Some(NetworkTarget::Name(name))) if is_allow => host.matches(name),
            (Self::Domain(host), Some(NetworkTarget::Name(name))) => host.covers(name),
            (Self::Domain(host), _) => !is_allow && *host == HostPattern::Every,
            (
                Self::Address {
                    network,
                    prefix,
                    port,
                },
                Some(NetworkTarget::Address(address, to)),
            ) => port.is_none_or(|port| port == *to) && begins_alike(*network, *address, *prefix),
            (Self::Address { .. }, _) => false,
        }
    }
}

/// `10.0.0.5`, `10.0.0.5:8080`, `10.0.0.0/8`, `::1`, `[::1]:8080`.
fn parse_address(text: &str) -> Option<NetworkPattern> {
    if let Ok(whole) = text.parse::<std::net::SocketAddr>() {
        return Some(one_address(whole.ip(), Some(whole.port())));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(one_address(address, None));
    }
    let (network, prefix) = text.split_once('/')?;
    let network: IpAddr = network.parse().ok()?;
    let prefix = prefix
        .parse()
        .ok()
        .filter(|bits| *bits <= bits_of(network))?;
    Some(NetworkPattern::Address {
        network,
        prefix,
        port: None,
    })
}

fn one_address(address: IpAddr, port: Option<u16>) -> NetworkPattern {
    let network = address.to_canonical();
    NetworkPattern::Address {
        network,
        prefix: bits_of(network),
        port,
    }
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn begins_alike(network: IpAddr, address: IpAddr, prefix: u8) -> bool {
    let prefix = u32::from(prefix);
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differs = network.to_bits() ^ address.to_bits();
            differs.leading_zeros() >= prefix
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differs = network.to_bits() ^ address.to_bits();
            differs.leading_zeros() >= prefix
        }
        _ => false,
    }
}

/// The narrowest rule for a connection.
pub(crate) fn narrowest(target: &NetworkTarget) -> (String, String) {
    match target {
        NetworkTarget::Name(name) => (
            format!("{NAME}(domain:{})", name.host),
            format!("connections to {}, whatever is sent there", name.host),
        ),
        NetworkTarget::Address(address, port) => {
            let place = std::net::SocketAddr::new(*address, *port);
            (
                format!("{NAME}(address:{place})"),
                format!("connections to {place}, whatever listens there"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(effect: Effect, rule: &str, host: &str, port: u16) -> bool {
        let host = host.parse().map_or_else(
            |_| NetworkHost::Domain(host.to_owned()),
            NetworkHost::Address,
        );
        let (target, _) = target(&host, port);
        let pattern = NetworkPattern::parse((!rule.is_empty()).then_some(rule)).unwrap();
        pattern.matches(target.as_ref(), effect)
    }

    #[test]
    fn an_allow_for_names_never_covers_addresses() {
        for rule in ["", "domain:*", "domain:*.com", "domain:docs.rs"] {
            for host in [
                "127.0.0.1",
                "10.0.0.5",
                "8.8.8.8",
                "::1",
                "localhost",
                "a.localhost",
            ] {
                assert!(!says(Effect::Allow, rule, host, 443), "{rule} {host}");
            }
        }
        assert!(says(Effect::Allow, "", "docs.rs", 443));
        assert!(says(Effect::Allow, "domain:docs.rs", "DOCS.rs.", 443));
        assert!(!says(
            Effect::Allow,
            "domain:docs.rs",
            "docs.rs.example.com",
            443
        ));
        assert!(says(Effect::Allow, "domain:*.rs", "docs.rs", 443));
    }

    #[test]
    fn addresses_are_compared_as_numbers() {
        let cases = [
            ("address:10.0.0.5", "10.0.0.5", 80, true),
            ("address:10.0.0.5", "::ffff:10.0.0.5", 80, true),
            ("address:10.0.0.5", "10.0.0.50", 80, false),
            ("address:10.0.0.5:80", "10.0.0.5", 80, true),
            ("address:10.0.0.5:80", "10.0.0.5", 81, false),
            ("address:10.0.0.0/8", "10.200.0.1", 80, true),
            ("address:10.0.0.0/8", "11.0.0.1", 80, false),
            ("address:0.0.0.0/0", "11.0.0.1", 80, true),
            ("address:0.0.0.0/0", "::1", 80, false),
            ("address:::1", "::1", 80, true),
            ("address:[::1]:80", "::1", 80, true),
            ("address:10.0.0.5", "docs.rs", 80, false),
        ];
        for (rule, host, port, expected) in cases {
            assert_eq!(
                says(Effect::Allow, rule, host, port),
                expected,
                "{rule} {host}"
            );
        }
    }

    #[test]
    fn a_deny_covers_more() {
        assert!(says(Effect::Deny, "", "10.0.0.5", 80));
        assert!(says(Effect::Deny, "domain:*", "10.0.0.5", 80));
        assert!(!says(Effect::Deny, "domain:docs.rs", "10.0.0.5", 80));
        assert!(says(Effect::Deny, "", "not a name", 80));
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for wrong in [
            "docs.rs",
            "domain:127.0.0.1",
            "domain:[::1]",
            "domain:",
            "address:docs.rs",
            "address:10.0.0.0/33",
            "address:10.0.0",
            "address:",
            "host:x",
        ] {
            assert!(NetworkPattern::parse(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
