//! The ordinary load. Each client has a session with a box and performs a mix of operations in it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::measure::Latencies;
use crate::server::http::{Client, Response};

/// Number of operations between the creation of a session and its close.
const OPERATIONS: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Worker {
    admin: Client,
    number: usize,
    session: Option<Session>,
    count: u64,
}

struct Session {
    path: String,
    client: Client,
}

impl Worker {
    pub(super) fn new(number: usize, admin: &Client) -> Self {
        Self { admin: admin.clone(), number, session: None, count: number as u64 * 7 }
    }

    /// Works until the time is up. It counts refused and failed operations and continues.
    pub(super) fn work(&mut self, until: Instant) -> Result<Latencies> {
        let mut latencies = Latencies::default();
        while Instant::now() < until {
            let (kind, begun) = (self.next_kind(), Instant::now());
            match self.perform(kind) {
                Ok(()) => latencies.add(kind, begun.elapsed()),
                Err(error) => {
                    latencies.fail(format!("{kind}: {error:#}"));
                    self.session = None;
                }
            }
            self.count += 1;
        }
        Ok(latencies)
    }

    pub(super) fn close(&mut self) -> Result<()> {
        match self.session.take() {
            Some(session) => expect(self.admin.request("DELETE", &session.path, &[], None)?, 204).map(drop),
            None => Ok(()),
        }
    }

    fn next_kind(&self) -> &'static str {
        if self.session.is_none() {
            return "create";
        }
        match self.count % OPERATIONS {
            0 => "close",
            10 => "snapshot",
            20 => "clone",
            5 | 25 => "export",
            15 | 35 => "diff",
            number => ["write", "read", "bash", "grep", "exec", "ls", "edit"][number as usize % 7],
        }
    }

    fn perform(&mut self, kind: &'static str) -> Result<()> {
        match kind {
            "create" => self.create(),
            "close" => self.close(),
            "snapshot" => self.admin_post("snapshots", &json!({})).map(drop),
            "clone" => self.fork(),
            "export" => self.admin_get("export").map(drop),
            "diff" => self.admin_get("diff").map(drop),
            "exec" => self.exec(),
            tool => self.tool(tool),
        }
    }

    fn create(&mut self) -> Result<()> {
        let made = self.admin.post("/api/v1/sessions?wait=60", &json!({"agent_type": "ordinary"}))?;
        let session = expect(made, 201)?;
        let (id, token) = (text(&session, "id")?, text(&session, "token")?);
        if session["status"] != "active" {
            bail!("the session is {}", session["status"]);
        }
        let client = Client { address: self.admin.address, token: Some(token) };
        self.session = Some(Session { path: format!("/api/v1/sessions/{id}"), client });
        let seeds = [("write", json!({"path": "a.txt", "content": "one\ntwo\nthree\n"}))];
        seeds.iter().try_for_each(|(tool, arguments)| self.call(tool, arguments).map(drop))
    }

    fn tool(&self, tool: &'static str) -> Result<()> {
        let name = format!("f{}.txt", self.count % 20);
        let arguments = match tool {
            "write" => json!({"path": name, "content": format!("{} {}\n", self.number, self.count).repeat(50)}),
            "read" => json!({"path": "a.txt"}),
            "bash" => json!({"command": "cat a.txt | wc -l; ls | head -n 3"}),
            "grep" => json!({"pattern": "two|[0-9]+"}),
            "edit" => json!({"path": "a.txt", "old_string": "two", "new_string": "two"}),
            _ => json!({}),
        };
        self.call(tool, &arguments).map(drop)
    }

    fn call(&self, tool: &str, arguments: &Value) -> Result<Value> {
        let session = self.session.as_ref().context("no session")?;
        let answer = expect(session.client.post(&format!("{}/tools/{tool}", session.path), arguments)?, 200)?;
        // The tool refuses an edit that changes nothing. That counts as success here.
        if answer["ok"] != true && tool != "edit" {
            bail!("{tool} failed: {}", answer["error"]["code"]);
        }
        Ok(answer)
    }

    /// Starts a command in the background and follows it to its end.
    fn exec(&self) -> Result<()> {
        let session = self.session.as_ref().context("no session")?;
        let order = json!({"command": "for i in 1 2 3 4 5; do echo $i; done", "background": true});
        let begun = expect(session.client.post(&format!("{}/execs", session.path), &order)?, 201)?;
        follow(&session.client, &format!("{}/execs/{}/stream", session.path, text(&begun, "id")?))
    }

    fn fork(&self) -> Result<()> {
        let made = self.admin_post("clone?wait=60", &json!({"isolation": "full"}))?;
        for clone in made["items"].as_array().context("no clones")? {
            let path = format!("/api/v1/sessions/{}", text(clone, "id")?);
            expect(self.admin.request("DELETE", &path, &[], None)?, 204)?;
        }
        Ok(())
    }

    fn admin_post(&self, what: &str, body: &Value) -> Result<Value> {
        let session = self.session.as_ref().context("no session")?;
        expect(self.admin.post(&format!("{}/{what}", session.path), body)?, 201)
    }

    fn admin_get(&self, what: &str) -> Result<()> {
        let session = self.session.as_ref().context("no session")?;
        let response = self.admin.get(&format!("{}/{what}", session.path))?;
        if response.status != 200 { bail!("{}", short(&response)) } else { Ok(()) }
    }
}

/// Reads a stream of events until the command has finished.
fn follow(client: &Client, path: &str) -> Result<()> {
    let mut stream = TcpStream::connect_timeout(&client.address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let token = client.token.as_deref().unwrap_or_default();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n",
        client.address
    );
    stream.write_all(head.as_bytes())?;
    for line in BufReader::new(stream).lines() {
        if line?.trim() == "event: finished" {
            return Ok(());
        }
    }
    bail!("the stream ended before the command")
}

fn expect(response: Response, status: u16) -> Result<Value> {
    match response.status {
        found if found == status && response.body.is_empty() => Ok(Value::Null),
        found if found == status => response.json(),
        _ => bail!("{}", short(&response)),
    }
}

/// Returns status, code and detail, so that equal failures are counted together.
fn short(response: &Response) -> String {
    let body = response.json().unwrap_or_default();
    format!("{} {}: {}", response.status, body["code"].as_str().unwrap_or("-"), body["detail"].as_str().unwrap_or("-"))
}

fn text(value: &Value, field: &str) -> Result<String> {
    value[field].as_str().map(str::to_owned).with_context(|| format!("no '{field}' in {value}"))
}
