//! The web page: its files, its sign-in and its sign-out.
//!
//! `web/` is the source. `cargo xtask page` builds it into `page/bundle.tar`, which this file
//! includes, so that the server needs no other file and a build needs no Node.

mod bundle;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ORIGIN, REFERRER_POLICY,
    SET_COOKIE, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use stead_core::parse::{FieldPath, Fields, Read};

use crate::app::App;
use crate::auth::page_session::{self, LIFE_SECONDS, NAME};
use crate::extract::body::Json;
use crate::extract::query::{Nothing, Query};
use crate::problem::{Code, Problem};
use bundle::Part;

const SIGN_IN: &str = "/sign-in";
const SIGN_OUT: &str = "/sign-out";
const ASSETS: &str = "/assets/";

/// Scripts and styles come from this server's files only, and no other page shows this one in a
/// frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'";

/// Returns true for paths of the page that need no token.
pub(crate) fn is_part(path: &str) -> bool {
    path == SIGN_IN || path == SIGN_OUT || path.starts_with(ASSETS)
}

/// Returns the routes that only the page uses. The API document does not describe them.
pub(crate) fn router() -> Router<App> {
    Router::new().route("/assets/{file}", get(asset)).route(SIGN_IN, post(sign_in)).route(SIGN_OUT, post(sign_out))
}

/// Show the web page.
///
/// A link from `POST /api/v1/sign-in-links` signs the browser in.
#[utoipa::path(get, path = "/", tag = "health", operation_id = "page",
    responses((status = 200, body = String, content_type = "text/html")))]
pub(crate) async fn index(headers: HeaderMap, _: Query<Nothing>) -> Result<Response, Problem> {
    let part = bundle::part("index.html").ok_or_else(missing)?;
    let mut response = send(part, &headers)?;
    let fixed = [
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn missing() -> Problem {
    Problem::new(Code::NotFound, "the web page has no such file")
}

/// Sends a file of the page. Its name contains a hash of its content, so that it never changes.
async fn asset(Path(file): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let part = bundle::part(&format!("assets/{file}")).ok_or_else(missing)?;
    let mut response = send(part, &headers)?;
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, forever);
    Ok(response)
}

fn send(part: &Part, headers: &HeaderMap) -> Result<Response, Problem> {
    let encodings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let takes_gzip = encodings.flat_map(|value| value.split(',')).any(|one| one.trim().starts_with("gzip"));
    let fixed = [(CONTENT_TYPE, part.media_type), (X_CONTENT_TYPE_OPTIONS, "nosniff"), (VARY, "accept-encoding")];
    if takes_gzip {
        return Ok((fixed, [(CONTENT_ENCODING, "gzip")], part.compressed).into_response());
    }
    let bytes = part.bytes().map_err(|error| Problem::internal(&error))?;
    Ok((fixed, bytes).into_response())
}

/// The body of a sign-in: the code of a link.
struct SignIn(String);

impl Read for SignIn {
    fn read(value: serde_json::Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let code = fields.required::<String>("code");
        fields.done();
        code.map(Self)
    }
}

/// Exchanges the code of a link for a cookie.
async fn sign_in(State(app): State<App>, headers: HeaderMap, body: Json<SignIn>) -> Result<Response, Problem> {
    // Otherwise another page could sign this browser in with a link of its own.
    page_session::comes_from_the_page(&Method::POST, &headers)?;
    let subject = app.page_sessions.redeem(&body.value.0, app.engine.now()).ok_or_else(|| {
        Problem::new(Code::Unauthorized, "this sign-in link has been used or has expired")
            .hint("run `stead open` for a new one")
    })?;
    let value = page_session::cookie(&app, &subject)?;
    Ok((StatusCode::NO_CONTENT, cookie(&headers, &value, LIFE_SECONDS)?).into_response())
}

async fn sign_out(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    page_session::comes_from_the_page(&Method::POST, &headers)?;
    page_session::sign_out(&app, &headers);
    Ok((StatusCode::NO_CONTENT, cookie(&headers, "", 0)?).into_response())
}

/// A browser that came over TLS gets a cookie that it only sends over TLS.
fn cookie(headers: &HeaderMap, value: &str, seconds: i64) -> Result<[(HeaderName, HeaderValue); 2], Problem> {
    let over_tls = headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https:"));
    let secure = if over_tls { "; Secure" } else { "" };
    let text = format!("{NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let header = HeaderValue::from_str(&text).map_err(|error| Problem::internal(&error))?;
    Ok([(SET_COOKIE, header), (CACHE_CONTROL, HeaderValue::from_static("no-store"))])
}
