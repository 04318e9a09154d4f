//! `/sessions/{id}/ports`

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::{FromRequestParts, OriginalUri, Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONNECTION, HOST, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use hyper::upgrade::OnUpgrade;
use stead_api::list::List;
use stead_api::port::{OpenPortRequest, OpenedPort, Port};
use stead_api::schema;
use stead_core::SessionId;
use stead_core::session::door_host::DoorHost;
use stead_engine::{PortConnection, ops};

use crate::app::App;
use crate::auth::{Caller, Identity};
use crate::extract::body::MaybeJson;
use crate::extract::path::{PortPath, PortToConnect, PortToOpen, SessionPath};
use crate::extract::query::{Nothing, Query};
use crate::host::LocalAddress;
use crate::listener::door::forward::{Forwarding, copy, forward};
use crate::listener::door::headers::{Side, is_browser};
use crate::listener::door::{DoorOrigin, Grant, link};
use crate::problem::{Code, Problem};
use crate::quota::Ticket;

const TCP: &str = "tcp";

/// List the ports that programs in the session's box listen on.
///
/// Only ports that the caller may open are listed.
#[utoipa::path(get, path = "/sessions/{id}/ports", tag = "ports", operation_id = "list_ports",
    params(("id" = schema::SessionId, Path)),
    responses((status = 200, body = List<Port>), (status = 409), (status = 422)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<List<Port>>, Problem> {
    let found = ops::listening_ports(&app.engine, &actor, id).await?;
    let port = |found: stead_providers::ListeningPort| Port { port: found.port, address: found.address.to_string() };
    Ok(Answer(List::whole(found.into_iter().map(port).collect())))
}

/// Make a link that opens a port of the session's box in a browser.
///
/// The link works once, within a minute. It leads to an origin that only this port of this session
/// has, so a page from the box cannot use the API or the dashboard.
#[utoipa::path(post, path = "/sessions/{id}/ports/{port}:open", tag = "ports", operation_id = "open_port",
    params(("id" = schema::SessionId, Path), ("port" = schema::PortNumber, Path)),
    request_body(content = OpenPortRequest, description = "Optional."),
    responses((status = 200, body = OpenedPort), (status = 409), (status = 422)))]
pub(crate) async fn open(
    State(app): State<App>,
    identity: Identity,
    SessionPath(id): SessionPath,
    PortToOpen(port): PortToOpen,
    _: Query<Nothing>,
    reached: Reached,
    body: MaybeJson<OpenPortRequest>,
) -> Result<Answer<OpenedPort>, Problem> {
    ops::check_port(&app.engine, &identity.actor, id, port).await?;
    let path = body.value.path.map_or_else(|| "/".to_owned(), |path| path.0);
    if app.config.preview_domain.is_none() && !reached.by_loopback {
        let detail = "links for browsers work on the server's own machine only, because it has no preview_domain";
        return Err(Problem::new(Code::SemanticMismatch, detail)
            .hint("set preview_domain in stead.toml, or use `stead forward`"));
    }
    let door = DoorHost { session: id, port };
    let ticket = app.tickets.issue(Grant { door, identity });
    let ticket = ticket.ok_or_else(|| Problem::new(Code::Capacity, "too many links are open").retry_after(60))?;
    Ok(Answer(OpenedPort { url: link(&DoorOrigin::new(&app.config, &door, reached.port), &ticket, &path) }))
}

/// Answers a method that the action of the path does not have. The two actions share a route, whose
/// methods are those of both.
pub(crate) async fn other_method(OriginalUri(uri): OriginalUri) -> Response {
    let methods = if uri.path().ends_with(":open") { "POST" } else { "GET,HEAD" };
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, methods)]).into_response()
}

/// The way in which a client reached this server.
pub(crate) struct Reached {
    port: u16,
    /// True for a loopback name or address, which the host check has accepted.
    by_loopback: bool,
}

impl<S: Sync> FromRequestParts<S> for Reached {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let port = parts.extensions.get::<LocalAddress>().map_or(0, |LocalAddress(local)| local.port());
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        Ok(Self { port, by_loopback: is_loopback(host) })
    }
}

fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Connect to a port of the session's box, for any protocol.
///
/// The request needs `Connection: upgrade` and `Upgrade: tcp`. After the response 101 the
/// connection carries the bytes of the port.
#[utoipa::path(get, path = "/sessions/{id}/ports/{port}:connect", tag = "ports", operation_id = "connect_port",
    params(("id" = schema::SessionId, Path), ("port" = schema::PortNumber, Path)),
    responses((status = 101, description = "The connection is open."), (status = 409), (status = 422), (status = 502)))]
pub(crate) async fn connect(
    State(app): State<App>,
    identity: Identity,
    SessionPath(id): SessionPath,
    PortToConnect(port): PortToConnect,
    _: Query<Nothing>,
    mut request: Request,
) -> Result<Response, Problem> {
    if request.headers().get(UPGRADE).is_none_or(|value| value != TCP) {
        return Err(Problem::invalid("Upgrade", "this route requires the header Upgrade: tcp"));
    }
    if request.extensions().get::<OnUpgrade>().is_none() {
        return Err(Problem::invalid("Connection", "this route requires the header Connection: upgrade"));
    }
    let connection = opened(&app, &identity, id, port).await?;
    // An open connection counts as one request of its token.
    let ticket = request.extensions().get::<Arc<Ticket>>().cloned();
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match upgrading.await {
            Ok(client) => copy(client, connection).await,
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
        drop(ticket);
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(TCP));
    Ok(response)
}

async fn opened(app: &App, identity: &Identity, id: SessionId, port: u16) -> Result<PortConnection, Problem> {
    let (engine, lifetime) = (app.engine.clone(), identity.lifetime.clone());
    let ended = Box::pin(async move { lifetime.ended(&engine).await });
    Ok(ops::open_port(&app.engine, &identity.actor, id, port, ended).await?)
}

macro_rules! forwards {
    ($($name:ident, $method:ident, $id:literal;)+) => {$(
        /// Send an HTTP request to a port of the session's box.
        ///
        /// For programs. The token is removed, and the answer is the one of the program in the box.
        /// Browsers are refused: use the link of `POST /sessions/{id}/ports/{port}:open`.
        #[utoipa::path($method, path = "/sessions/{id}/ports/{port}/{*path}", tag = "ports", operation_id = $id,
            params(("id" = schema::SessionId, Path), ("port" = schema::PortNumber, Path),
                ("path" = String, Path, description = "Path for the program in the box, passed on as it is.")),
            responses((status = 200, description = "Any answer of the program.", content((schema::Bytes = "application/octet-stream"))),
                (status = 409), (status = 422), (status = 502)))]
        pub(crate) async fn $name(
            state: State<App>,
            identity: Identity,
            session: SessionPath,
            port: PortPath,
            request: Request,
        ) -> Result<Response, Problem> {
            pass(state, identity, session, port, request).await
        }
    )+};
}

forwards! {
    get, get, "get_port";
    post, post, "post_port";
    put, put, "put_port";
    patch, patch, "patch_port";
    delete, delete, "delete_port";
}

/// Forwards a request of a program. Also serves the methods and the path that the document does not
/// list.
pub(crate) async fn pass(
    State(app): State<App>,
    identity: Identity,
    SessionPath(id): SessionPath,
    PortPath(port): PortPath,
    request: Request,
) -> Result<Response, Problem> {
    if is_browser(request.headers()) {
        let detail = "a page of a box must not open on the origin of the API";
        return Err(Problem::new(Code::Forbidden, detail)
            .hint("open it with `stead port open SESSION PORT`, or POST /api/v1/sessions/{id}/ports/{port}:open"));
    }
    let path = below_port(&request);
    let connection = opened(&app, &identity, id, port).await?;
    let forwarded_host = request.headers().get(HOST).cloned().unwrap_or(HeaderValue::from_static("localhost"));
    let host = HeaderValue::from_str(&format!("localhost:{port}")).unwrap_or(HeaderValue::from_static("localhost"));
    let side = Side::Program { prefix: format!("/api/v1/sessions/{id}/ports/{port}"), port };
    forward(connection, request, Forwarding { path, host, forwarded_host, scheme: "http", side }).await
}

/// Returns the path and the query after `/api/v1/sessions/{id}/ports/{port}`, as the client wrote
/// them.
fn below_port(request: &Request) -> String {
    // The router has removed the prefix of the API from the other one.
    let uri = request.extensions().get::<OriginalUri>().map_or(request.uri(), |OriginalUri(uri)| uri);
    let path = uri.path();
    let rest = path.match_indices('/').nth(6).map_or("/", |(at, _)| &path[at..]);
    match uri.query() {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    }
}
