//! Checks the `Host` and `Origin` headers.
//!
//! A web page can make a browser send requests to a loopback port under a domain of the attacker
//! (DNS rebinding). So the server only accepts a `Host` that is loopback, the address of the
//! connection or a configured name, with the right port. An `Origin`, if present, must be this
//! server or a configured one.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName};

use crate::app::App;
use crate::config::ServerConfig;
use crate::problem::{Code, Problem};

/// The local address of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalAddress(pub(crate) SocketAddr);

/// Middleware that rejects requests with a wrong `Host` or `Origin`.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let local = request.extensions().get::<LocalAddress>().copied();
    let verdict = judge(&app.config, local, request.uri().authority(), request.headers());
    match verdict {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn judge(
    config: &ServerConfig,
    local: Option<LocalAddress>,
    target: Option<&Authority>,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let host = only(headers, HOST)?.ok_or_else(|| refusal("the request has no Host header"))?;
    // `GET http://name/ HTTP/1.1` names the host twice. Both must be valid.
    for named in std::iter::once(host).chain(target.map(Authority::as_str)) {
        if !serves(config, local, named) {
            return Err(refusal("this server does not answer for the host the request names"));
        }
    }
    let Some(origin) = only(headers, ORIGIN)? else { return Ok(()) };
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) == Some(host);
    let configured = config.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin));
    if own || configured { Ok(()) } else { Err(refusal("this server does not answer pages of another origin")) }
}

fn refusal(detail: &str) -> Problem {
    Problem::new(Code::Forbidden, detail).hint("add the host or origin to allowed_hosts or allowed_origins")
}

fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(Some).map_err(|_| refusal("the Host or Origin header is not plain text"))
        }
        (Some(_), Some(_)) => Err(refusal("the Host or Origin header is given twice")),
    }
}

fn serves(config: &ServerConfig, local: Option<LocalAddress>, named: &str) -> bool {
    let Ok(authority) = named.parse::<Authority>() else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host().trim_end_matches('.');
    if config
        .allowed_hosts
        .iter()
        .any(|allowed| allowed.eq_ignore_ascii_case(named) || allowed.eq_ignore_ascii_case(name))
    {
        return true;
    }
    let Some(LocalAddress(local)) = local else { return false };
    let right_port = authority.port_u16().unwrap_or(80) == local.port();
    let address: Option<IpAddr> = name.trim_start_matches('[').trim_end_matches(']').parse().ok();
    let ours = match address {
        // DNS cannot redirect a literal address, so the local address of the connection is as safe
        // as loopback.
        Some(address) => address.is_loopback() || address == local.ip().to_canonical(),
        None => name.eq_ignore_ascii_case("localhost"),
    };
    right_port && ours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>, served: bool) {
        let config = ServerConfig {
            allowed_hosts: vec!["stead.example".into(), "other.example:8443".into()],
            allowed_origins: vec!["https://app.example".into()],
            ..ServerConfig::default()
        };
        let local = Some(LocalAddress(SocketAddr::from(([192, 0, 2, 7], 7080))));
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        assert_eq!(judge(&config, local, None, &headers).is_ok(), served, "{host} {origin:?}");
    }

    #[test]
    fn only_our_own_names_with_the_right_port() {
        for host in ["localhost:7080", "127.0.0.1:7080", "[::1]:7080", "LOCALHOST:7080", "192.0.2.7:7080"] {
            check(host, None, true);
        }
        for host in ["stead.example", "stead.example:1", "Stead.Example:443", "other.example:8443"] {
            check(host, None, true);
        }
        for host in
            ["evil.example:7080", "localhost", "localhost:7081", "127.0.0.1.evil.example:7080", "192.0.2.8:7080"]
        {
            check(host, None, false);
        }
        for host in ["other.example", "localhost:7080@evil.example", "", "localhost:x", "user@localhost:7080"] {
            check(host, None, false);
        }
    }

    #[test]
    fn only_our_own_pages() {
        check("localhost:7080", Some("http://localhost:7080"), true);
        check("localhost:7080", Some("https://app.example"), true);
        for origin in ["null", "http://evil.example", "http://localhost:7081", "http://127.0.0.1:7080", "file://"] {
            check("localhost:7080", Some(origin), false);
        }
    }
}
