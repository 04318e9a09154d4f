//! Pages of the door itself, for people.

use axum::response::{Html, IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderName, HeaderValue, StatusCode};
use stead_core::session::door_host::DoorHost;

use crate::problem::Problem;

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

/// The page for a visitor without a valid cookie.
pub(super) fn closed(door: &DoorHost) -> Response {
    let DoorHost { session, port } = door;
    let hint = format!("Run `stead port open {session} {port}`, or `stead forward {session} {port}`");
    let detail = "A link works once, within a minute. This one was used already, or its time is over.";
    page(StatusCode::UNAUTHORIZED, "This page needs a new link", detail, Some(&hint))
}

/// The page of a session that has ended. It also makes the browser forget what the pages stored.
pub(super) fn gone() -> Response {
    let mut response = page(StatusCode::GONE, "The session has ended", "its pages are gone", None);
    let everything = HeaderValue::from_static("\"cookies\", \"storage\", \"cache\"");
    response.headers_mut().insert(CLEAR_SITE_DATA, everything);
    response
}

pub(super) fn problem(problem: &Problem) -> Response {
    let code = problem.code();
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    page(status, code.title(), problem.detail(), problem.hint_text())
}

fn page(status: StatusCode, title: &str, detail: &str, hint: Option<&str>) -> Response {
    let hint = hint.map(|hint| format!("<p>{}</p>", escape(hint))).unwrap_or_default();
    let (title, detail) = (escape(title), escape(detail));
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title><h1>{title}</h1><p>{detail}</p>{hint}</html>\n"
    );
    let mut response = (status, Html(text)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
