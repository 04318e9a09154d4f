//! What the operator sets about the front door. The caller reads files and environment; this crate gets values.

use std::time::Duration;

#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// `Host` values served besides loopback: `name` for any port, `name:port` for one.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values served besides the server's own, as a browser sends them: `https://name[:port]`.
    pub allowed_origins: Vec<String>,
    /// The name of each admin token and the BLAKE3 hash of its text.
    pub admin_tokens: Vec<(String, [u8; 32])>,
    /// Time to send a request's headers, from the start of the connection or from the first byte of a
    /// later request.
    pub header_timeout: Duration,
    /// Time to send a whole JSON body. An upload has to bring 16 KiB in each such span.
    pub body_timeout: Duration,
    /// Silence on a connection between two requests.
    pub idle_timeout: Duration,
    /// How long a client may refuse to take what is written to it.
    pub write_timeout: Duration,
    /// How long requests may go on after the shutdown began.
    pub drain_timeout: Duration,
    pub max_connections: usize,
    /// Requests and streams that one session token may have under way at once.
    pub max_requests_per_session: usize,
    /// The same for one admin token.
    pub max_requests_per_admin: usize,
    /// Bytes of request bodies held in memory at once, for one token.
    pub max_body_memory_per_token: usize,
    /// The same for all tokens.
    pub max_body_memory: usize,
    /// MCP sessions that one session token may have open.
    pub max_mcp_sessions_per_session: usize,
    /// MCP sessions of all tokens. One admin token may have half of them.
    pub max_mcp_sessions: usize,
    /// An MCP session without a message for this long is closed.
    pub mcp_idle_timeout: Duration,
    pub max_header_bytes: usize,
    /// Of a JSON body.
    pub max_body_bytes: usize,
    /// Of a tool call's arguments.
    pub max_tool_body_bytes: usize,
    /// Of a file, an archive or a blob.
    pub max_upload_bytes: u64,
    /// Between two comments that keep an event stream open.
    pub heartbeat: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
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
    /// Adds an admin token; only its hash is kept.
    pub fn with_admin_token(mut self, name: &str, token: &str) -> Self {
        self.admin_tokens.push((name.to_owned(), *blake3::hash(token.as_bytes()).as_bytes()));
        self
    }
}
