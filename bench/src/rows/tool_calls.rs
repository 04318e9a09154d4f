//! Tool calls over HTTP with two journal entries each, compared with a minimal axum server that
//! reads the same body.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::Effort;
use crate::http::{Caller, load};
use crate::peer::Hello;
use crate::server::Server;
use crate::table::Table;

const CLIENTS: usize = 16;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let (server, hello) = (Server::start()?, Hello::start()?);
    let caller = Caller::new(&server.url, &server.token);
    let workspace = json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"});
    caller.json("POST", "/api/v1/agent-types", Some(json!({"id": "bench", "workspace": workspace})))?;
    let mut sessions = Vec::new();
    for _ in 0..CLIENTS {
        let session = caller.json("POST", "/api/v1/sessions?wait=10", Some(json!({"agent_type": "bench"})))?;
        sessions.push(session["id"].as_str().context("no id")?.to_owned());
    }
    let peer = Caller::new(&hello.url, "x");
    for (name, tool, body) in [
        ("write 1 KiB", "write", json!({"path": "a.txt", "content": "x".repeat(1024), "mode": "overwrite"})),
        ("read 1 KiB", "read", json!({"path": "a.txt"})),
        ("ls", "ls", json!({})),
    ] {
        let body = body.to_string();
        let measured = load(CLIENTS, effort.samples(500), |client| {
            let (caller, body) = (caller.clone(), body.clone());
            let path = format!("/api/v1/sessions/{}/tools/{tool}", sessions[client]);
            move || {
                let (status, text) = caller.send("POST", &path, Some(&body))?;
                let ok = serde_json::from_str::<Value>(&text).is_ok_and(|answer| answer["ok"] == true);
                if status == 200 && ok { Ok(()) } else { bail!("{status} {text}") }
            }
        })?;
        let floor = load(CLIENTS, effort.samples(500), |_| {
            let (peer, body) = (peer.clone(), body.clone());
            move || {
                peer.send("POST", "/hello", Some(&body))?;
                Ok(())
            }
        })?;
        table.row(
            &format!("tool call {name}, memory, {CLIENTS} clients"),
            format!("{:.0}/s, p50 {:.2} ms, p99 {:.2} ms", measured.per_second, measured.p50_ms, measured.p99_ms),
            format!("bare axum: {:.0}/s; {:.1}× the time", floor.per_second, floor.per_second / measured.per_second),
            "–",
            json!({"per_second": measured.per_second, "p50_ms": measured.p50_ms, "p99_ms": measured.p99_ms, "floor_per_second": floor.per_second}),
        );
    }
    Ok(())
}
