//! The server that the client connects to, and the token it sends.
//!
//! The token in the home has all rights. It is sent only to the server that holds the home's lock,
//! or to a loopback address that the user named. Any other server gets `STEAD_TOKEN` or no token.

use crate::config::Config;
use crate::failure::Failure;
use crate::secret::Secret;

const DEFAULT_URL: &str = "http://127.0.0.1:7717";

#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// The URL without a trailing slash.
    pub(crate) url: String,
    pub(crate) token: Option<Secret>,
}

impl Config {
    /// Returns true if the user named a server or one runs on the home. Otherwise only the default
    /// address is left to try.
    pub(crate) fn has_known_server(&self) -> bool {
        self.url.is_some() || self.home.running().is_ok_and(|running| running.is_some())
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        let (url, trusted) = match &self.url {
            Some(setting) => {
                let url = checked(&setting.value)
                    .map_err(|why| Failure::usage(format!("{} is not a server's URL: {why}", setting.source)))?;
                let trusted = is_loopback(&url);
                (url, trusted)
            }
            None => match self.home.running()? {
                Some(server) => (server.url, true),
                None => (DEFAULT_URL.to_owned(), false),
            },
        };
        let token = match &self.token {
            Some(token) => Some(token.clone()),
            None if trusted => self.home.token()?,
            None => None,
        };
        Ok(Endpoint { url, token })
    }
}

fn checked(text: &str) -> Result<String, &'static str> {
    let url = text.trim_end_matches('/');
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or("it starts neither with http:// nor with https://")?;
    if rest.is_empty() || rest.starts_with([':', '/']) {
        return Err("it names no host");
    }
    if rest.contains(['@', '?', '#', ' ']) {
        return Err("write only the scheme, the host and the port; the token goes to STEAD_TOKEN");
    }
    Ok(url.to_owned())
}

/// Returns true if the URL names a loopback address.
pub(crate) fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised() {
        for url in ["http://127.0.0.1:7717", "http://localhost", "http://[::1]:80", "http://127.8.9.1:1/x"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["http://10.0.0.1:7717", "https://stead.example", "http://127.0.0.1.example.com", "http://[::2]:1"] {
            assert!(!is_loopback(url), "{url}");
        }
    }

    #[test]
    fn only_plain_urls_are_taken() {
        assert_eq!(checked("http://h:1/").unwrap(), "http://h:1");
        for text in ["h:1", "ftp://h", "http://", "http://u:p@h", "http://h/?x=1"] {
            assert!(checked(text).is_err(), "{text}");
        }
    }
}
