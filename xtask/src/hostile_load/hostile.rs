//! The hostile session: a program in its box, and clients with its token that use as many resources
//! as they can.
//!
//! Each client pauses between two attempts. The campaign tests the resources that the server holds
//! for an attempt, not the request rate that two processors can serve.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::server::http::Client;

const PROGRAM: &str = include_str!("in_box.py");
/// Attacks of the program in the box, by the names of its functions.
const IN_BOX: &[&str] = &["inotify", "queues", "terminals", "sockets", "forks", "syncs", "full_disk", "memory"];
/// One round of an attack, with its number.
type Attack = fn(&Means, usize);
/// Attacks by clients with the hostile token.
const BY_CLIENTS: &[(&str, Attack)] = &[
    ("sparse-export", |means, _| abandoned_export(means)),
    ("blob-churn", |means, round| put(&means.client, &format!("{}/files/churn", means.path), round)),
    ("memory-files", |means, round| put(&means.memory, &format!("{}/files/f{round}", means.memory_path), round)),
    ("snapshots", |means, _| snapshot(means)),
    ("mcp-sessions", |means, _| drop(greet(&means.client))),
    ("abandoned-calls", |means, _| abandoned_call(means)),
];
const IDLE: &str = "idle-connections";
const IDLE_CONNECTIONS: usize = 4200;
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Hostile {
    admin: Client,
    sessions: Vec<String>,
    stop: Arc<AtomicBool>,
    threads: Vec<(&'static str, JoinHandle<()>)>,
    counts: BTreeMap<&'static str, Arc<AtomicUsize>>,
}

/// The clients and paths that an attack uses.
#[derive(Clone)]
struct Means {
    client: Client,
    admin: Client,
    path: String,
    memory: Client,
    memory_path: String,
}

impl Hostile {
    pub(super) fn begin(admin: &Client, attacks: &[String]) -> Result<Self> {
        let wanted = |name: &str| attacks.is_empty() || attacks.iter().any(|attack| attack == name);
        let (id, client) = session(admin, "hostile")?;
        let (memory_id, memory) = session(admin, "hostile-memory")?;
        let means = Means {
            client,
            admin: admin.clone(),
            path: format!("/api/v1/sessions/{id}"),
            memory,
            memory_path: format!("/api/v1/sessions/{memory_id}"),
        };
        let in_box: Vec<&str> = IN_BOX.iter().copied().filter(|name| wanted(name)).collect();
        start_program(&means, &in_box)?;
        let mut hostile = Self {
            admin: admin.clone(),
            sessions: vec![id, memory_id],
            stop: Arc::default(),
            threads: Vec::new(),
            counts: BTreeMap::new(),
        };
        for (name, attempt) in BY_CLIENTS.iter().filter(|(name, _)| wanted(name)) {
            hostile.attack(name, &means, *attempt);
        }
        if wanted(IDLE) {
            hostile.idle_connections(&means);
        }
        Ok(hostile)
    }

    /// Ends every attack and both sessions. Returns the number of attempts of each.
    pub(super) fn end(self) -> Result<String> {
        self.stop.store(true, Ordering::Relaxed);
        for (name, thread) in self.threads {
            thread.join().map_err(|_| anyhow::anyhow!("the attack '{name}' panicked"))?;
        }
        for id in &self.sessions {
            let closed = self.admin.request("DELETE", &format!("/api/v1/sessions/{id}"), &[], None)?;
            ensure!([202, 204].contains(&closed.status), "a hostile session cannot be closed: {closed}");
        }
        let counted = self.counts.iter().map(|(name, count)| format!("{} {name}", count.load(Ordering::Relaxed)));
        Ok(counted.collect::<Vec<_>>().join(", "))
    }

    fn attack(&mut self, name: &'static str, means: &Means, attempt: fn(&Means, usize)) {
        let (stop, means, count) = (self.stop.clone(), means.clone(), Arc::new(AtomicUsize::new(0)));
        self.counts.insert(name, count.clone());
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                attempt(&means, count.fetch_add(1, Ordering::Relaxed));
                std::thread::sleep(PAUSE);
            }
        });
        self.threads.push((name, thread));
    }

    /// Keeps idle connections open, and reopens those that the server closes.
    fn idle_connections(&mut self, means: &Means) {
        let (stop, address, count) = (self.stop.clone(), means.client.address, Arc::new(AtomicUsize::new(0)));
        self.counts.insert(IDLE, count.clone());
        let thread = std::thread::spawn(move || {
            let mut open: Vec<TcpStream> = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                open.retain(is_open);
                while open.len() < IDLE_CONNECTIONS && !stop.load(Ordering::Relaxed) {
                    let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { break };
                    count.fetch_add(1, Ordering::Relaxed);
                    open.push(stream);
                    // The pause limits this to the rate at which the server should accept
                    // connections.
                    if open.len().is_multiple_of(50) {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
                std::thread::sleep(PAUSE);
            }
        });
        self.threads.push((IDLE, thread));
    }
}

fn is_open(stream: &TcpStream) -> bool {
    let silent = stream.set_nonblocking(true).is_ok();
    silent && matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

fn session(admin: &Client, agent_type: &str) -> Result<(String, Client)> {
    let made = admin.post("/api/v1/sessions?wait=60", &json!({"agent_type": agent_type}))?;
    let session: Value = made.json()?;
    ensure!(session["status"] == "active", "no hostile session: {made}");
    let text = |field: &str| session[field].as_str().map(str::to_owned).with_context(|| format!("no {field}: {made}"));
    let client = Client { address: admin.address, token: Some(text("token")?) };
    Ok((text("id")?, client))
}

/// Returns the name of a known attack, or an error.
pub(super) fn known(name: &str) -> Result<&'static str> {
    let mut all = IN_BOX.iter().copied().chain(BY_CLIENTS.iter().map(|(name, _)| *name)).chain([IDLE]);
    let names = all.clone().collect::<Vec<_>>().join(", ");
    all.find(|known| *known == name).with_context(|| format!("no attack is called '{name}'; attacks: {names}"))
}

fn start_program(means: &Means, attacks: &[&str]) -> Result<()> {
    let argv = [&["python3", "-c", PROGRAM], attacks].concat();
    let order = json!({"argv": argv, "background": true});
    let begun = means.client.post(&format!("{}/execs", means.path), &order)?;
    ensure!(begun.status == 201, "the hostile program does not start: {begun}");
    Ok(())
}

/// Requests a tar archive with a terabyte of holes, reads a little and disconnects.
fn abandoned_export(means: &Means) {
    let Ok(mut stream) = raw(&means.client, "GET", &format!("{}/files?format=tar", means.path), "") else { return };
    let mut some = [0; 64 * 1024];
    for _ in 0..16 {
        if !matches!(stream.read(&mut some), Ok(count) if count > 0) {
            return;
        }
    }
}

/// Takes a snapshot of a disk that may be full. Only an admin may do that, so this represents a
/// supervisor that takes snapshots.
fn snapshot(means: &Means) {
    drop(means.admin.post(&format!("{}/snapshots", means.path), &json!({})));
    std::thread::sleep(Duration::from_secs(2));
}

/// Writes a file of 4 MiB that differs each time.
fn put(client: &Client, path: &str, round: usize) {
    let bytes = vec![(round % 251) as u8; 4 << 20];
    let head = head(client, "PUT", path, bytes.len());
    let Ok(mut stream) = TcpStream::connect_timeout(&client.address, Duration::from_secs(5)) else { return };
    let patience = Some(Duration::from_secs(10));
    if stream.set_read_timeout(patience).and(stream.set_write_timeout(patience)).is_ok() {
        let marked = [&round.to_le_bytes()[..], &bytes[8..]].concat();
        let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&marked));
        if sent.is_ok() {
            // The response does not matter, the next attempt follows.
            let _ = stream.read(&mut [0; 1024]);
        }
    }
}

fn greet(client: &Client) -> std::io::Result<usize> {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}});
    raw(client, "POST", "/mcp", &hello.to_string())?.read(&mut [0; 1024])
}

/// Starts slow calls, each from a client that disconnects at once.
fn abandoned_call(means: &Means) {
    let path = format!("{}/tools/bash", means.path);
    for _ in 0..10 {
        drop(raw(&means.client, "POST", &path, r#"{"command": "sleep 5; head -c 10000000 /dev/zero"}"#));
    }
}

fn raw(client: &Client, method: &str, path: &str, body: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&client.address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("{}{body}", head(client, method, path, body.len())).as_bytes())?;
    Ok(stream)
}

fn head(client: &Client, method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n",
        client.address,
        client.token.as_deref().unwrap_or_default()
    )
}
