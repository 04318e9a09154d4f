//! The head of a request: what is refused, and what is not passed on.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method, Uri};
use stead_core::network::{HostName, RefusalCode};

/// Headers that belong to one connection, and those by which a proxy tells a server to read another
/// method, path, client or user.
const NOT_PASSED_ON: &[HeaderName] =
    &[CONNECTION, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
const NOT_PASSED_ON_BY_NAME: &[&str] = &[
    "forwarded",
    "keep-alive",
    "proxy-connection",
    "remote-user",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-real-ip",
    "x-remote-user",
];
const NOT_PASSED_ON_BY_PREFIX: &[&str] = &["x-forwarded-", "x-original-", "x-rewrite-"];

/// The host and port that requests of a connection must name.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) host: HostName,
    pub(super) port: u16,
}

impl Expected {
    fn names(&self, authority: &str) -> bool {
        let (host, port) = authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
        let port = port.map(|port| port.parse::<u16>().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit())));
        host.parse::<HostName>().is_ok_and(|host| host == self.host) && port.is_none_or(|port| port == Some(self.port))
    }
}

/// Refuses a request that names another host, opens a tunnel, or has two lengths. Returns its path
/// with the query.
pub(super) fn check(
    expected: &Expected,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<String, RefusalCode> {
    if *method == Method::CONNECT {
        return Err(RefusalCode::RequestNotAllowed);
    }
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(RefusalCode::NameMismatch) };
    let named = host.to_str().is_ok_and(|host| expected.names(host));
    // The absolute form names the host a second time.
    if !named || uri.authority().is_some_and(|authority| !expected.names(authority.as_str())) {
        return Err(RefusalCode::NameMismatch);
    }
    if headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH)
        || headers.get_all(CONTENT_LENGTH).iter().count() > 1
    {
        return Err(RefusalCode::NotHttp);
    }
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    target.starts_with('/').then(|| target.to_owned()).ok_or(RefusalCode::PathUnclear)
}

/// Returns true if the request asks to switch to WebSocket. The requests inside another protocol
/// would not be judged.
pub(super) fn wants_upgrade(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Removes headers of one connection: the listed ones and those that `Connection` names.
pub(super) fn without_connection_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(NOT_PASSED_ON) {
        headers.remove(name);
    }
    for name in NOT_PASSED_ON_BY_NAME {
        headers.remove(*name);
    }
    let prefixed = |name: &&HeaderName| NOT_PASSED_ON_BY_PREFIX.iter().any(|prefix| name.as_str().starts_with(prefix));
    let named: Vec<HeaderName> = headers.keys().filter(prefixed).cloned().collect();
    for name in named {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<String, RefusalCode> {
        let expected = Expected { host: "api.svc.stead".parse().unwrap(), port: 80 };
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        check(&expected, &method.parse().unwrap(), &target.parse().unwrap(), &map)
    }

    #[test]
    fn host_header_other_than_the_name() {
        let host = |value| verdict("GET", "/a?b", &[("host", value)]);
        for right in ["api.svc.stead", "API.svc.stead", "api.svc.stead:80", "api.svc.stead."] {
            assert_eq!(host(right).unwrap(), "/a?b", "{right}");
        }
        for wrong in
            ["", "evil.example", "api.svc.stead:81", "api.svc.stead:", "u@api.svc.stead", "api.svc.stead/x", "a,b"]
        {
            assert_eq!(host(wrong), Err(RefusalCode::NameMismatch), "{wrong}");
        }
        let right = ("host", "api.svc.stead");
        assert_eq!(verdict("GET", "/", &[]), Err(RefusalCode::NameMismatch));
        assert_eq!(verdict("GET", "/", &[right, right]), Err(RefusalCode::NameMismatch));
        assert_eq!(verdict("GET", "http://evil.example/", &[right]), Err(RefusalCode::NameMismatch));
        assert_eq!(verdict("GET", "http://api.svc.stead/x", &[right]).unwrap(), "/x");
        assert_eq!(verdict("CONNECT", "evil.example:443", &[right]), Err(RefusalCode::RequestNotAllowed));
    }

    #[test]
    fn two_lengths_are_no_request() {
        let right = ("host", "api.svc.stead");
        let chunked = ("transfer-encoding", "chunked");
        assert_eq!(verdict("POST", "/", &[right, chunked, ("content-length", "3")]), Err(RefusalCode::NotHttp));
        assert_eq!(
            verdict("POST", "/", &[right, ("content-length", "3"), ("content-length", "3")]),
            Err(RefusalCode::NotHttp)
        );
        assert!(verdict("POST", "/", &[right, ("content-length", "3")]).is_ok());
    }

    #[test]
    fn headers_of_the_connection_stay_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-mine"),
            ("x-mine", "1"),
            ("upgrade", "h2c"),
            ("te", "trailers"),
            ("x-http-method-override", "DELETE"),
            ("x-original-url", "/admin"),
            ("x-forwarded-for", "127.0.0.1"),
            ("forwarded", "for=127.0.0.1"),
            ("accept", "*/*"),
        ] {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        without_connection_headers(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
