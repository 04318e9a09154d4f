//! A client for an MCP server that is a child process, with one JSON-RPC message per line.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use stead_core::content::access::McpServer;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{MAX_BYTES, McpError, Notices, ToolCall, initialize, initialized, result_of, tools_call};

/// The process group of the child. Dropping it kills the group.
struct Group {
    child: Child,
    id: Option<Pid>,
}

impl Group {
    fn kill(&self) {
        if let Some(id) = self.id {
            // An error means that the group no longer exists.
            kill_process_group(id, Signal::KILL).unwrap_or(());
        }
    }
}

impl Drop for Group {
    /// The runtime reaps the child itself.
    fn drop(&mut self) {
        self.kill();
    }
}

fn start(server: &McpServer) -> Result<Connection, McpError> {
    let missing = || McpError::Start(std::io::ErrorKind::NotFound.into());
    let (program, arguments) = server.command.split_first().ok_or_else(missing)?;
    let mut command = Command::new(program);
    // The child gets only `PATH` and the declared variables, not the server's environment.
    command.args(arguments).env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.envs(server.env.texts());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(McpError::Start)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let group = Group { child, id };
    let (stdin, stdout) = stdin.zip(stdout).ok_or(McpError::Ended)?;
    Ok(Connection { group, stdin, stdout: BufReader::new(stdout), last: 0 })
}

pub(super) struct Connection {
    group: Group,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last: u64,
}

impl Connection {
    pub(super) async fn open(server: &McpServer) -> Result<Self, McpError> {
        let mut connection = start(server)?;
        connection.ask(initialize(), 0, &Notices::default()).await?;
        connection.send(&initialized()).await?;
        Ok(connection)
    }

    pub(super) fn is_open(&mut self) -> bool {
        let running = matches!(self.group.child.try_wait(), Ok(None));
        if !running {
            // The child was reaped, so its pid may belong to another process by now.
            self.group.id = None;
        }
        running
    }

    pub(super) async fn call(&mut self, order: ToolCall<'_>) -> Result<Value, McpError> {
        self.last += 1;
        self.ask(tools_call(self.last, order), self.last, order.notices).await
    }

    async fn send(&mut self, message: &Value) -> Result<(), McpError> {
        let line = format!("{message}\n");
        self.stdin.write_all(line.as_bytes()).await.map_err(McpError::Broken)?;
        self.stdin.flush().await.map_err(McpError::Broken)
    }

    /// Sends a request and reads until its answer. Requests of the server are declined, except
    /// `ping`. Its notifications are passed on.
    async fn ask(&mut self, request: Value, id: u64, notices: &Notices) -> Result<Value, McpError> {
        self.send(&request).await?;
        loop {
            let message = self.receive().await?;
            if let Some(result) = result_of(&message, id) {
                return result;
            }
            notices.pass(&message, id);
            if let (Some(asked), Some(method)) = (message.get("id"), message.get("method").and_then(Value::as_str)) {
                let reply = match method {
                    "ping" => json!({"jsonrpc": "2.0", "id": asked, "result": {}}),
                    _ => json!({"jsonrpc": "2.0", "id": asked, "error": {"code": -32601, "message": "not offered"}}),
                };
                self.send(&reply).await?;
            }
        }
    }

    async fn receive(&mut self) -> Result<Value, McpError> {
        let mut line = Vec::new();
        let read = (&mut self.stdout).take(MAX_BYTES).read_until(b'\n', &mut line).await.map_err(McpError::Broken)?;
        match (read, line.last()) {
            (0, _) => Err(McpError::Ended),
            (_, Some(b'\n')) => serde_json::from_slice(&line).map_err(|_| McpError::Unreadable),
            _ if line.len() as u64 >= MAX_BYTES => Err(McpError::TooLarge),
            _ => Err(McpError::Ended),
        }
    }
}
