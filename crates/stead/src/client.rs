//! The HTTP client of the command line: blocking requests, refusals as typed errors.

mod exec;
mod follow;
mod id_prefix;
mod problem;
mod sse;
mod transfer;
mod upgrade;

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stead_api::{List, Problem};
use ureq::http::{Request, Response, StatusCode, header};
use ureq::{Agent, ResponseExt as _};

pub(crate) use exec::{ExecNews, exec_path, follow_exec, stdin_body};
pub(crate) use follow::{follow, watch};
pub(crate) use upgrade::{UpgradeError, Upgraded, upgrade};

use crate::config::{Endpoint, is_loopback};
use crate::failure::Failure;
use crate::secret::Secret;

const CONNECT: Duration = Duration::from_secs(5);
/// Timeout for an answer that the server does not delay on purpose.
const ANSWER: Duration = Duration::from_secs(60);
/// The server sends a heartbeat on an event stream every 15 seconds; after this silence it is
/// considered gone.
const SILENCE: Duration = Duration::from_secs(40);
/// Maximum size of an answer, far above any that the server gives.
const MAX_BODY: u64 = 256 * 1024 * 1024;
/// Maximum number of items that the server puts on one page.
const PAGE: u32 = 500;

type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("no Stead server answers at {url}")]
    Unreachable {
        url: String,
        #[source]
        source: Cause,
    },
    #[error("the connection to {url} was lost before the answer was complete")]
    Lost {
        url: String,
        #[source]
        source: Cause,
    },
    #[error("{url} answered with status {status}, and not as a Stead server does")]
    Stranger {
        url: String,
        status: u16,
        #[source]
        source: serde_json::Error,
    },
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
}

#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: Agent,
    url: String,
    token: Option<Secret>,
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint) -> Result<Self, Failure> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are off: following one would send the token to another server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT))
            .user_agent(concat!("stead/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&endpoint.url) {
            config = config.proxy(None);
        }
        Ok(Self { agent: config.build().new_agent(), url: endpoint.url, token: endpoint.token })
    }

    /// URL of the server, and the token for it.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint { url: self.url.clone(), token: self.token.clone() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(self.request("GET", path), None, ANSWER)
    }

    pub(crate) fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.json(self.request("PUT", path), Some(bytes(body)), ANSWER)
    }

    pub(crate) fn patch<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.json(self.request("PATCH", path), Some(bytes(body)), ANSWER)
    }

    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, ClientError> {
        self.json(self.request("POST", path), Some(bytes(body)), ANSWER)
    }

    /// A POST whose answer the server may delay for `wait`.
    pub(crate) fn post_for<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, ClientError> {
        self.json(self.request("POST", path), Some(bytes(body)), ANSWER + wait)
    }

    /// A POST without a body.
    pub(crate) fn post_empty<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(self.request("POST", path), None, ANSWER)
    }

    /// A POST that creates something, at most once per key; the server may delay the answer for
    /// `wait`.
    pub(crate) fn create<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        key: &str,
        wait: Duration,
    ) -> Result<T, ClientError> {
        self.json(self.request("POST", path).header("Idempotency-Key", key), Some(bytes(body)), ANSWER + wait)
    }

    /// Sends a DELETE. Returns `None` if the answer has no body.
    pub(crate) fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, ClientError> {
        self.json(self.request("DELETE", path), None, ANSWER)
    }

    /// Follows the pages of a list up to `limit` items. `path` may have a query.
    pub(crate) fn list<T: DeserializeOwned>(&self, path: &str, limit: u32) -> Result<List<T>, ClientError> {
        let mut listing = List::whole(Vec::new());
        loop {
            let missing = limit.saturating_sub(u32::try_from(listing.items.len()).unwrap_or(u32::MAX));
            if missing == 0 {
                return Ok(listing);
            }
            let separator = if path.contains('?') { '&' } else { '?' };
            let mut page = format!("{path}{separator}limit={}", missing.min(PAGE));
            if let Some(cursor) = &listing.next_cursor {
                // The cursor replaces `after`: the server accepts one of the two.
                page = without_parameter(&page, "after");
                page.push_str(&format!("&cursor={}", segment(cursor)));
            }
            let answer: List<T> = self.get_page(&page)?;
            listing.items.extend(answer.items);
            listing.next_cursor = answer.next_cursor;
            if listing.next_cursor.is_none() {
                return Ok(listing);
            }
        }
    }

    /// Returns the status of `/readyz` and the server's clock.
    pub(crate) fn ready(&self) -> Result<(StatusCode, Option<String>), ClientError> {
        let response = self.send(self.request("GET", "/readyz"), None, CONNECT)?;
        let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
        Ok((response.status(), date))
    }

    fn get_page<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(self.request("GET", path).header(header::ACCEPT, "application/json"), None, ANSWER)
    }

    /// Opens an event stream.
    fn stream(&self, path: &str) -> Result<ureq::BodyReader<'static>, ClientError> {
        let request = self.request("GET", path).header(header::ACCEPT, "text/event-stream");
        let request = request.body(()).map_err(|error| self.lost(ureq::Error::Http(error)))?;
        let request = self.agent.configure_request(request).timeout_per_read(Some(SILENCE)).build();
        let response = self.agent.run(request).map_err(|error| self.lost(error))?;
        if response.status().is_success() {
            return Ok(response.into_body().into_with_config().limit(u64::MAX).reader());
        }
        Err(self.refusal(response))
    }

    fn request(&self, method: &str, path: &str) -> ureq::http::request::Builder {
        let base = if path.starts_with("/readyz") { "" } else { "/api/v1" };
        let path = self.with_whole_id(path);
        let request = Request::builder().method(method).uri(format!("{}{base}{path}", self.url));
        match &self.token {
            Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose())),
            None => request,
        }
    }

    fn json<T: DeserializeOwned>(
        &self,
        request: ureq::http::request::Builder,
        body: Option<Vec<u8>>,
        patience: Duration,
    ) -> Result<T, ClientError> {
        let mut response = self.send(request, body, patience)?;
        if !response.status().is_success() {
            return Err(self.refusal(response));
        }
        self.read(&mut response)
    }

    /// Reads the body of an answer; an empty body counts as `null`.
    fn read<T: DeserializeOwned>(&self, response: &mut Response<ureq::Body>) -> Result<T, ClientError> {
        let status = response.status().as_u16();
        let bytes =
            response.body_mut().with_config().limit(MAX_BODY).read_to_vec().map_err(|error| self.lost(error))?;
        let text = if bytes.is_empty() { b"null" } else { bytes.as_slice() };
        serde_json::from_slice(text).map_err(|source| ClientError::Stranger { url: self.url.clone(), status, source })
    }

    fn send(
        &self,
        request: ureq::http::request::Builder,
        body: Option<Vec<u8>>,
        patience: Duration,
    ) -> Result<Response<ureq::Body>, ClientError> {
        let lost = |error| self.lost(error);
        let invalid = |error| self.lost(ureq::Error::Http(error));
        match body {
            None => {
                let request = request.body(()).map_err(invalid)?;
                let request = self.agent.configure_request(request).timeout_global(Some(patience)).build();
                self.agent.run(request).map_err(lost)
            }
            Some(bytes) => {
                let request = request.header(header::CONTENT_TYPE, "application/json");
                let request = request.body(bytes).map_err(invalid)?;
                let request = self.agent.configure_request(request).timeout_global(Some(patience)).build();
                self.agent.run(request).map_err(lost)
            }
        }
    }

    fn refusal(&self, mut response: Response<ureq::Body>) -> ClientError {
        let status = response.status().as_u16();
        let bytes = response.body_mut().with_config().limit(MAX_BODY).read_to_vec().unwrap_or_default();
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => ClientError::Refused(Box::new(self.with_ambiguity(problem, response.get_uri().path()))),
            Err(source) => ClientError::Stranger { url: self.url.clone(), status, source },
        }
    }

    /// Converts a transport error: the server cannot be reached, or closed the connection.
    fn lost(&self, source: ureq::Error) -> ClientError {
        use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, NotFound};
        let url = self.url.clone();
        let nobody = match &source {
            ureq::Error::Io(error) => {
                matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | NotFound)
            }
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
            ureq::Error::Timeout(timeout) => matches!(timeout, ureq::Timeout::Connect | ureq::Timeout::Resolve),
            _ => false,
        };
        // Use the system's message without the library's prefix.
        let source: Cause = match source {
            ureq::Error::Io(error) => error.into(),
            other => other.into(),
        };
        if nobody { ClientError::Unreachable { url, source } } else { ClientError::Lost { url, source } }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let failure = Failure::from_error(&error);
        match error {
            ClientError::Unreachable { .. } => {
                failure.coded("unreachable", None).hint("start one with `stead up` or `stead serve`, or set STEAD_URL")
            }
            ClientError::Lost { .. } => {
                failure.coded("connection_lost", None).hint("check whether it happened before you try again")
            }
            ClientError::Stranger { status, .. } => failure.coded("not_stead", Some(status)).hint("check STEAD_URL"),
            ClientError::Refused(problem) => (*problem).into(),
        }
    }
}

/// Serializes a request. Requests are plain structures, which always have a JSON form.
fn bytes(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

/// Builds a query string and percent-encodes each value.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
    format!("?{}", pairs.join("&"))
}

/// Percent-encodes a text as one path segment or query value.
pub(crate) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn without_parameter(path: &str, name: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let kept: Vec<&str> = query.split('&').filter(|pair| pair.split('=').next() != Some(name)).collect();
    format!("{path}?{}", kept.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_encoded_and_cannot_change_the_path() {
        assert_eq!(segment("ses_01-x.y~"), "ses_01-x.y~");
        assert_eq!(segment("../a?b#c d%é"), "..%2Fa%3Fb%23c%20d%25%C3%A9");
    }

    #[test]
    fn a_parameter_is_taken_out_of_a_query() {
        assert_eq!(without_parameter("/a?after=3&limit=5", "after"), "/a?limit=5");
        assert_eq!(without_parameter("/a", "after"), "/a");
    }
}
