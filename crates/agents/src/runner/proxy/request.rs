//! What programs say to the proxy: HTTP and SOCKS 5, read from bytes that anybody may have made.
//!
//! Invariant: a name that some programs would read as an address is neither; it is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
const HTTP_PORT: u16 = 80;

/// Where a connection would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectTarget {
    pub host: ConnectHost,
    pub port: u16,
}

/// A name, which is looked up once it is allowed, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectHost {
    /// Lower case, without a final dot.
    Domain(String),
    Address(IpAddr),
}

/// What a program wants of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HttpRequest {
    /// A tunnel.
    Connect(ConnectTarget),
    /// One request; the bytes are its head as the server gets it.
    Forward(ConnectTarget, Vec<u8>),
}

/// It is not understood, and so not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl ConnectHost {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(inside) = text.strip_prefix('[') {
            let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        Self::parse_name(text)
    }

    fn parse_name(text: &str) -> Option<Self> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let last = name.rsplit('.').next()?;
        // `127.1`, `2130706433` and `0x7f.1` are addresses to the C library.
        let is_number = last.starts_with(|letter: char| letter.is_ascii_digit())
            && (last.starts_with("0x") || last.chars().all(|letter| letter.is_ascii_digit()));
        if name.len() > NAME_BYTES_MAX || is_number || !name.split('.').all(is_label) {
            return None;
        }
        if name == "localhost" || name.ends_with(".localhost") {
            return Some(Self::Address(Ipv4Addr::LOCALHOST.into()));
        }
        Some(Self::Domain(name))
    }
}

fn is_label(label: &str) -> bool {
    let is_known = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(is_known)
}

impl ConnectTarget {
    fn parse(authority: &str, usual_port: Option<u16>) -> Option<Self> {
        let has_port = authority
            .rfind(':')
            .is_some_and(|colon| authority.rfind(']').is_none_or(|end| end < colon));
        let (host, port) = if has_port {
            let (host, port) = authority.rsplit_once(':')?;
            let is_number = !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
            (host, is_number.then(|| port.parse().ok()).flatten()?)
        } else {
            (authority, usual_port?)
        };
        let host = ConnectHost::parse(host)?;
        (port != 0).then_some(Self { host, port })
    }
}

/// Reads the head of a request, and says how long it was; nothing as long as it has not come to its end.
pub(super) fn parse_http(bytes: &[u8]) -> Result<Option<(HttpRequest, usize)>, Malformed> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = bytes.windows(END.len()).position(|found| found == END) else {
        return Ok(None);
    };
    let head = str::from_utf8(&bytes[..end]).map_err(|_| Malformed)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Malformed);
    };
    let lines: Vec<&str> = lines.collect();
    // A line that one program takes for two could hide a second request.
    let is_plain = |text: &str| {
        text.chars()
            .all(|letter| !letter.is_control() || letter == '\t')
    };
    let is_head = lines.iter().all(|line| is_plain(line) && is_field(line));
    if !is_method(method) || !is_plain(target) || !version.starts_with("HTTP/1.") || !is_head {
        return Err(Malformed);
    }
    let request = if method == "CONNECT" {
        let target = ConnectTarget::parse(target, None).ok_or(Malformed)?;
        HttpRequest::Connect(target)
    } else {
        forward(method, target, &lines).ok_or(Malformed)?
    };
    Ok(Some((request, end + END.len())))
}

fn is_method(method: &str) -> bool {
    !method.is_empty() && method.bytes().all(|letter| letter.is_ascii_uppercase())
}

fn is_field(line: &&str) -> bool {
    let name = line.split(':').next().unwrap_or_default();
    let is_name = |letter: u8| letter.is_ascii_graphic();
    line.contains(':') && !name.is_empty() && name.bytes().all(is_name)
}

/// The request as the server gets it: for its own path, with its own name, and the last on its connection. A second
/// one on it could be for another server.
fn forward(method: &str, target: &str, lines: &[&str]) -> Option<HttpRequest> {
    const OURS: [&str; 6] = [
        "host",
        "connection",
        "proxy-connection",
        "proxy-authorization",
        "keep-alive",
        "upgrade",
    ];
    let rest = target.strip_prefix("http://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let target = ConnectTarget::parse(authority, Some(HTTP_PORT))?;
    let path = path.split('#').next().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {authority}\r\n");
    for line in lines {
        let name = line.split(':').next().unwrap_or_default();
        if !OURS.contains(&name.to_ascii_lowercase().as_str()) {
            head.push_str(line);
            head.push_str("\r\n");
        }
    }
    head.push_str("Connection: close\r\n\r\n");
    Some(HttpRequest::Forward(target, head.into_bytes()))
}

pub(super) const SOCKS_VERSION: u8 = 5;

/// Reads the methods that a program offers: whether it needs no login, and the length.
pub(super) fn parse_socks_methods(bytes: &[u8]) -> Result<Option<(bool, usize)>, Malformed> {
    let [version, count, methods @ ..] = bytes else {
        return Ok(None);
    };
    if *version != SOCKS_VERSION {
        return Err(Malformed);
    }
    let count = usize::from(*count);
    Ok(methods
        .get(..count)
        .map(|methods| (methods.contains(&0), count + 2)))
}

/// Reads where a program wants to go, and how long that was.
pub(super) fn parse_socks_request(
    bytes: &[u8],
) -> Result<Option<(ConnectTarget, usize)>, Malformed> {
    const CONNECT: u8 = 1;
    let [version, command, 0, kind, rest @ ..] = bytes else {
        return if bytes.len() >= 4 {
            Err(Malformed)
        } else {
            Ok(None)
        };
    };
    if *version != SOCKS_VERSION || *command != CONNECT {
        return Err(Malformed);
    }
    let (start, length) = match (kind, rest.first()) {
        (1, _) => (0, 4),
        (4, _) => (0, 16),
        (3, Some(&length)) => (1, usize::from(length)),
        (3, None) => return Ok(None),
        _ => return Err(Malformed),
    };
    let Some(place) = rest.get(start..start + length + 2) else {
        return Ok(None);
    };
    let (name, port) = place.split_at(length);
    let host = match kind {
        3 => str::from_utf8(name).ok().and_then(ConnectHost::parse),
        1 => <[u8; 4]>::try_from(name)
            .ok()
            .map(|bytes| ConnectHost::Address(bytes.into())),
        _ => <[u8; 16]>::try_from(name)
            .ok()
            .map(|bytes| ConnectHost::Address(IpAddr::from(bytes).to_canonical())),
    };
    let port = port
        .iter()
        .fold(0, |port, &byte| port << 8 | u16::from(byte));
    let host = host.filter(|_| port != 0).ok_or(Malformed)?;
    Ok(Some((ConnectTarget { host, port }, 4 + start + length + 2)))
}

#[cfg(test)]
mod tests;
