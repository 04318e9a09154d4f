//! One request to one host whose address was checked. It follows no redirect and uses no proxy.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use stead_core::remote::{Address, Host};
use stead_core::repository::RepositoryUrl;
use ureq::http::Uri;
use ureq::tls::{PemItem, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Timeout};

use crate::error::{GitError, harmless};
use crate::mirror::Settings;

/// Maximum number of bytes read from an error response.
const MOST_MESSAGE: u64 = 64 << 10;
/// Maximum size of a batch response: a hundred objects with long URLs.
pub(super) const MOST_RESPONSE: u64 = 4 << 20;

/// A scheme, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) scheme: &'static str,
    pub(super) host: Host,
}

impl Origin {
    /// Parses the origin of a URL and fills in the default port.
    pub(super) fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let (scheme, authority) = (uri.scheme_str()?, uri.authority()?.as_str());
        // Apply the rules for repository URLs: no account, and no host that two programs could
        // parse differently.
        let plain: RepositoryUrl =
            format!("{scheme}://{authority}/x").parse().ok().filter(|_| !authority.contains('@'))?;
        match Address::of(&plain)? {
            Address::Http { scheme, host } => {
                let usual = if scheme == "http" { 80 } else { 443 };
                Some(Self { scheme, host: Host { port: Some(host.port.unwrap_or(usual)), ..host } })
            }
            _ => None,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.host.port.unwrap_or(443)
    }
}

/// A resolver that always returns the checked address, whatever the name resolves to now.
#[derive(Debug)]
struct Pinned(SocketAddr);

impl Resolver for Pinned {
    fn resolve(&self, _: &Uri, _: &ureq::config::Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(self.0);
        Ok(addresses)
    }
}

pub(super) fn agent(settings: &Settings, origin: &Origin, address: IpAddr) -> Agent {
    let stall = settings.stall.max(Duration::from_secs(1));
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // The caller checks a redirect before it follows it.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent("stead")
        .timeout_global(Some(settings.timeout))
        .timeout_connect(Some(stall.min(Duration::from_secs(60))))
        .timeout_per_read(Some(stall))
        .timeout_per_write(Some(stall))
        .tls_config(TlsConfig::builder().root_certs(roots().clone()).build())
        .build();
    Agent::with_parts(config, DefaultConnector::new(), Pinned(SocketAddr::new(address, origin.port())))
}

/// The system's root certificates, as git uses them. Without a system bundle, those of browsers.
fn roots() -> &'static RootCerts {
    const BUNDLES: [&str; 4] = [
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
    ];
    static ROOTS: OnceLock<RootCerts> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let bundle = BUNDLES.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
        let certificates: Vec<_> = ureq::tls::parse_pem(&bundle)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        if certificates.is_empty() { RootCerts::WebPki } else { RootCerts::new_with_certs(&certificates) }
    })
}

/// Converts the error of a request without an answer.
pub(super) fn failed(error: ureq::Error, host: &str, settings: &Settings) -> GitError {
    match error {
        ureq::Error::Timeout(Timeout::Global) => {
            GitError::Timeout { doing: "transfer Git LFS objects", seconds: settings.timeout.as_secs() }
        }
        ureq::Error::Timeout(_) => {
            let reason = format!("it sent nothing for {} s", settings.stall.as_secs());
            GitError::Unreachable { host: host.to_owned(), reason }
        }
        other => GitError::Unreachable { host: host.to_owned(), reason: printable(&other.to_string()) },
    }
}

/// The server's own error message, safe to print.
pub(super) fn error_message(body: ureq::Body) -> String {
    let mut bytes = Vec::new();
    // An unreadable body gives no message.
    let _ = body.into_with_config().limit(MOST_MESSAGE + 1).reader().take(MOST_MESSAGE).read_to_end(&mut bytes);
    let json = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
    let json = json.and_then(|json| json["message"].as_str().map(str::to_owned));
    printable(&json.unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Another server's message, shortened and safe to print.
pub(super) fn printable(text: &str) -> String {
    harmless(text, 300).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::Origin;

    #[test]
    fn an_origin_is_read_in_one_way_or_not_at_all() {
        let text = |url: &str| Origin::of(url).map(|origin| format!("{}://{}", origin.scheme, origin.host));
        for (url, origin) in [
            ("https://H.example/a?b=c", Some("https://h.example:443")),
            ("http://h.example:8080/a", Some("http://h.example:8080")),
            ("https://[::1]:9/a", Some("https://[::1]:9")),
            ("https://me@h.example/a", None),
            ("https://h.example\\@other.example/a", None),
            ("https://h.example:0x50/a", None),
            ("ftp://h.example/a", None),
            ("file:///etc/passwd", None),
            ("/relative", None),
            ("", None),
        ] {
            assert_eq!(text(url).as_deref(), origin, "{url}");
        }
    }
}
