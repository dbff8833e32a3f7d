//! Addresses of servers: whether messages and secrets may be sent there.

use std::net::IpAddr;

use url::{Host, Url};

/// Why messages are not sent to an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("`{0}` is not an address like `https://ntfy.example`")]
    NotAnAddress(String),
    #[error("`{0}` contains a user or a password: put secrets into a file")]
    HasSecrets(String),
    #[error(
        "`{0}` is not encrypted: use `https://`, or `http://` for an address on this machine or in your own network"
    )]
    NotEncrypted(String),
}

/// Accepts `https`, and `http` for servers on this machine or in a private network.
pub fn check_address(text: &str) -> Result<Url, AddressError> {
    let address = Url::parse(text).map_err(|_| AddressError::NotAnAddress(text.to_owned()))?;
    let Some(host) = address.host() else {
        return Err(AddressError::NotAnAddress(text.to_owned()));
    };
    if !address.username().is_empty() || address.password().is_some() {
        return Err(AddressError::HasSecrets(text.to_owned()));
    }
    match address.scheme() {
        "https" => Ok(address),
        "http" if is_private(&host) => Ok(address),
        "http" => Err(AddressError::NotEncrypted(text.to_owned())),
        _ => Err(AddressError::NotAnAddress(text.to_owned())),
    }
}

fn is_private(host: &Host<&str>) -> bool {
    const LOCAL_ENDINGS: [&str; 4] = [".local", ".lan", ".internal", ".home.arpa"];
    match host {
        // A name without a dot can only be resolved in the own network.
        Host::Domain(name) => {
            !name.contains('.') || LOCAL_ENDINGS.iter().any(|ending| name.ends_with(ending))
        }
        Host::Ipv4(address) => {
            address.is_loopback() || address.is_private() || address.is_link_local()
        }
        Host::Ipv6(address) => IpAddr::V6(*address).is_loopback() || address.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_and_private_addresses_are_accepted() {
        for accepted in [
            "https://ntfy.example",
            "http://127.0.0.1:8080/x",
            "http://localhost:80",
            "http://[::1]:8080",
            "http://192.168.1.4",
            "http://homeassistant.local:8123/api/webhook/a",
        ] {
            assert!(check_address(accepted).is_ok(), "{accepted}");
        }
        let not_encrypted = |text: &str| Err(AddressError::NotEncrypted(text.to_owned()));
        for open in [
            "http://ntfy.example/",
            "http://8.8.8.8/",
            "http://local.example",
        ] {
            assert_eq!(check_address(open), not_encrypted(open));
        }
        for wrong in [
            "",
            "ntfy.example",
            "ftp://ntfy.example",
            "file:///etc/passwd",
            "data:,x",
        ] {
            let expected = Err(AddressError::NotAnAddress(wrong.to_owned()));
            assert_eq!(check_address(wrong), expected);
        }
        let secret = "https://user:word@ntfy.example/";
        let expected = Err(AddressError::HasSecrets(secret.to_owned()));
        assert_eq!(check_address(secret), expected);
    }
}
