//! An HTTP client for tests. An error status is a normal response.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;

/// A client with or without a token.
#[derive(Clone)]
pub struct Client {
    agent: ureq::Agent,
    base: String,
    token: Option<String>,
}

/// A response with a text body.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

/// A response with a binary body.
#[derive(Debug, Clone)]
pub struct RawReply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
}

impl RawReply {
    fn read(response: ureq::http::Response<ureq::Body>) -> Result<Self, ureq::Error> {
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let mut bytes = Vec::new();
        response.into_body().into_with_config().limit(u64::MAX).reader().read_to_end(&mut bytes)?;
        Ok(Self { status, headers, bytes })
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the bytes. Panics if the status differs.
    #[track_caller]
    pub fn expect(self, status: u16) -> Vec<u8> {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.bytes));
        self.bytes
    }

    /// Converts the body to text. Panics if it is not UTF-8.
    #[track_caller]
    pub fn reply(self) -> Reply {
        let text = String::from_utf8(self.bytes).unwrap();
        Reply { status: self.status, headers: self.headers, text }
    }
}

impl Reply {
    /// Returns the body as JSON. Panics with the text if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Returns the body. Panics if the status differs.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// Returns the detail of a problem. Panics if this is no problem, or its status or code differ.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        let kind = self.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("application/problem+json"), "{kind}: {}", self.text);
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status, "{body}");
        body["detail"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the fields that a validation problem names.
    #[track_caller]
    pub fn invalid_fields(&self) -> Vec<String> {
        self.problem(400, "invalid_request");
        let errors = self.json()["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["field"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Client {
    pub fn new(base: &str, token: Option<String>) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(330)))
            .build();
        Self { agent: config.into(), base: base.to_owned(), token }
    }

    /// Returns a client of the same server with another token.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    pub fn without_token(&self) -> Self {
        Self { token: None, ..self.clone() }
    }

    /// Returns a client with the same token and no open connections.
    pub fn without_connections(&self) -> Self {
        Self::new(&self.base, self.token.clone())
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None)
    }

    pub fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], None)
    }

    pub fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, &[], Some(body.to_string()))
    }

    pub fn put(&self, path: &str, body: Value) -> Reply {
        self.send("PUT", path, &[], Some(body.to_string()))
    }

    /// Sends any request. Panics only if there is no response.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<String>) -> Reply {
        match self.try_send(method, path, headers, body) {
            Ok(reply) => reply,
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    /// Sends any request to a server that may be dying.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Result<Reply, ureq::Error> {
        let raw = match &body {
            Some(body) => {
                let typed = [headers, &[("content-type", "application/json")]].concat();
                self.run(method, path, &typed, Some(body.as_bytes()))?
            }
            None => self.run(method, path, headers, None)?,
        };
        match String::from_utf8(raw.bytes) {
            Ok(text) => Ok(Reply { status: raw.status, headers: raw.headers, text }),
            Err(error) => Err(std::io::Error::other(error).into()),
        }
    }

    /// Sends any request with a binary body. Panics only if there is no response.
    #[track_caller]
    pub fn bytes(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> RawReply {
        match self.try_bytes(method, path, headers, body) {
            Ok(reply) => reply,
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    /// Does the same for a server that may be dying.
    pub fn try_bytes(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<RawReply, ureq::Error> {
        self.run(method, path, headers, Some(body).filter(|body| !body.is_empty()))
    }

    /// Uploads the content of a reader, without holding it in memory.
    #[track_caller]
    pub fn upload(&self, method: &str, path: &str, mut reader: impl Read) -> Reply {
        let response = self.open(method, path, &[], ureq::SendBody::from_reader(&mut reader)).unwrap();
        RawReply::read(response).unwrap().reply()
    }

    /// Passes each chunk of a download to `see` and returns the total length.
    #[track_caller]
    pub fn download(&self, path: &str, mut see: impl FnMut(&[u8])) -> u64 {
        let mut reader = self
            .open("GET", path, &[], ureq::SendBody::none())
            .unwrap()
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader();
        let (mut piece, mut total) = (vec![0; 64 * 1024], 0);
        loop {
            match reader.read(&mut piece).unwrap() {
                0 => return total,
                count => {
                    see(&piece[..count]);
                    total += count as u64;
                }
            }
        }
    }

    fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: ureq::SendBody<'_>,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let path = if path.starts_with("/sessions") || path.starts_with("/agent-types") || is_api(path) {
            format!("/api/v1{path}")
        } else {
            path.to_owned()
        };
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.agent.run(request.body(body)?)
    }

    fn run(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<RawReply, ureq::Error> {
        let Some(mut body) = body else {
            return RawReply::read(self.open(method, path, headers, ureq::SendBody::none())?);
        };
        let length = body.len().to_string();
        let headers = [headers, &[("content-length", &length)]].concat();
        RawReply::read(self.open(method, path, &headers, ureq::SendBody::from_reader(&mut body))?)
    }
}

/// Returns true for paths below `/api/v1`. Tests use the short form, as the documentation does.
fn is_api(path: &str) -> bool {
    [
        "/projects",
        "/secrets",
        "/platform",
        "/providers",
        "/tools",
        "/pool",
        "/setup-results",
        "/images",
        "/audit",
        "/blobs",
        "/content",
        "/schemas",
        "/usage",
    ]
    .iter()
    .any(|prefix| path.starts_with(prefix))
}
