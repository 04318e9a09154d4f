//! MCP clients over HTTP and over pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::{Client, TestServer};

const PATIENCE: Duration = Duration::from_secs(60);

/// A client of a protocol revision that has MCP sessions.
pub(super) struct Agent {
    client: Client,
    path: String,
    session: String,
    last: u64,
}

impl Agent {
    pub(super) fn greet(server: &TestServer, session: &Value, query: &str) -> Self {
        let base = server.client().base().trim_end_matches("/api/v1").to_owned();
        let client = Client::new(&base, session["token"].as_str().map(str::to_owned));
        let mut agent = Self { client, path: format!("/mcp{query}"), session: String::new(), last: 0 };
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        agent.ask("initialize", hello);
        agent.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn send(&mut self, message: Value) -> String {
        let mut headers = vec![
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        let session = self.session.clone();
        if !session.is_empty() {
            headers.push(("mcp-session-id", &session));
        }
        let reply = self.client.send("POST", &self.path, &headers, Some(message.to_string()));
        if let Some(session) = reply.header("mcp-session-id") {
            self.session = session.to_owned();
        }
        reply.text
    }

    /// Sends a request and returns the whole answer, a result or an error.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let text = self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let lines = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let answers = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        answers.into_iter().find(|answer| answer["id"] == json!(id)).unwrap_or_else(|| panic!("{method}: {text}"))
    }

    pub(super) fn tools(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({}));
        let named = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).iter();
        named.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(super) fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))["result"].clone()
    }

    /// Ends the MCP session and returns the status.
    pub(super) fn end(&self) -> u16 {
        let headers = [("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", "2025-06-18")];
        self.client.send("DELETE", &self.path, &headers, None).status
    }

    /// Collects the server's notifications from now on.
    pub(super) fn listen(&self) -> Notifications {
        let headers = [("mcp-session-id", self.session.as_str()), ("mcp-protocol-version", "2025-06-18")];
        let stream = self.client.stream(&self.path, &headers);
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            stream
                .map(|event| event.data)
                .filter(|message| message["method"].is_string())
                .try_for_each(|it| sender.send(it))
        });
        Notifications { messages }
    }
}

/// A client that started `stead mcp` and uses its pipes.
pub(super) struct Piped {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: mpsc::Receiver<Value>,
    last: u64,
}

impl Piped {
    /// Starts `stead mcp` for this session with additional arguments, and also returns the server's
    /// notifications.
    pub(super) fn greet(server: &TestServer, session: &Value, more: &[&str]) -> (Self, Notifications) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.env_clear().env("STEAD_HOME", server.home()).args([
            "mcp",
            "--session",
            session["id"].as_str().unwrap(),
        ]);
        let mut child = command.args(more).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, messages) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"));
                let kept = if message["method"].is_string() { sender.send(message) } else { answer.send(message) };
                if kept.is_err() {
                    return;
                }
            }
        });
        let mut agent = Self { child, stdin, answers, last: 0 };
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        agent.ask("initialize", hello);
        agent.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        (agent, Notifications { messages })
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            if answer["id"] == json!(id) {
                return answer;
            }
        }
    }

    pub(super) fn tools(&mut self) -> Vec<Value> {
        self.ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone()
    }

    /// Closes the pipe, like an agent that ends, and returns the exit code.
    pub(super) fn leave(mut self) -> Option<i32> {
        self.stdin = None;
        self.child.wait().unwrap().code()
    }
}

/// Notifications received from a server.
pub(super) struct Notifications {
    messages: mpsc::Receiver<Value>,
}

impl Notifications {
    /// Waits for the next notification and returns its method.
    pub(super) fn next(&self) -> String {
        self.message()["method"].as_str().unwrap().to_owned()
    }

    /// Waits for the next notification.
    pub(super) fn message(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).unwrap()
    }

    /// Returns the notifications received so far.
    pub(super) fn so_far(&self) -> Vec<Value> {
        self.messages.try_iter().collect()
    }
}
