//! The browser door: pages of servers in boxes, each port of each session under an origin of its
//! own.
//!
//! The `Host` of a request chooses between the API and the door before anything else, so neither
//! serves a path of the other. A caller of the API gets a link with a ticket (`tickets.rs`). The
//! door exchanges the ticket for a cookie of that host, and forwards every other request with the
//! cookie to the box (`forward.rs`). `headers.rs` has the rules for headers.

mod cookies;
pub(crate) mod forward;
pub(crate) mod headers;
mod pages;
mod tickets;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, HOST, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use stead_api::port::is_local_path;
use stead_core::session::door_host::{DoorHost, NamedHost, read_host};
use stead_core::{Rejection, Status};
use stead_engine::{OpError, ops};
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::auth::{Caller, Identity};
use crate::config::ServerConfig;
use crate::listener::connection::Clocks;
use crate::listener::connections::Standing;
use crate::problem::{self, Code, Problem};
use crate::{quota, request_log};
use forward::{Forwarding, forward};
use headers::Side;
pub(crate) use tickets::{Grant, Tickets};

/// Paths below this prefix belong to the door and not to the program in the box.
const OWN: &str = "/.stead/";
const ENTER: &str = "/.stead/enter";

/// Returns the door that a request names; `None` for a request to the API. A name below the door's
/// domains that is not a door, and a request that names two hosts, are errors.
pub(crate) fn named<B>(
    config: &ServerConfig,
    listening: u16,
    request: &http::Request<B>,
) -> Result<Option<DoorHost>, Problem> {
    let read = |host: &str| read_host(host, listening, config.preview_domain.as_deref());
    let mut hosts = request.headers().get_all(HOST).iter().map(|host| host.to_str().map_or(NamedHost::Other, read));
    let target = request.uri().authority().map(|authority| read(authority.as_str()));
    let nothing = || Problem::new(Code::Forbidden, "no door and no API answers for the host the request names");
    match (hosts.next().unwrap_or(NamedHost::Other), hosts.next(), target) {
        // The API has its own rules for its host.
        (NamedHost::Other, None, None | Some(NamedHost::Other)) => Ok(None),
        (NamedHost::Other, Some(NamedHost::Other), None | Some(NamedHost::Other)) => Ok(None),
        (NamedHost::Door(door), None, None) => Ok(Some(door)),
        (NamedHost::Door(door), None, Some(NamedHost::Door(target))) if door == target => Ok(Some(door)),
        _ => Err(nothing()),
    }
}

/// Returns the router of all doors. It has no route of the API.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .fallback(serve)
        .layer(from_fn_with_state(app.clone(), quota::admit))
        .layer(from_fn_with_state(app.clone(), authenticate))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(from_fn(request_log::record))
        .with_state(app)
}

/// The origin of a door, as a browser sends it.
pub(crate) struct DoorOrigin {
    pub(crate) text: String,
    pub(crate) scheme: &'static str,
}

impl DoorOrigin {
    /// The origin that the links of [`crate::routes::sessions::ports`] have.
    pub(crate) fn new(config: &ServerConfig, door: &DoorHost, listening: u16) -> Self {
        match &config.preview_domain {
            Some(domain) => Self { text: format!("https://{}.{domain}", door.label()), scheme: "https" },
            None => Self { text: format!("http://{}.localhost:{listening}", door.label()), scheme: "http" },
        }
    }

    /// The origin of a request with this `Host`.
    fn of_host(config: &ServerConfig, host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let name = host.split(':').next().unwrap_or_default();
        let previews = config.preview_domain.as_deref().is_some_and(|domain| name.ends_with(domain));
        let scheme = if previews { "https" } else { "http" };
        Self { text: format!("{scheme}://{host}"), scheme }
    }
}

/// Returns the link that opens a page of the box in a browser.
pub(crate) fn link(origin: &DoorOrigin, ticket: &str, path: &str) -> String {
    let to = percent_encoding::utf8_percent_encode(path, percent_encoding::NON_ALPHANUMERIC);
    format!("{}{ENTER}?ticket={ticket}&to={to}", origin.text)
}

/// Middleware that answers the door's own paths, and adds the caller to all other requests.
async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let Some(door) = request.extensions().get::<DoorHost>().copied() else {
        return pages::problem(&Problem::new(Code::NotFound, "there is no door here"));
    };
    if request.extensions().get::<Standing>() == Some(&Standing::OpenRoutesOnly) {
        return pages::problem(&Problem::new(Code::Capacity, "every connection of this server is in use"));
    }
    let path = request.uri().path();
    if path == ENTER {
        return enter(&app, &door, &request);
    }
    if path.starts_with(OWN) || path == OWN.trim_end_matches('/') {
        return pages::problem(&Problem::new(Code::NotFound, "paths below /.stead/ belong to the server"));
    }
    let mut visitors = cookies::values(request.headers()).filter_map(|value| app.tickets.visitor(value, &door));
    let Some(grant) = visitors.find(|grant| !grant.identity.lifetime.has_ended(&app.engine)) else {
        return pages::closed(&door);
    };
    drop(visitors);
    if let Some(clocks) = request.extensions().get::<Arc<Clocks>>() {
        clocks.authenticated();
    }
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = DoorOrigin::of_host(&app.config, host);
    if let Err(problem) = own_pages_only(request.method(), request.headers(), &origin) {
        return pages::problem(&problem);
    }
    let caller = Caller(grant.identity.actor.clone());
    request.extensions_mut().insert(caller.clone());
    request.extensions_mut().insert(grant.identity);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(caller);
    response
}

/// Exchanges a ticket for the cookie of this door.
fn enter(app: &App, door: &DoorHost, request: &Request) -> Response {
    if request.method() != Method::GET {
        return pages::problem(&Problem::new(Code::MethodNotAllowed, "a ticket is used with GET"));
    }
    let mut parameters = Parameters::of(request.uri().query().unwrap_or_default());
    let entered = parameters.take("ticket").and_then(|ticket| app.tickets.enter(&ticket, door));
    let Some(cookie) = entered else { return pages::closed(door) };
    let to = parameters.take("to").filter(|to| is_local_path(to)).unwrap_or_else(|| "/".to_owned());
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let secure = DoorOrigin::of_host(&app.config, host).scheme == "https";
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    let values = (HeaderValue::from_str(&cookies::set(&cookie, secure)), HeaderValue::from_str(&to));
    let (Ok(cookie), Ok(to)) = values else { return pages::closed(door) };
    headers.insert(SET_COOKIE, cookie);
    headers.insert(LOCATION, to);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The parameters of a query.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn of(query: &str) -> Self {
        let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect())
    }

    /// Returns the value of a parameter that is given once.
    fn take(&mut self, name: &str) -> Option<String> {
        let mut found = self.0.iter().filter(|(known, _)| known == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value.clone()),
            _ => None,
        }
    }
}

/// Refuses a request that a page of another origin made. A navigation is allowed, because links
/// lead here.
fn own_pages_only(method: &Method, headers: &HeaderMap, origin: &DoorOrigin) -> Result<(), Problem> {
    let foreign = || Err(Problem::new(Code::Forbidden, "this door does not answer pages of another origin"));
    let mut origins = headers.get_all(ORIGIN).iter();
    if let Some(named) = origins.next() {
        let same = named.to_str().is_ok_and(|named| named.eq_ignore_ascii_case(&origin.text));
        if !same || origins.next().is_some() {
            return foreign();
        }
    }
    let fetch = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match fetch("sec-fetch-site") {
        None | Some("same-origin" | "none") => Ok(()),
        _ => {
            let reads = matches!(*method, Method::GET | Method::HEAD);
            let navigates = fetch("sec-fetch-mode") == Some("navigate") && fetch("sec-fetch-dest") == Some("document");
            if reads && navigates { Ok(()) } else { foreign() }
        }
    }
}

/// Forwards a request of a visitor to the box.
async fn serve(State(app): State<App>, identity: Identity, request: Request<Body>) -> Response {
    let Some(door) = request.extensions().get::<DoorHost>().copied() else {
        return pages::problem(&Problem::new(Code::NotFound, "there is no door here"));
    };
    let (engine, lifetime) = (app.engine.clone(), identity.lifetime.clone());
    let ended = Box::pin(async move { lifetime.ended(&engine).await });
    let opened = ops::open_port(&app.engine, &identity.actor, door.session, door.port, ended).await;
    let connection = match opened {
        Ok(connection) => connection,
        Err(OpError::Rejected(Rejection::NotActive { status: Status::Closing | Status::Closed | Status::Failed }))
        | Err(OpError::NotFound { .. }) => return pages::gone(),
        Err(error) => return pages::problem(&error.into()),
    };
    let host = request.headers().get(HOST).cloned().unwrap_or(HeaderValue::from_static("localhost"));
    let origin = DoorOrigin::of_host(&app.config, host.to_str().unwrap_or_default());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let side = Side::Browser { origin: origin.text.clone(), port: door.port };
    let forwarding = Forwarding { path, host: host.clone(), forwarded_host: host, scheme: origin.scheme, side };
    match forward(connection, request, forwarding).await {
        Ok(response) => response,
        Err(problem) => pages::problem(&problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01jz0000000000000000000000";

    fn request(hosts: &[&str], target: &str) -> http::Request<()> {
        let mut request = http::Request::builder().uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn a_request_names_one_door_or_the_api() {
        let config = ServerConfig::default();
        let door = format!("8080-ses-{ID}.localhost:7717");
        let other = format!("8081-ses-{ID}.localhost:7717");
        let is_door = |hosts: &[&str], target: &str| {
            named(&config, 7717, &request(hosts, target)).map(|door| door.is_some()).ok()
        };
        assert_eq!(is_door(&[&door], "/"), Some(true));
        assert_eq!(is_door(&[&door], &format!("http://{door}/")), Some(true));
        assert_eq!(is_door(&["localhost:7717"], "/"), Some(false));
        assert_eq!(is_door(&["localhost:7717"], "http://localhost:7717/"), Some(false));
        assert_eq!(is_door(&[], "/"), Some(false));
        for (hosts, target) in [
            (vec![door.as_str(), "localhost:7717"], "/".to_owned()),
            (vec!["localhost:7717", &door], "/".to_owned()),
            (vec![&door, &door], "/".to_owned()),
            (vec![&door], "http://localhost:7717/".to_owned()),
            (vec!["localhost:7717"], format!("http://{door}/")),
            (vec![&door], format!("http://{other}/")),
            (vec!["a.localhost:7717"], "/".to_owned()),
        ] {
            assert_eq!(is_door(&hosts, &target), None, "{hosts:?} {target}");
        }
    }

    #[test]
    fn only_its_own_pages_use_a_door() {
        let origin = DoorOrigin { text: "http://a.localhost:1".to_owned(), scheme: "http" };
        let check = |method: Method, given: &[(&str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            own_pages_only(&method, &headers, &origin).is_ok()
        };
        let (site, mode, dest) = ("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest");
        assert!(check(Method::POST, &[]));
        assert!(check(Method::POST, &[("origin", "http://a.localhost:1"), (site, "same-origin")]));
        assert!(check(Method::GET, &[(site, "none"), (mode, "navigate"), (dest, "document")]));
        assert!(check(Method::GET, &[(site, "cross-site"), (mode, "navigate"), (dest, "document")]));
        for given in [
            vec![("origin", "http://b.localhost:1")],
            vec![("origin", "https://a.localhost:1")],
            vec![("origin", "null")],
            vec![("origin", "http://a.localhost:1"), ("origin", "http://a.localhost:1")],
            vec![(site, "cross-site")],
            vec![(site, "same-site"), (mode, "no-cors"), (dest, "image")],
            vec![(site, "cross-site"), (mode, "navigate"), (dest, "iframe")],
        ] {
            assert!(!check(Method::GET, &given), "{given:?}");
        }
        assert!(!check(Method::POST, &[(site, "cross-site"), (mode, "navigate"), (dest, "document")]));
    }
}
