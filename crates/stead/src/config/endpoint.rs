//! The server that the client connects to, and the token it sends.
//!
//! The token in the home has all rights. It is sent only to the server that holds the home's lock,
//! or to a loopback address that the user named. Any other server gets `STEAD_TOKEN` or no token.
//! The token of a login is sent only to the server of that login. If there is a login,
//! `STEAD_TOKEN` is not sent to the default address, where any program may listen.

use crate::config::{Config, Login};
use crate::failure::Failure;
use crate::secret::Secret;

const DEFAULT_URL: &str = "http://127.0.0.1:7717";

#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// The URL without a trailing slash.
    pub(crate) url: String,
    pub(crate) token: Option<Secret>,
}

/// The endpoint, and where its two parts come from, for people.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) endpoint: Endpoint,
    pub(crate) url_from: String,
    pub(crate) token_from: String,
}

impl Config {
    /// Returns true if the user named a server, signed in to one, or one runs on the home.
    /// Otherwise only the default address is left to try.
    pub(crate) fn has_known_server(&self) -> bool {
        // A login that cannot be used is reported by the command that would use it.
        self.url.is_some()
            || self.login().map_or(true, |login| login.is_some())
            || self.home.running().is_ok_and(|running| running.is_some())
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint, Failure> {
        self.resolve().map(|resolved| resolved.endpoint)
    }

    /// Returns the setting that commands use instead of the login.
    pub(crate) fn overrides_login(&self) -> Option<String> {
        let url = self.url.as_ref().map(|setting| setting.source.to_string());
        let token = self.token.as_ref().map(|_| "STEAD_TOKEN".to_owned());
        url.or(token).or_else(|| self.home_from.map(str::to_owned))
    }

    /// Returns the login, unless another setting takes its place.
    fn login(&self) -> Result<Option<Login>, Failure> {
        match (&self.login_file, self.overrides_login()) {
            (Some(file), None) => file.read(),
            _ => Ok(None),
        }
    }

    /// Chooses the server: the one that the user named, else the login, else the server of the
    /// home, else the default address.
    pub(crate) fn resolve(&self) -> Result<Resolved, Failure> {
        if let Some(Login { url, token }) = self.login()? {
            let from = self.login_file.as_ref().map(|file| format!("the login {}", file.path().display()));
            let from = from.unwrap_or_default();
            let endpoint = Endpoint { url, token: Some(token) };
            return Ok(Resolved { endpoint, url_from: from.clone(), token_from: from });
        }
        let (url, trusted, url_from) = match &self.url {
            Some(setting) => {
                let url = server_url(&setting.value)
                    .map_err(|why| Failure::usage(format!("{} is not a server's URL: {why}", setting.source)))?;
                let trusted = is_loopback(&url);
                (url, trusted, setting.source.to_string())
            }
            None => match self.home.running()? {
                Some(server) => (server.url, true, format!("the server of {}", self.home.path().display())),
                None => {
                    self.check_default_url()?;
                    (DEFAULT_URL.to_owned(), false, "the default".to_owned())
                }
            },
        };
        let (token, token_from) = match &self.token {
            Some(token) => (Some(token.clone()), "STEAD_TOKEN".to_owned()),
            None if trusted => (self.home.token()?, self.home.token_path().display().to_string()),
            None => (None, String::new()),
        };
        let token_from = if token.is_some() { token_from } else { "none".to_owned() };
        Ok(Resolved { endpoint: Endpoint { url, token }, url_from, token_from })
    }

    /// Refuses the default address for `STEAD_TOKEN` if there is a login, which `STEAD_TOKEN`
    /// overrides: the token may be for the server of the login.
    fn check_default_url(&self) -> Result<(), Failure> {
        let (Some(_), Some(file)) = (&self.token, &self.login_file) else { return Ok(()) };
        let url = match file.read() {
            Ok(None) => return Ok(()),
            Ok(Some(login)) => format!(" (the login has {})", login.url),
            // It is there, but it is not usable.
            Err(_) => String::new(),
        };
        let (file, home) = (file.path().display(), self.home.path().display());
        Err(Failure::new("STEAD_TOKEN is set, but no setting names the server that it is for")
            .cause(format!("with STEAD_TOKEN, the login {file} is not used, and no server runs on {home}"))
            .hint(format!("name the server with --url or STEAD_URL{url}, or unset STEAD_TOKEN to use the login")))
    }
}

/// Checks the URL of a server, and removes the slash at its end.
pub(crate) fn server_url(text: &str) -> Result<String, &'static str> {
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
        assert_eq!(server_url("http://h:1/").unwrap(), "http://h:1");
        for text in ["h:1", "ftp://h", "http://", "http://u:p@h", "http://h/?x=1"] {
            assert!(server_url(text).is_err(), "{text}");
        }
    }
}
