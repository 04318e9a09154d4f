//! Header rules between a client and a program in a box.

use http::header::{
    ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_SECURITY_POLICY, COOKIE, EXPECT, FORWARDED, HOST, LOCATION, SET_COOKIE,
    STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::cookies;

/// Headers about one connection and not about the message, besides those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 6] =
    [CONNECTION, HeaderName::from_static("keep-alive"), TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Headers with which a program could change what browsers, or a proxy in front of this server, do
/// beyond this one answer.
const NOT_FROM_A_BOX: [&str; 8] = [
    "service-worker-allowed",
    "public-key-pins",
    "public-key-pins-report-only",
    "nel",
    "report-to",
    "reporting-endpoints",
    "clear-site-data",
    "x-sendfile",
];

/// The kind of client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Side {
    /// A browser, at an origin of its own.
    Browser { origin: String, port: u16 },
    /// A program, on the API's origin. `prefix` is the path of the port's root.
    Program { prefix: String, port: u16 },
}

/// Changes the headers of a request to a program in a box.
pub(crate) fn towards_box(
    headers: &mut HeaderMap,
    side: &Side,
    host: HeaderValue,
    forwarded_host: HeaderValue,
    scheme: &'static str,
) {
    remove_hop_by_hop(headers);
    headers.remove(EXPECT);
    headers.remove(FORWARDED);
    remove_matching(headers, |name| name.starts_with("x-forwarded-") || name.starts_with("proxy-"));
    match side {
        Side::Browser { .. } => cookies::remove(headers),
        Side::Program { .. } => {
            // The token of the API, and cookies of its origin.
            headers.remove(AUTHORIZATION);
            headers.remove(COOKIE);
        }
    }
    headers.insert(HOST, host);
    headers.insert("x-forwarded-host", forwarded_host);
    headers.insert("x-forwarded-proto", HeaderValue::from_static(scheme));
}

/// Changes the headers of an answer from a program in a box.
pub(crate) fn from_box(headers: &mut HeaderMap, side: &Side) {
    remove_hop_by_hop(headers);
    headers.remove(STRICT_TRANSPORT_SECURITY);
    headers.remove(ALT_SVC);
    remove_matching(headers, |name| NOT_FROM_A_BOX.contains(&name) || name.starts_with("x-accel-"));
    if let Some(location) = headers.get(LOCATION).and_then(|location| relocated(location, side)) {
        headers.insert(LOCATION, location);
    }
    match side {
        Side::Browser { .. } => {
            let given: Vec<_> = headers.get_all(SET_COOKIE).iter().filter_map(own_cookie).collect();
            headers.remove(SET_COOKIE);
            for cookie in given {
                headers.append(SET_COOKIE, cookie);
            }
        }
        Side::Program { .. } => {
            headers.remove(SET_COOKIE);
            remove_matching(headers, |name| name.starts_with("access-control-"));
            // If a browser shows the answer after all, it must not act for the API's origin.
            let sandbox = HeaderValue::from_static("sandbox; default-src 'none'");
            headers.insert(CONTENT_SECURITY_POLICY, sandbox);
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        }
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn remove_matching(headers: &mut HeaderMap, matches: impl Fn(&str) -> bool) {
    let found: Vec<HeaderName> = headers.keys().filter(|name| matches(name.as_str())).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// Returns a cookie of the program for this host alone; `None` for one in the name of the door.
fn own_cookie(cookie: &HeaderValue) -> Option<HeaderValue> {
    let mut parts = cookie.as_bytes().split(|byte| *byte == b';');
    let pair = parts.next()?;
    let name = pair.split(|byte| *byte == b'=').next()?.trim_ascii();
    if std::str::from_utf8(name).is_ok_and(cookies::is_own) {
        return None;
    }
    let is_domain = |part: &&[u8]| {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"domain")
    };
    let kept: Vec<&[u8]> = std::iter::once(pair).chain(parts.filter(|part| !is_domain(part))).collect();
    HeaderValue::from_bytes(&kept.join(&b";"[..])).ok()
}

/// Returns a redirect of a program to its own address as a redirect to the client's.
fn relocated(location: &HeaderValue, side: &Side) -> Option<HeaderValue> {
    let location = location.to_str().ok()?;
    let (root, port) = match side {
        Side::Browser { origin, port } => (origin, port),
        Side::Program { prefix, port } => (prefix, port),
    };
    let own = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0"].iter().find_map(|host| {
        let rest = location.strip_prefix(&format!("http://{host}:{port}"))?;
        (rest.is_empty() || rest.starts_with(['/', '?', '#'])).then_some(rest)
    });
    let below_root = || location.strip_prefix('/').filter(|rest| !rest.starts_with('/')).map(|_| location);
    let path = match side {
        Side::Browser { .. } => own?,
        // The root of the program is not the root of the API.
        Side::Program { .. } => own.or_else(below_root)?,
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    HeaderValue::from_str(&format!("{root}{slash}{path}")).ok()
}

/// Refuses a browser at the door for programs. A page from a box must not run on the API's origin,
/// where it could use the dashboard's storage and cookies.
pub(crate) fn is_browser(headers: &HeaderMap) -> bool {
    let fetch = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    fetch("sec-fetch-mode").is_some_and(|mode| mode != b"cors" && mode != b"same-origin")
        || fetch("sec-fetch-dest").is_some_and(|dest| dest != b"empty")
        || headers.contains_key("sec-fetch-user")
        || headers.contains_key("service-worker")
        || headers.contains_key(COOKIE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browser() -> Side {
        Side::Browser { origin: "http://door.localhost:7717".to_owned(), port: 8080 }
    }

    fn program() -> Side {
        Side::Program { prefix: "/api/v1/sessions/s/ports/8080".to_owned(), port: 8080 }
    }

    fn map(given: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn list(headers: &HeaderMap) -> Vec<(String, String)> {
        let mut list: Vec<_> =
            headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        list.sort();
        list
    }

    fn sent(given: &[(&str, &str)], side: &Side) -> Vec<(String, String)> {
        let mut headers = map(given);
        let host = |text| HeaderValue::from_static(text);
        towards_box(&mut headers, side, host("localhost:8080"), host("door"), "http");
        list(&headers)
    }

    fn expected(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut all: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        all.sort();
        all
    }

    #[test]
    fn a_box_sees_no_secret_of_the_server_and_no_claim_of_the_client() {
        let given = [
            ("authorization", "Bearer x"),
            ("cookie", "a=1; stead_door=secret"),
            ("connection", "keep-alive, X-Private"),
            ("x-private", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-host", "evil"),
            ("forwarded", "for=1"),
            ("proxy-authorization", "y"),
            ("expect", "100-continue"),
            ("accept", "*/*"),
        ];
        let always = [
            ("host", "localhost:8080"),
            ("x-forwarded-host", "door"),
            ("x-forwarded-proto", "http"),
            ("accept", "*/*"),
        ];
        assert_eq!(sent(&given, &program()), expected(&always));
        let with = [&always[..], &[("authorization", "Bearer x"), ("cookie", "a=1")]].concat();
        assert_eq!(sent(&given, &browser()), expected(&with));
    }

    fn answered(given: &[(&str, &str)], side: &Side) -> Vec<(String, String)> {
        let mut headers = map(given);
        from_box(&mut headers, side);
        list(&headers)
    }

    const POWERS: [(&str, &str); 10] = [
        ("service-worker-allowed", "/"),
        ("strict-transport-security", "max-age=1"),
        ("alt-svc", "h3=\":1\""),
        ("nel", "{}"),
        ("report-to", "{}"),
        ("clear-site-data", "\"cookies\""),
        ("x-accel-redirect", "/secret"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("content-type", "text/html"),
    ];

    #[test]
    fn an_answer_sets_cookies_of_its_own_host_only() {
        let given = [
            ("set-cookie", "a=1; Domain=localhost; Path=/"),
            ("set-cookie", "stead_door=evil; Path=/"),
            ("set-cookie", " Stead_Door =evil"),
            ("set-cookie", "__Host-stead_door=evil; Secure"),
            ("set-cookie", "b=2; domain = .localhost;HttpOnly"),
        ];
        let kept = [("content-type", "text/html"), ("set-cookie", "a=1; Path=/"), ("set-cookie", "b=2;HttpOnly")];
        assert_eq!(answered(&[&POWERS[..], &given].concat(), &browser()), expected(&kept));
    }

    #[test]
    fn an_answer_on_the_apis_origin_can_do_nothing() {
        let given = [("set-cookie", "a=1"), ("access-control-allow-origin", "*"), ("content-security-policy", "x")];
        let kept = [
            ("content-type", "text/html"),
            ("content-security-policy", "sandbox; default-src 'none'"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-resource-policy", "same-origin"),
        ];
        assert_eq!(answered(&[&POWERS[..], &given].concat(), &program()), expected(&kept));
    }

    #[test]
    fn a_redirect_of_a_program_to_itself_stays_at_the_door() {
        let to = |location: &str, side: &Side| {
            let mut headers = map(&[("location", location)]);
            from_box(&mut headers, side);
            headers.get(LOCATION).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(to("http://localhost:8080/a?b", &browser()), "http://door.localhost:7717/a?b");
        assert_eq!(to("http://127.0.0.1:8080", &browser()), "http://door.localhost:7717/");
        assert_eq!(to("http://[::1]:8080/x", &program()), "/api/v1/sessions/s/ports/8080/x");
        assert_eq!(to("/x", &program()), "/api/v1/sessions/s/ports/8080/x");
        for other in ["/x", "x", "http://localhost:80801/", "http://localhost:8081/", "http://169.254.169.254/x"] {
            assert_eq!(to(other, &browser()), other);
        }
        for other in ["x", "//evil/x", "http://169.254.169.254/x"] {
            assert_eq!(to(other, &program()), other);
        }
    }

    #[test]
    fn browsers_are_told_from_programs() {
        for given in [
            vec![("sec-fetch-mode", "navigate")],
            vec![("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
            vec![("sec-fetch-mode", "websocket")],
            vec![("sec-fetch-dest", "iframe")],
            vec![("cookie", "a=1")],
            vec![("service-worker", "script")],
        ] {
            assert!(is_browser(&map(&given)), "{given:?}");
        }
        for given in
            [vec![], vec![("sec-fetch-mode", "cors")], vec![("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")]]
        {
            assert!(!is_browser(&map(&given)), "{given:?}");
        }
    }
}
