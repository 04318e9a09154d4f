//! A client of Podman's REST API: the few calls that are needed, each with a timeout.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

use super::address::Address;
use super::file_body::FileBody;
use super::tunnel::Tunnel;
use crate::contract::error::ProviderError;

/// Version of the API; Podman 4 and 5 both support it.
const API: &str = "/v4.0.0/libpod";
/// The Docker-compatible API. Unlike Podman's own it reports the bytes of a pull.
const COMPATIBLE: &str = "/v1.40";
const MOST_LINE: usize = 64 << 10;
const MOST_ANSWER: usize = 16 << 20;
/// Timeout of a request. Long, because Podman may be pulling or waiting for its locks.
const PATIENCE: Duration = Duration::from_secs(120);
/// Timeout for a health check. A Podman that systemd starts on demand needs some seconds.
const PING_PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for the upload of an image.
const FILE_PATIENCE: Duration = Duration::from_secs(900);

type Body = BoxBody<Bytes, io::Error>;

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed()
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) struct Client {
    address: Result<Address, String>,
    tunnel: Tunnel,
}

/// The task that drives a connection. Dropping it closes the connection, and Podman cancels the
/// request.
struct Driven(JoinHandle<Result<(), hyper::Error>>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer from Podman.
pub(super) struct ApiResponse {
    pub(super) status: StatusCode,
    pub(super) body: Value,
}

impl ApiResponse {
    /// Podman's own error message.
    pub(super) fn reason(&self) -> String {
        let text = |name: &str| self.body.get(name).and_then(Value::as_str).map(str::to_owned);
        text("message").or(text("cause")).unwrap_or_else(|| self.status.to_string())
    }

    pub(super) fn ok(self) -> Result<Value, ProviderError> {
        if self.status.is_success() || self.status == StatusCode::NOT_MODIFIED {
            return Ok(self.body);
        }
        Err(ProviderError::Podman { reason: self.reason() })
    }
}

impl Client {
    pub(super) fn new(address: Result<Address, String>, tunnel: Tunnel) -> Self {
        Self { address, tunnel }
    }

    /// The address, for messages.
    pub(super) fn address(&self) -> String {
        match &self.address {
            Ok(address) => address.to_string(),
            Err(reason) => reason.clone(),
        }
    }

    /// Opens the connection first: a tunnel has its own timeout.
    pub(super) async fn ping(&self) -> Result<(), ProviderError> {
        if let Ok(address @ Address::Ssh { .. }) = &self.address {
            self.tunnel.connect(address).await.map_err(|reason| self.unreachable(reason))?;
        }
        let response = self.within(PING_PATIENCE, Method::GET, "/_ping", None).await?;
        response.ok().map(drop)
    }

    pub(super) async fn get(&self, path: &str) -> Result<ApiResponse, ProviderError> {
        self.within(PATIENCE, Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Option<Value>) -> Result<ApiResponse, ProviderError> {
        let body = body.map(|body| ("application/json", whole(Bytes::from(body.to_string()))));
        self.within(PATIENCE, Method::POST, path, body).await
    }

    /// A POST without a timeout, answered when something has happened.
    pub(super) async fn post_and_wait(&self, path: &str) -> Result<ApiResponse, ProviderError> {
        self.send(Method::POST, path, None).await
    }

    /// Uploads a file of any size in pieces.
    pub(super) async fn send_file(&self, path: &str, file: std::fs::File) -> Result<ApiResponse, ProviderError> {
        let body = FileBody::of(file).boxed();
        self.within(FILE_PATIENCE, Method::POST, path, Some(("application/x-tar", body))).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<ApiResponse, ProviderError> {
        self.within(PATIENCE, Method::DELETE, path, None).await
    }

    async fn within(
        &self,
        patience: Duration,
        method: Method,
        path: &str,
        body: Option<(&'static str, Body)>,
    ) -> Result<ApiResponse, ProviderError> {
        match tokio::time::timeout(patience, self.send(method, path, body)).await {
            Ok(response) => response,
            Err(_) => Err(self.unreachable(format!("no answer within {} s", patience.as_secs()))),
        }
    }

    /// A POST whose answer is a stream of lines. Passes each line on as it arrives. `patience`
    /// limits the time between two lines.
    pub(super) async fn follow(
        &self,
        path: &str,
        patience: Duration,
        mut on_line: impl FnMut(&Value),
    ) -> Result<ApiResponse, ProviderError> {
        let silent = |_| self.unreachable(format!("no word for {} s", patience.as_secs()));
        let uri = format!("{COMPATIBLE}{path}");
        let (answer, _driven) =
            tokio::time::timeout(patience, self.ask(Method::POST, &uri, None)).await.map_err(silent)??;
        let status = answer.status();
        let (mut body, mut line, mut last) = (answer.into_body(), Vec::new(), Value::Null);
        while let Some(frame) = tokio::time::timeout(patience, body.frame()).await.map_err(silent)? {
            let frame = frame.map_err(|error| self.unreachable(error.to_string()))?;
            let Ok(bytes) = frame.into_data() else { continue };
            for byte in bytes {
                if byte != b'\n' {
                    // Longer lines are cut: no known message is that long.
                    if line.len() < MOST_LINE {
                        line.push(byte);
                    }
                    continue;
                }
                if let Ok(value) = serde_json::from_slice(&line) {
                    last = value;
                    on_line(&last);
                }
                line.clear();
            }
        }
        if let Ok(value) = serde_json::from_slice(&line) {
            last = value;
            on_line(&last);
        }
        Ok(ApiResponse { status, body: last })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Body)>,
    ) -> Result<ApiResponse, ProviderError> {
        let (answer, _driven) = self.ask(method, &format!("{API}{path}"), body).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MOST_ANSWER).collect().await;
        let body = body.map_err(|error| self.unreachable(error.to_string()))?.to_bytes();
        // Some answers are several JSON values, and some are plain text.
        let body = serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into());
        Ok(ApiResponse { status, body })
    }

    async fn ask(
        &self,
        method: Method,
        uri: &str,
        body: Option<(&'static str, Body)>,
    ) -> Result<(Response<Incoming>, Driven), ProviderError> {
        let stream = self.dial().await?;
        let lost = |error: hyper::Error| self.unreachable(error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        let driven = Driven(tokio::spawn(connection));
        let mut request = Request::builder().method(method).uri(uri).header("host", "podman");
        let bytes = match body {
            Some((kind, bytes)) => {
                request = request.header("content-type", kind);
                bytes
            }
            None => whole(Bytes::new()),
        };
        let request = request.body(bytes).map_err(|error| self.unreachable(error.to_string()))?;
        Ok((sender.send_request(request).await.map_err(lost)?, driven))
    }

    async fn dial(&self) -> Result<Box<dyn Stream>, ProviderError> {
        let address = self.address.as_ref().map_err(|reason| self.unreachable(reason.clone()))?;
        let failed = |error: std::io::Error| self.unreachable(error.to_string());
        match address {
            Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?)),
            Address::Tcp { host, port } => {
                Ok(Box::new(TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?))
            }
            Address::Ssh { .. } => {
                Ok(Box::new(self.tunnel.connect(address).await.map_err(|reason| self.unreachable(reason))?))
            }
        }
    }

    fn unreachable(&self, reason: String) -> ProviderError {
        ProviderError::PodmanUnreachable { address: self.address(), reason }
    }
}

/// Percent-encodes a name as part of a path.
pub(super) fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
