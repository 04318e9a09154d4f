//! The hosts that a secret may go to.

use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parse::read_as_text;
use crate::record::Kind;
use crate::{parse, schema};

/// A host, with a port or for the ports of the rule that names the secret. There are no wildcards:
/// whoever can register a name below one could ask for the secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretHost {
    host: String,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a host: write \"api.example.com\" or \"api.example.com:8443\", without a scheme, a path or a wildcard")]
pub struct InvalidSecretHost;

impl SecretHost {
    pub fn matches(&self, host: &str, port: u16) -> bool {
        self.host == host && self.port.is_none_or(|own| own == port)
    }
}

impl FromStr for SecretHost {
    type Err = InvalidSecretHost;

    fn from_str(text: &str) -> Result<Self, InvalidSecretHost> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, "")) => (address, None),
            Some((address, rest)) => (address, Some(rest.strip_prefix(':').ok_or(InvalidSecretHost)?)),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            Some(text) if digits(text) => Some(text.parse::<u16>().ok().filter(|port| *port > 0)),
            Some(_) => return Err(InvalidSecretHost),
            None => None,
        };
        if port == Some(None) {
            return Err(InvalidSecretHost);
        }
        let host = canonical_host(host, text.starts_with('[')).ok_or(InvalidSecretHost)?;
        Ok(Self { host, port: port.flatten() })
    }
}

/// Returns the one text of a host: a name in lower case, or an address in the form of the standard
/// library.
fn canonical_host(host: &str, bracketed: bool) -> Option<String> {
    match host.parse::<IpAddr>() {
        Ok(address) => return (address.is_ipv6() == bracketed).then(|| address.to_string()),
        Err(_) if bracketed => return None,
        Err(_) => {}
    }
    let name = host.to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    // Resolvers take a last label of digits for an address.
    let last = name.rsplit('.').next().unwrap_or_default();
    let numeric = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
    (name.len() <= 253 && name.split('.').all(label) && !numeric).then_some(name)
}

impl fmt::Display for SecretHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl From<SecretHost> for String {
    fn from(host: SecretHost) -> Self {
        host.to_string()
    }
}

impl TryFrom<String> for SecretHost {
    type Error = InvalidSecretHost;

    fn try_from(text: String) -> Result<Self, InvalidSecretHost> {
        text.parse()
    }
}

read_as_text!(SecretHost);

impl Kind for SecretHost {
    type Value = Self;

    fn parse(value: Value, at: &mut parse::FieldPath<'_>) -> Option<Self> {
        parse::Read::read(value, at)
    }

    fn schema() -> Value {
        let pattern = schema::host_and_port("", "");
        schema::text("A host name or an address, with or without a port.", &pattern, 253)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_text() {
        for (text, expected) in [
            ("API.Example.com", "api.example.com"),
            ("a.example:8443", "a.example:8443"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(text.parse::<SecretHost>().unwrap().to_string(), expected);
        }
    }

    #[test]
    fn everything_else_is_no_host() {
        for text in [
            "",
            ".",
            "a..b",
            "a.example.",
            "*.example",
            "https://a",
            "a/b",
            "a:0",
            "a:65536",
            "a:",
            "a:+1",
            "127.1",
            "0x7f000001",
            "1.2.3",
            "::1",
            "[a.example]",
            "[127.0.0.1]",
            "a b",
            "a\0",
            "ä.example",
            "user@a",
        ] {
            assert!(text.parse::<SecretHost>().is_err(), "{text:?}");
        }
    }
}
