//! A client for MCP servers over streamable HTTP. Each message is a POST, and the answer is JSON or
//! a short event stream.

use std::io::Read as _;
use std::time::Duration;

use serde_json::Value;
use stead_core::content::access::McpServer;
use ureq::Agent;

use super::{MAX_BYTES, McpError, Notices, PROTOCOL, ToolCall, initialize, initialized, result_of, tools_call};

/// Timeout for closing a session of the MCP server.
const GOODBYE: Duration = Duration::from_secs(5);

pub(super) struct Connection {
    endpoint: Endpoint,
    last: u64,
}

/// The address of the server, the headers, and the id of our session there.
struct Endpoint {
    agent: Agent,
    url: String,
    headers: Vec<(String, String)>,
    session: Option<String>,
}

impl Connection {
    pub(super) async fn open(url: &str, server: &McpServer) -> Result<Self, McpError> {
        let headers = server.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let patience = Duration::from_secs(server.timeout_seconds);
        let endpoint = Endpoint { agent: agent(patience), url: url.to_owned(), headers, session: None };
        let mut connection = Self { endpoint, last: 0 };
        let greeted = tokio::task::spawn_blocking(move || {
            connection.endpoint.post(&initialize(), Some(0), &Notices::default())?;
            connection.endpoint.post(&initialized(), None, &Notices::default())?;
            Ok(connection)
        });
        greeted.await.unwrap_or(Err(McpError::Ended))
    }

    pub(super) async fn call(mut self: Box<Self>, order: ToolCall<'_>) -> (Result<Value, McpError>, Option<Box<Self>>) {
        self.last += 1;
        let (id, request, notices) = (self.last, tools_call(self.last, order), order.notices.clone());
        let called = tokio::task::spawn_blocking(move || {
            let result = match self.endpoint.post(&request, Some(id), &notices) {
                // By the protocol this means that the server no longer knows the session, so it did
                // not run the call.
                Err(McpError::Status(404)) if self.endpoint.session.is_some() => Err(McpError::SessionLost),
                result => result.and_then(|result| result.ok_or(McpError::Unreadable)),
            };
            (result, Some(self))
        });
        called.await.unwrap_or((Err(McpError::Ended), None))
    }
}

impl Endpoint {
    fn request(&self, method: &str) -> ureq::http::request::Builder {
        let mut request = ureq::http::Request::builder().method(method).uri(&self.url);
        request = request.header("accept", "application/json, text/event-stream");
        request = request.header("mcp-protocol-version", PROTOCOL);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    fn post(&mut self, message: &Value, id: Option<u64>, notices: &Notices) -> Result<Option<Value>, McpError> {
        let request = self.request("POST").header("content-type", "application/json").body(message.to_string());
        let request = request.map_err(|error| McpError::Http(error.to_string()))?;
        let response = self.agent.run(request).map_err(|error| McpError::Http(error.to_string()))?;
        let status = response.status();
        if !status.is_success() {
            return Err(McpError::Status(status.as_u16()));
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        self.session = header("mcp-session-id").or(self.session.take());
        let Some(id) = id else { return Ok(None) };
        let stream = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let mut body = Vec::new();
        let reader = response.into_body().into_with_config().limit(MAX_BYTES + 1).reader();
        if stream {
            return read_stream(reader, id, notices).map(Some);
        }
        reader.take(MAX_BYTES + 1).read_to_end(&mut body).map_err(McpError::Broken)?;
        if body.len() as u64 > MAX_BYTES {
            return Err(McpError::TooLarge);
        }
        let message: Value = serde_json::from_slice(&body).map_err(|_| McpError::Unreadable)?;
        result_of(&message, id).unwrap_or(Err(McpError::Unreadable)).map(Some)
    }

    /// Tells a server with sessions that it may discard this one. Best effort.
    fn leave(&self) {
        if self.session.is_some()
            && let Ok(request) = self.request("DELETE").body(())
            && let Err(error) =
                self.agent.run(self.agent.configure_request(request).timeout_global(Some(GOODBYE)).build())
        {
            tracing::debug!(%error, "an MCP session was not closed");
        }
    }
}

impl Drop for Connection {
    /// Sends the request on a blocking thread, if there is a runtime, because the dropping task
    /// must not block.
    fn drop(&mut self) {
        let Endpoint { agent, url, headers, session } = &mut self.endpoint;
        let (url, headers) = (std::mem::take(url), std::mem::take(headers));
        let endpoint = Endpoint { agent: agent.clone(), url, headers, session: session.take() };
        if endpoint.session.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || endpoint.leave());
        }
    }
}

fn agent(patience: Duration) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // A redirect would send the operator's headers to another server.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .timeout_global(Some(patience));
    config.build().new_agent()
}

/// Reads events until the one that answers the request. The stream may continue after it.
fn read_stream(reader: impl std::io::Read, id: u64, notices: &Notices) -> Result<Value, McpError> {
    use std::io::BufRead as _;
    let mut data = String::new();
    for line in std::io::BufReader::new(reader).lines() {
        let line = line.map_err(McpError::Broken)?;
        if let Some(text) = line.strip_prefix("data:") {
            data.push_str(text.trim_start());
        } else if line.is_empty() && !data.is_empty() {
            let message: Value = serde_json::from_str(&data).map_err(|_| McpError::Unreadable)?;
            if let Some(result) = result_of(&message, id) {
                return result;
            }
            notices.pass(&message, id);
            data.clear();
        }
    }
    Err(McpError::Ended)
}
