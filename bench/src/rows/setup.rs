//! The start of a session with a kept setup result, compared with an empty session and with the
//! session that runs the setup commands.
//!
//! The measured time is that of a session over HTTP with a journal, from the request until the
//! session is active and its box runs.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::Effort;
use crate::http::Caller;
use crate::server::Server;
use crate::table::{Table, percentile};

/// Files that the setup command writes, about as many as a small `node_modules` has.
const FILES: usize = 5_000;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let samples = effort.samples(100);
    let server = Server::start()?;
    let caller = Caller::new(&server.url, &server.token);
    let command = format!(
        "mkdir -p deps && cd deps && for i in $(seq {FILES}); do echo $i > f$i; done && mkdir -p ~/.cache && echo 1 > ~/.cache/x"
    );
    for (id, more) in [("empty", json!({})), ("cached", json!({"setup_commands": [command], "setup_cache": true}))] {
        let mut workspace = json!({
            "enabled": true, "provider": "native", "require_workspace": true, "workspace_policy": "empty",
            "resource_limits": {"disk": "512M"},
        });
        if let (Some(workspace), Value::Object(more)) = (workspace.as_object_mut(), more) {
            workspace.extend(more);
        }
        caller.json("POST", "/api/v1/agent-types", Some(json!({"id": id, "workspace": workspace})))?;
    }
    let (made, first) = start(&caller, "cached")?;
    ensure!(made["provisioning"]["setup_cached"] == false, "a result from nowhere: {made}");
    let (mut cached, mut empty) = (Vec::new(), Vec::new());
    // The loop alternates between both, so that other load on the machine affects both equally.
    for _ in 0..samples {
        empty.push(start(&caller, "empty")?.1);
        let (session, ms) = start(&caller, "cached")?;
        ensure!(session["provisioning"]["setup_cached"] == true, "the setup ran again: {session}");
        cached.push(ms);
    }
    let (cached, empty) = (median(cached), median(empty));
    table.row(
        &format!("session with a kept setup result of {FILES} files"),
        format!("p50 {cached:.1} ms"),
        format!(
            "an empty session: p50 {empty:.1} ms, {:.2}× the time; running the setup: {first:.0} ms",
            cached / empty
        ),
        "≤ 1.5×",
        json!({"cached_p50_ms": cached, "empty_p50_ms": empty, "first_ms": first}),
    );
    Ok(())
}

/// Starts a session, and closes it after taking the time.
fn start(caller: &Caller, agent_type: &str) -> Result<(Value, f64)> {
    let begun = Instant::now();
    let session = caller.json("POST", "/api/v1/sessions?wait=300", Some(json!({"agent_type": agent_type})))?;
    let ms = begun.elapsed().as_secs_f64() * 1000.0;
    ensure!(session["status"] == "active" && session["degraded"] == false, "no workspace: {session}");
    let id = session["id"].as_str().context("no id")?;
    caller.send("DELETE", &format!("/api/v1/sessions/{id}"), None)?;
    Ok((session, ms))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    percentile(&samples, 0.5)
}
