//! The address of the Podman service, in Podman's own notation.

use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

/// The operator's settings: `PODMAN_BASE_URL`, `PODMAN_IDENTITY`, `PODMAN_CONNECTION`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodmanTarget {
    pub base_url: Option<String>,
    pub identity: Option<PathBuf>,
    /// A name from `podman system connection list`.
    pub connection: Option<String>,
}

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
    Ssh { user: Option<String>, host: String, port: u16, socket: PathBuf, identity: Option<PathBuf> },
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Ssh { user, host, port, socket, .. } => {
                let user = user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
                write!(f, "ssh://{user}{host}:{port}{}", socket.display())
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Connection {
    name: String,
    #[serde(alias = "URI")]
    uri: String,
    #[serde(default)]
    identity: String,
}

impl PodmanTarget {
    /// Resolves the address: the URL first, then the connection, then Podman's default socket.
    pub(super) fn resolve(&self) -> Result<Address, String> {
        if let Some(url) = &self.base_url {
            return parse(url, self.identity.clone());
        }
        match &self.connection {
            Some(name) => self.connection(name),
            None => Ok(Address::Unix(usual_socket())),
        }
    }

    /// Asks the podman program: its connection files have changed names and formats over time.
    fn connection(&self, name: &str) -> Result<Address, String> {
        let listed = Command::new("podman").args(["system", "connection", "list", "--format", "json"]).output();
        let listed = listed.map_err(|error| format!("cannot ask podman for the connection {name:?}: {error}"))?;
        let known: Vec<Connection> = match listed.stdout.trim_ascii() {
            // Podman prints nothing if it knows no connection.
            b"" => Vec::new(),
            text => serde_json::from_slice(text)
                .map_err(|error| format!("cannot read podman's list of connections: {error}"))?,
        };
        // Podman marks the default one in its list with a star.
        let Some(found) = known.iter().find(|connection| connection.name.trim_end_matches('*') == name) else {
            let names: Vec<_> = known.iter().map(|connection| connection.name.trim_end_matches('*')).collect();
            return Err(format!("PODMAN_CONNECTION names {name:?}; podman knows: [{}]", names.join(", ")));
        };
        let identity = Some(&found.identity).filter(|path| !path.is_empty()).map(PathBuf::from);
        parse(&found.uri, self.identity.clone().or(identity))
    }
}

/// The socket of the system service for root, of the user's service otherwise.
fn usual_socket() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !stead_box::runs_as_root()) {
        Some(directory) => PathBuf::from(directory).join("podman/podman.sock"),
        None => PathBuf::from("/run/podman/podman.sock"),
    }
}

fn parse(url: &str, identity: Option<PathBuf>) -> Result<Address, String> {
    let bad = |why: &str| {
        format!("the Podman address {url:?} {why}; write unix:///path, tcp://host:port or ssh://user@host:port/path")
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("has no scheme"))?;
    match scheme {
        "unix" if rest.starts_with('/') => Ok(Address::Unix(rest.into())),
        "unix" => Err(bad("has no absolute path")),
        "tcp" | "http" => {
            let (host, port) = host_and_port(rest.trim_end_matches('/'), None).ok_or_else(|| bad("has no port"))?;
            Ok(Address::Tcp { host, port })
        }
        "ssh" => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, "run/podman/podman.sock"));
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user.to_owned()), host),
                None => (None, authority),
            };
            let (host, port) = host_and_port(host, Some(22)).ok_or_else(|| bad("has no host"))?;
            // ssh would read a leading dash as an option.
            if host.starts_with('-') || user.as_ref().is_some_and(|user| user.starts_with('-')) {
                return Err(bad("begins with a dash"));
            }
            Ok(Address::Ssh { user, host, port, socket: PathBuf::from(format!("/{path}")), identity })
        }
        _ => Err(bad("has a scheme that is not known")),
    }
}

fn host_and_port(text: &str, usual: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match text.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, usual?),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_podman_writes_them() {
        let read = |url: &str| parse(url, None).map(|address| address.to_string());
        for good in ["unix:///run/p.sock", "tcp://127.0.0.1:80", "ssh://core@host:2222/run/p.sock"] {
            assert_eq!(read(good).unwrap(), good);
        }
        assert_eq!(read("ssh://host").unwrap(), "ssh://host:22/run/podman/podman.sock");
        assert_eq!(read("tcp://[::1]:80/").unwrap(), "tcp://::1:80");
        for bad in ["", "unix://p", "tcp://host", "ftp://x", "ssh://-oProxyCommand=x/y", "ssh://", "/run/p.sock"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
