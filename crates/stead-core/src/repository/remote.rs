//! Repository addresses, and the check that the platform allows them.
//!
//! This module decides from the text alone, before git or a DNS server is contacted. Plain
//! `http://`, loopback and private addresses and local paths need the platform's permission. A name
//! that only *resolves* to such an address is caught at name resolution, with the same
//! [`is_public`].

use core::net::{IpAddr, Ipv6Addr};

pub use super::public_address::is_public;
use crate::registry::Platform;
use crate::repository::RepositoryUrl;

/// A parsed repository URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Http { scheme: &'static str, host: Host },
    Ssh { user: Option<String>, host: Host, path: String },
    Local { path: String },
}

/// A host with an optional port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Lower case, without the brackets of an IPv6 address.
    pub name: String,
    pub port: Option<u16>,
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bare = &self.name;
        match (bare.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{bare}]:{port}"),
            (false, Some(port)) => write!(f, "{bare}:{port}"),
            (_, None) => f.write_str(bare),
        }
    }
}

/// The reason why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryRefused {
    #[error("the repository URL has no valid host: {url}")]
    Host { url: String },
    #[error(
        "http:// repositories are only used from hosts in the platform's allowed_git_hosts, and {host} is not there: use https://, or add it"
    )]
    PlainHttp { host: String },
    #[error("{host} is a loopback or private address: it is only used if the platform's allowed_git_hosts names it")]
    Private { host: String },
    #[error("the repository {path} is not inside the platform's allowed_host_roots")]
    Local { path: String },
}

/// The platform's git permissions at the time the session was created.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct GitGate {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
}

impl GitGate {
    pub fn of(platform: &Platform) -> Self {
        Self { hosts: platform.allowed_git_hosts.clone(), roots: platform.allowed_host_roots.clone() }
    }

    /// Returns true if the platform lists the host, with or without its port.
    pub fn names(&self, host: &Host) -> bool {
        let full = host.to_string();
        self.hosts.iter().any(|allowed| {
            let allowed = allowed.to_ascii_lowercase();
            let bare = allowed.trim_start_matches('[').trim_end_matches(']');
            allowed == full || bare == host.name
        })
    }

    /// Parses a URL and checks it against the permissions.
    pub fn judge(&self, url: &RepositoryUrl) -> Result<Address, RepositoryRefused> {
        let address = Address::of(url).ok_or_else(|| RepositoryRefused::Host { url: url.to_string() })?;
        match &address {
            Address::Local { path } => {
                let inside = |root: &String| {
                    let rest = path.strip_prefix(root.trim_end_matches('/'));
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let plain = !path.split('/').any(|part| part == "..");
                if !plain || !self.roots.iter().any(inside) {
                    return Err(RepositoryRefused::Local { path: path.clone() });
                }
            }
            Address::Http { host, .. } | Address::Ssh { host, .. } if self.names(host) => {}
            Address::Http { scheme: "http", host } => {
                return Err(RepositoryRefused::PlainHttp { host: host.to_string() });
            }
            Address::Http { host, .. } | Address::Ssh { host, .. } => {
                if !looks_public(&host.name) {
                    return Err(RepositoryRefused::Private { host: host.to_string() });
                }
            }
        }
        Ok(address)
    }
}

impl Address {
    /// Parses a URL. `None` if it has no host that every program parses in the same way.
    pub fn of(url: &RepositoryUrl) -> Option<Self> {
        let text = url.as_str();
        if let Some((scheme, rest)) = text.split_once("://") {
            if scheme == "file" {
                return Some(Self::Local { path: rest.to_owned() });
            }
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user.to_owned()), Host::read(host)?),
                None => (None, Host::read(authority)?),
            };
            return match scheme {
                "https" => Some(Self::Http { scheme: "https", host }),
                "http" => Some(Self::Http { scheme: "http", host }),
                "ssh" => Some(Self::Ssh { user, host, path: path.to_owned() }),
                _ => None,
            };
        }
        if text.starts_with('/') {
            return Some(Self::Local { path: text.to_owned() });
        }
        let (account, path) = text.split_once(':')?;
        let (user, host) = account.split_once('@')?;
        Some(Self::Ssh { user: Some(user.to_owned()), host: Host::read(host)?, path: path.to_owned() })
    }

    pub fn host(&self) -> Option<&Host> {
        match self {
            Self::Http { host, .. } | Self::Ssh { host, .. } => Some(host),
            Self::Local { .. } => None,
        }
    }

    /// The default port of the scheme.
    pub fn usual_port(&self) -> u16 {
        match self {
            Self::Http { scheme: "http", .. } => 80,
            Self::Http { .. } => 443,
            Self::Ssh { .. } => 22,
            Self::Local { .. } => 0,
        }
    }
}

impl Host {
    /// Returns true if a text names one host, with or without a port.
    pub fn is_valid(text: &str) -> bool {
        text.parse::<Ipv6Addr>().is_ok() || Self::read(text).is_some()
    }

    /// Accepts letters, digits, dots, hyphens and underscores, or an IPv6 address in brackets.
    /// Everything else is refused, because programs may parse it differently.
    fn read(text: &str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, rest) = rest.split_once(']')?;
                name.parse::<Ipv6Addr>().ok()?;
                (name, rest)
            }
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
            None if port.is_empty() => None,
            None => return None,
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let readable = name.parse::<Ipv6Addr>().is_ok()
            || (!name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(plain));
        readable.then(|| Self { name: name.to_ascii_lowercase(), port })
    }
}

/// Returns false if the host's name alone shows that it is not on the public network.
fn looks_public(name: &str) -> bool {
    let bare = name.trim_end_matches('.');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return is_public(address);
    }
    // Some resolvers treat `127.1`, `0x7f000001` and `2130706433` as addresses, others as names.
    let last = bare.rsplit('.').next().unwrap_or_default();
    let numeric = !last.is_empty()
        && (last.bytes().all(|byte| byte.is_ascii_digit())
            || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit())));
    let local = bare == "localhost" || [".localhost", ".local", ".internal"].iter().any(|end| bare.ends_with(end));
    !numeric && !local
}
