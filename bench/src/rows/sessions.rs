//! A memory session from its creation to its close, over HTTP with a journal.

use anyhow::{Context, Result};
use serde_json::json;

use crate::Effort;
use crate::http::{Caller, load};
use crate::peer::Hello;
use crate::server::Server;
use crate::table::Table;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let (server, hello) = (Server::start()?, Hello::start()?);
    let caller = Caller::new(&server.url, &server.token);
    let workspace = json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"});
    caller.json("POST", "/api/v1/agent-types", Some(json!({"id": "bench", "workspace": workspace})))?;
    let create = json!({"agent_type": "bench"});
    let measured = load(4, effort.samples(1000), |_| {
        let (caller, create) = (caller.clone(), create.clone());
        move || {
            let session = caller.json("POST", "/api/v1/sessions?wait=10", Some(create.clone()))?;
            let id = session["id"].as_str().context("no id")?;
            caller.send("DELETE", &format!("/api/v1/sessions/{id}"), None)?;
            Ok(())
        }
    })?;
    let peer = Caller::new(&hello.url, "x");
    let floor = load(4, effort.samples(1000), |_| {
        let peer = peer.clone();
        move || {
            peer.send("POST", "/hello", Some("{}"))?;
            peer.send("POST", "/hello", Some("{}"))?;
            Ok(())
        }
    })?;
    table.row(
        "session create + close, memory, 4 clients",
        format!("{:.0}/s, p50 {:.2} ms, p99 {:.2} ms", measured.per_second, measured.p50_ms, measured.p99_ms),
        format!("two bare axum requests: {:.0}/s; {:.1}× the time", floor.per_second, floor.per_second / measured.per_second),
        "–",
        json!({"per_second": measured.per_second, "p50_ms": measured.p50_ms, "p99_ms": measured.p99_ms, "floor_per_second": floor.per_second}),
    );
    Ok(())
}
