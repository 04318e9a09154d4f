//! The load. Each worker owns its sessions and has one request in progress. So its model needs no
//! lock, and knows exactly which request a crash interrupted.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::AGENT_TYPE;
use super::model::{Life, Session};
use super::random::Random;
use crate::server::http::{Client, Lost, Response};

const PATHS: &[&str] = &["a.txt", "b.txt", "c.txt", "notes/d.txt", "notes/deep/e.txt"];
const MAX_ACTIVE: usize = 5;

pub(super) struct Worker {
    name: String,
    random: Random,
    pub(super) sessions: Vec<Session>,
    writes: u32,
    pub(super) acknowledged: u32,
    pub(super) unanswered: u32,
}

/// Outcome of a request while the server may be killed.
enum Answer {
    Got(Response),
    NotSent,
    Unknown,
}

impl Worker {
    pub(super) fn new(name: String, random: Random) -> Self {
        Self { name, random, sessions: Vec::new(), writes: 0, acknowledged: 0, unanswered: 0 }
    }

    /// Sends requests until the server is gone.
    pub(super) fn work(&mut self, client: &Client, killed: &AtomicBool) -> Result<()> {
        while self.one_operation(client, killed)? {}
        Ok(())
    }

    /// Returns true if the server responded.
    fn one_operation(&mut self, client: &Client, killed: &AtomicBool) -> Result<bool> {
        let active: Vec<usize> =
            (0..self.sessions.len()).filter(|&index| self.sessions[index].life == Life::Active).collect();
        let index = match active.get(self.random.below(active.len())) {
            Some(&index) if active.len() >= MAX_ACTIVE || !self.random.one_in(5) => index,
            _ => return self.create(client, killed),
        };
        self.sessions[index].touched = true;
        let path = PATHS[self.random.below(PATHS.len())];
        match self.random.below(20) {
            0..9 => self.write(client, killed, index, path),
            9..13 => self.read(client, killed, index, path),
            13..16 => self.remove(client, killed, index, path),
            16..18 => self.list(client, killed, index),
            _ => self.close(client, killed, index),
        }
    }

    fn send(&mut self, killed: &AtomicBool, result: Result<Response, Lost>) -> Result<Answer> {
        match result {
            Ok(response) => {
                self.acknowledged += 1;
                Ok(Answer::Got(response))
            }
            Err(lost @ Lost::Silent) => bail!(lost),
            Err(lost) if !killed.load(Ordering::SeqCst) => bail!("the server was alive, but {lost}"),
            Err(Lost::NotSent(_)) => Ok(Answer::NotSent),
            Err(Lost::Unanswered(_)) => {
                self.unanswered += 1;
                Ok(Answer::Unknown)
            }
        }
    }

    fn create(&mut self, client: &Client, killed: &AtomicBool) -> Result<bool> {
        let mut session = Session::asked(format!("{}-{}", self.name, self.sessions.len()));
        let answer = self.send(killed, create_session(client, &session.key))?;
        match &answer {
            Answer::NotSent => return Ok(false),
            Answer::Unknown => {}
            Answer::Got(response) => {
                let (id, life) = created(response)?;
                session.id = Some(id);
                session.life = life;
            }
        }
        self.sessions.push(session);
        Ok(matches!(answer, Answer::Got(_)))
    }

    fn write(&mut self, client: &Client, killed: &AtomicBool, index: usize, path: &str) -> Result<bool> {
        self.writes += 1;
        let lines = 1 + self.random.below(40);
        let content = vec![format!("{} write {}", self.name, self.writes); lines].join("\n");
        let result = call_tool(
            client,
            &self.sessions[index],
            "write",
            &json!({ "path": path, "content": content, "mode": "overwrite" }),
        );
        let answer = self.send(killed, result)?;
        let file = self.sessions[index].file(path);
        match answer {
            Answer::NotSent => Ok(false),
            Answer::Unknown => {
                file.perhaps(Some(content));
                Ok(false)
            }
            Answer::Got(response) => {
                if !tool_answer(&response)?.ok {
                    bail!("write {path} failed: {response}");
                }
                file.acknowledge(Some(content));
                Ok(true)
            }
        }
    }

    fn read(&mut self, client: &Client, killed: &AtomicBool, index: usize, path: &str) -> Result<bool> {
        let result = call_tool(client, &self.sessions[index], "read", &json!({ "path": path }));
        let Answer::Got(response) = self.send(killed, result)? else { return Ok(false) };
        observe_read(&mut self.sessions[index], path, &response)?;
        Ok(true)
    }

    fn remove(&mut self, client: &Client, killed: &AtomicBool, index: usize, path: &str) -> Result<bool> {
        let result = call_tool(client, &self.sessions[index], "rm", &json!({ "path": path }));
        let answer = self.send(killed, result)?;
        let file = self.sessions[index].file(path);
        match answer {
            Answer::NotSent => Ok(false),
            Answer::Unknown => {
                file.perhaps(None);
                Ok(false)
            }
            Answer::Got(response) => {
                let answer = tool_answer(&response)?;
                if !answer.ok && (!answer.is_absence() || file.is_there() == Some(true)) {
                    bail!("rm {path} failed: {response}");
                }
                file.acknowledge(None);
                Ok(true)
            }
        }
    }

    /// Verifies that a listing shows every file that certainly exists and none that certainly does
    /// not.
    fn list(&mut self, client: &Client, killed: &AtomicBool, index: usize) -> Result<bool> {
        let result = call_tool(client, &self.sessions[index], "ls", &json!({}));
        let Answer::Got(response) = self.send(killed, result)? else { return Ok(false) };
        if !tool_answer(&response)?.ok {
            bail!("ls failed: {response}");
        }
        let body = response.json()?;
        let entries = body["result"]["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
        let listed = |path: &str| {
            entries.iter().filter_map(|entry| entry["path"].as_str()).any(|entry| entry.trim_start_matches('/') == path)
        };
        for (path, content) in self.sessions[index].files.iter().filter(|(path, _)| !path.contains('/')) {
            if content.is_there().is_some_and(|there| there != listed(path)) {
                bail!("ls of {} shows {path} wrongly: {response}", self.sessions[index].name());
            }
        }
        Ok(true)
    }

    fn close(&mut self, client: &Client, killed: &AtomicBool, index: usize) -> Result<bool> {
        let result = close_session(client, &self.sessions[index]);
        let session = match self.send(killed, result)? {
            Answer::NotSent => return Ok(false),
            Answer::Unknown => {
                self.sessions[index].life = Life::CloseAsked;
                return Ok(false);
            }
            Answer::Got(response) if response.status == 204 => &mut self.sessions[index],
            Answer::Got(response) => bail!("close failed: {response}"),
        };
        session.life = Life::Closed;
        Ok(true)
    }
}

/// Sends the create request for this key. Every repetition is identical.
pub(super) fn create_session(client: &Client, key: &str) -> Result<Response, Lost> {
    let body = json!({ "agent_type": AGENT_TYPE, "metadata": { "key": key } });
    client.request("POST", "/api/v1/sessions?wait=5", &[("Idempotency-Key", key)], Some(&body))
}

/// Returns the id and the state from a create response.
pub(super) fn created(response: &Response) -> Result<(String, Life)> {
    let body = if matches!(response.status, 200 | 201) { response.json()? } else { Value::Null };
    match (body["id"].as_str(), body["status"].as_str()) {
        (Some(id), Some("active")) => Ok((id.to_owned(), Life::Active)),
        (Some(id), Some("provisioning")) => Ok((id.to_owned(), Life::Provisioning)),
        _ => bail!("create answered: {response}"),
    }
}

pub(super) fn close_session(client: &Client, session: &Session) -> Result<Response, Lost> {
    client.request("DELETE", &format!("/api/v1/sessions/{}", session.name()), &[], None)
}

pub(super) fn call_tool(client: &Client, session: &Session, tool: &str, args: &Value) -> Result<Response, Lost> {
    client.post(&format!("/api/v1/sessions/{}/tools/{tool}", session.name()), args)
}

struct ToolAnswer {
    ok: bool,
    code: String,
}

impl ToolAnswer {
    fn is_absence(&self) -> bool {
        self.code.contains("not_found") || self.code.contains("no_such")
    }
}

/// Parses a tool response. The session is active, so any status other than 200 is an error.
fn tool_answer(response: &Response) -> Result<ToolAnswer> {
    let body = if response.status == 200 { response.json()? } else { Value::Null };
    match body["ok"].as_bool() {
        Some(ok) => Ok(ToolAnswer { ok, code: body["error"]["code"].as_str().unwrap_or_default().to_owned() }),
        None => bail!("a tool call on an active session answered: {response}"),
    }
}

/// Updates the model with the response of a `read`.
pub(super) fn observe_read(session: &mut Session, path: &str, response: &Response) -> Result<()> {
    let answer = tool_answer(response)?;
    let found = match response.json()?["result"]["content"].as_str() {
        Some(content) if answer.ok => Some(content.to_owned()),
        _ if !answer.ok && answer.is_absence() => None,
        _ => bail!("read {path} failed: {response}"),
    };
    let name = session.name().to_owned();
    session.file(path).observe(found).map_err(|error| error.context(format!("{name} {path}")))
}
