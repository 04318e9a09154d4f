//! Boxes over HTTP, journalled: a cold one to its first command, and a command in a live one, beside a bare fork and exec.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::Effort;
use crate::http::{Caller, load};
use crate::server::Server;
use crate::table::Table;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let server = Server::start()?;
    let caller = Caller::new(&server.url, &server.token);
    let workspace =
        json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "require_workspace": true});
    caller.json("POST", "/api/v1/agent-types", Some(json!({"id": "box", "workspace": workspace})))?;
    let bare = load(1, effort.samples(500), |_| {
        || {
            if Command::new("true").status()?.success() { Ok(()) } else { bail!("true failed") }
        }
    })?;
    let cold = load(1, effort.samples(100), |_| {
        let caller = caller.clone();
        move || {
            let session = start(&caller, "box")?;
            command(&caller, &session)?;
            caller.send("DELETE", &format!("/api/v1/sessions/{session}"), None)?;
            Ok(())
        }
    })?;
    table.row(
        "native box: create, first command, close, over HTTP",
        format!("p50 {:.1} ms, p99 {:.1} ms", cold.p50_ms, cold.p99_ms),
        format!("bare fork+exec: p50 {:.2} ms", bare.p50_ms),
        "–",
        json!({"p50_ms": cold.p50_ms, "p99_ms": cold.p99_ms, "bare_p50_ms": bare.p50_ms}),
    );
    let session = start(&caller, "box")?;
    let live = load(1, effort.samples(500), |_| {
        let (caller, session) = (caller.clone(), session.clone());
        move || command(&caller, &session)
    })?;
    let exec = load(1, effort.samples(500), |_| {
        let (caller, session) = (caller.clone(), session.clone());
        move || exec(&caller, &session)
    })?;
    table.row(
        "native box: an exec of true in a live one, over HTTP, journalled twice",
        format!("p50 {:.2} ms, p99 {:.2} ms", exec.p50_ms, exec.p99_ms),
        format!("bare fork+exec: p50 {:.2} ms; {:.1}× the time", bare.p50_ms, exec.p50_ms / bare.p50_ms),
        "≤ 3× bare",
        json!({"p50_ms": exec.p50_ms, "p99_ms": exec.p99_ms, "bare_p50_ms": bare.p50_ms}),
    );
    caller.send("DELETE", &format!("/api/v1/sessions/{session}"), None)?;
    table.row(
        "native box: a command in a live one, over HTTP, journalled twice",
        format!("p50 {:.2} ms, p99 {:.2} ms", live.p50_ms, live.p99_ms),
        format!("bare fork+exec: p50 {:.2} ms; {:.1}× the time", bare.p50_ms, live.p50_ms / bare.p50_ms),
        "≤ 3× bare",
        json!({"p50_ms": live.p50_ms, "p99_ms": live.p99_ms, "bare_p50_ms": bare.p50_ms}),
    );
    Ok(())
}

pub(super) fn start(caller: &Caller, agent_type: &str) -> Result<String> {
    let session = caller.json("POST", "/api/v1/sessions?wait=60", Some(json!({"agent_type": agent_type})))?;
    if session["status"] != "active" {
        bail!("no box: {session}");
    }
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

pub(super) fn command(caller: &Caller, session: &str) -> Result<()> {
    let body = json!({"command": "true"});
    let answer: Value = caller.json("POST", &format!("/api/v1/sessions/{session}/tools/bash"), Some(body))?;
    if answer["result"]["exit_code"] == 0 { Ok(()) } else { bail!("{answer}") }
}

fn exec(caller: &Caller, session: &str) -> Result<()> {
    let body = json!({"argv": ["true"]});
    let answer: Value = caller.json("POST", &format!("/api/v1/sessions/{session}/execs"), Some(body))?;
    if answer["exit_code"] == 0 { Ok(()) } else { bail!("{answer}") }
}
