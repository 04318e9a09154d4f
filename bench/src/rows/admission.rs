//! The rate of creating memory sessions with many live sessions, relative to none, and the time of
//! a creation while another project floods the server.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use serde_json::json;

use crate::Effort;
use crate::http::{Caller, Load, load};
use crate::server::{End, Server};
use crate::table::Table;

const CLIENTS: usize = 4;
/// Clients of the project that floods the server.
const FLOOD: usize = 64;
/// Clients that fill the server. More of them share each write to the disk.
const FILLERS: usize = 32;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    many_live_sessions(effort, table)?;
    a_flood(effort, table)
}

/// A server with an agent type and two projects.
fn start() -> Result<(Server, Caller)> {
    // Sessions in memory leave nothing on the host, and closing all of them takes minutes.
    let server = Server::start_with(&[("WORKSPACE_MAX_CONCURRENT", "10000000")])?.ended_by(End::Kill);
    let caller = Caller::new(&server.url, &server.token);
    let workspace = json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"});
    caller.json("POST", "/api/v1/agent-types", Some(json!({"id": "bench", "workspace": workspace})))?;
    for project in ["calm", "flood"] {
        caller.json("PUT", &format!("/api/v1/projects/{project}"), Some(json!({})))?;
        let quotas = json!({"sessions": 10_000_000});
        caller.json("PUT", &format!("/api/v1/projects/{project}/quotas"), Some(quotas))?;
    }
    Ok((server, caller))
}

fn create(caller: &Caller, project: &str, threads: usize, each: usize) -> Result<Load> {
    load(threads, each, |_| {
        let (caller, body) = (caller.clone(), json!({"agent_type": "bench", "project": project}));
        move || caller.json("POST", "/api/v1/sessions", Some(body.clone())).map(drop)
    })
}

/// One client of a project, while 64 clients of another create sessions as fast as they can.
fn a_flood(effort: Effort, table: &mut Table) -> Result<()> {
    let (_server, caller) = start()?;
    let samples = effort.samples(2000);
    let alone = create(&caller, "calm", 1, samples)?;
    let over = AtomicBool::new(false);
    let flooded = std::thread::scope(|scope| {
        for _ in 0..FLOOD {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // A refusal is an answer to a flood too.
                    let body = json!({"agent_type": "bench", "project": "flood"}).to_string();
                    let _ = caller.send("POST", "/api/v1/sessions", Some(&body));
                }
            });
        }
        let flooded = create(&caller, "calm", 1, samples);
        over.store(true, Ordering::Relaxed);
        flooded
    })?;
    table.row(
        "session create, memory, while another project floods with 64 clients",
        format!("p50 {:.2} ms, p99 {:.2} ms", flooded.p50_ms, flooded.p99_ms),
        format!(
            "without the flood: p50 {:.2} ms, p99 {:.2} ms; {:.1}× the p99",
            alone.p50_ms,
            alone.p99_ms,
            flooded.p99_ms / alone.p99_ms
        ),
        "–",
        json!({
            "p50_ms": flooded.p50_ms, "p99_ms": flooded.p99_ms, "alone_p50_ms": alone.p50_ms,
            "alone_p99_ms": alone.p99_ms,
        }),
    );
    Ok(())
}

fn many_live_sessions(effort: Effort, table: &mut Table) -> Result<()> {
    let live = effort.samples(100_000);
    let (_server, caller) = start()?;
    let samples = effort.samples(1000);
    let before = create(&caller, "calm", CLIENTS, samples)?;
    create(&caller, "flood", FILLERS, live.div_ceil(FILLERS))?;
    let after = create(&caller, "calm", CLIENTS, samples)?;
    let usage = caller.json("GET", "/api/v1/projects/flood/usage", None)?;
    let counted = usage["project"]["sessions"]["used"].as_u64().unwrap_or_default();
    let expected = (live.div_ceil(FILLERS) * FILLERS) as u64;
    ensure!(counted == expected, "{counted} sessions are counted, and {expected} were created");
    table.row(
        &format!("session create, memory, {live} live sessions, 4 clients"),
        format!("{:.0}/s, p50 {:.2} ms, p99 {:.2} ms", after.per_second, after.p50_ms, after.p99_ms),
        format!("no live sessions: {:.0}/s; {:.2}× the rate", before.per_second, after.per_second / before.per_second),
        "–",
        json!({
            "live": live, "per_second": after.per_second, "p50_ms": after.p50_ms, "p99_ms": after.p99_ms,
            "empty_per_second": before.per_second,
        }),
    );
    Ok(())
}
