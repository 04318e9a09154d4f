//! Configuration of the HTTP server. The caller reads files and environment variables and passes
//! the values.

use std::time::Duration;

#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Accepted `Host` values besides loopback: `name` for any port, `name:port` for one.
    pub allowed_hosts: Vec<String>,
    /// Accepted `Origin` values besides the server's own, as a browser sends them:
    /// `https://name[:port]`.
    pub allowed_origins: Vec<String>,
    /// Domain whose subdomains are doors for browsers, behind a proxy with TLS. Without it there
    /// are only doors below `localhost`.
    pub preview_domain: Option<String>,
    /// Name of each admin token and the BLAKE3 hash of its text.
    pub admin_tokens: Vec<(String, [u8; 32])>,
    /// Maximum time for a request's header, from the start of the connection or from the first byte
    /// of a later request.
    pub header_timeout: Duration,
    /// Maximum time for a whole JSON body. An upload must send at least 16 KiB in each such span.
    pub body_timeout: Duration,
    /// Maximum idle time of a connection between two requests.
    pub idle_timeout: Duration,
    /// Maximum time for which a client may not read from a pending response.
    pub write_timeout: Duration,
    /// Time for which requests may continue after shutdown begins.
    pub drain_timeout: Duration,
    pub max_connections: usize,
    /// Maximum number of concurrent requests and streams of one session token.
    pub max_requests_per_session: usize,
    /// Maximum number of concurrent requests and streams of one admin token.
    pub max_requests_per_admin: usize,
    /// Maximum number of request body bytes in memory for one token.
    pub max_body_memory_per_token: usize,
    /// Maximum number of request body bytes in memory for all tokens.
    pub max_body_memory: usize,
    /// Maximum number of open MCP sessions of one session token.
    pub max_mcp_sessions_per_session: usize,
    /// Maximum number of open MCP sessions of all tokens. One admin token may use half of them.
    pub max_mcp_sessions: usize,
    /// Idle time after which an MCP session is closed.
    pub mcp_idle_timeout: Duration,
    pub max_header_bytes: usize,
    /// Maximum size of a JSON body.
    pub max_body_bytes: usize,
    /// Maximum size of a tool call's arguments.
    pub max_tool_body_bytes: usize,
    /// Maximum size of an uploaded file, archive or blob.
    pub max_upload_bytes: u64,
    /// Interval of the comments that keep an event stream open.
    pub heartbeat: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            preview_domain: None,
            admin_tokens: Vec::new(),
            header_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            max_connections: 4096,
            max_requests_per_session: 64,
            max_requests_per_admin: 1024,
            max_body_memory_per_token: 64 << 20,
            max_body_memory: 512 << 20,
            max_mcp_sessions_per_session: 32,
            max_mcp_sessions: 4096,
            mcp_idle_timeout: Duration::from_secs(300),
            max_header_bytes: 64 * 1024,
            max_body_bytes: 2 * 1024 * 1024,
            max_tool_body_bytes: 16 * 1024 * 1024,
            max_upload_bytes: 4 << 30,
            heartbeat: Duration::from_secs(15),
        }
    }
}

impl ServerConfig {
    /// Adds an admin token. Only its hash is stored.
    pub fn with_admin_token(mut self, name: &str, token: &str) -> Self {
        self.admin_tokens.push((name.to_owned(), *blake3::hash(token.as_bytes()).as_bytes()));
        self
    }
}
