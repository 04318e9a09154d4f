//! Boxes over HTTP with a journal: a cold box up to its first command, a command in a live box, a
//! fork, a burst. The peers are bubblewrap, a bare fork and exec, and Podman.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::podman::Podman;
use crate::Effort;
use crate::http::{Caller, Load, load};
use crate::server::Server;
use crate::table::{Table, percentile};

const BURST: usize = 100;
/// Size of the forked tree.
const LARGE_MIB: u64 = 1024;

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let server = Server::start()?;
    let caller = Caller::new(&server.url, &server.token);
    let workspace = json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "require_workspace": true,
        "resource_limits": {"cpu": "2", "memory": "1G", "disk": "4G", "pids": 512}});
    caller.json("POST", "/api/v1/agent-types", Some(json!({"id": "box", "workspace": workspace})))?;
    let podman = Podman::start().ok();
    cold(effort, table, &caller, podman.as_ref())?;
    live(effort, table, &caller, podman.as_ref())?;
    next_to_a_bomb(effort, table, &caller)?;
    fork(effort, table, &caller)?;
    burst(table, &caller)
}

/// Runs a program without Stead.
fn bare(program: &str, args: &[&str]) -> Result<()> {
    let status = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { bail!("{program} failed: {status}") }
}

fn cold(effort: Effort, table: &mut Table, caller: &Caller, podman: Option<&Podman>) -> Result<()> {
    // Alternates between the two, so that other load on the machine affects both.
    let (mut ours, mut bwrap) = (Vec::new(), Vec::new());
    for _ in 0..effort.samples(100) {
        let begun = Instant::now();
        // The minimal options that work: without a root, bubblewrap cannot find the program.
        bare("bwrap", &["--unshare-all", "--ro-bind", "/", "/", "true"])?;
        bwrap.push(millis(begun));
        let begun = Instant::now();
        let session = start(caller, "box")?;
        command(caller, &session)?;
        ours.push(millis(begun));
        close(caller, &session)?;
    }
    let (ours, bwrap) = (Spread::of(ours), Spread::of(bwrap));
    let podman = podman.map(|podman| load(1, effort.samples(20), |_| || podman.run_true())).transpose()?;
    let of_podman = podman.as_ref().map_or(String::new(), |podman| {
        format!("; podman run --rm: p50 {:.0} ms, {:.0}× slower than ours", podman.p50_ms, podman.p50_ms / ours.p50)
    });
    table.row(
        "native box: create to first command done, over HTTP, journalled",
        ours.to_string(),
        format!("bwrap --unshare-all: p50 {:.2} ms; {:.1}× the time{of_podman}", bwrap.p50, ours.p50 / bwrap.p50),
        "≤ 3× bwrap, ≥ 10× faster than podman",
        json!({"p50_ms": ours.p50, "p99_ms": ours.p99, "bwrap_p50_ms": bwrap.p50, "podman_p50_ms": podman.map(|podman| podman.p50_ms)}),
    );
    Ok(())
}

fn live(effort: Effort, table: &mut Table, caller: &Caller, podman: Option<&Podman>) -> Result<()> {
    let session = start(caller, "box")?;
    let samples = effort.samples(500);
    let (mut floor, mut execs, mut tools) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..samples {
        let begun = Instant::now();
        bare("true", &[])?;
        floor.push(millis(begun));
        let begun = Instant::now();
        exec(caller, &session)?;
        execs.push(millis(begun));
        let begun = Instant::now();
        command(caller, &session)?;
        tools.push(millis(begun));
    }
    close(caller, &session)?;
    let podman = podman.map(|podman| podman.exec_true(effort.samples(20))).transpose()?;
    let floor = Spread::of(floor);
    for (work, ours) in [("an exec of true", Spread::of(execs)), ("the bash tool running true", Spread::of(tools))] {
        let of_podman = podman.as_ref().map_or(String::new(), |podman: &Load| {
            format!("; podman exec: p50 {:.0} ms, {:.0}× slower than ours", podman.p50_ms, podman.p50_ms / ours.p50)
        });
        table.row(
            &format!("native box: {work} in a live one, over HTTP, journalled twice"),
            ours.to_string(),
            format!("bare fork+exec: p50 {:.2} ms; {:.1}× the time{of_podman}", floor.p50, ours.p50 / floor.p50),
            "≤ 3× bare, ≥ 40× faster than podman exec",
            json!({"p50_ms": ours.p50, "p99_ms": ours.p99, "bare_p50_ms": floor.p50, "podman_p50_ms": podman.as_ref().map(|podman| podman.p50_ms)}),
        );
    }
    Ok(())
}

/// Measures commands in one box while another box runs fork bombs and busy loops, compared with an
/// idle one.
fn next_to_a_bomb(effort: Effort, table: &mut Table, caller: &Caller) -> Result<()> {
    let workspace = json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "require_workspace": true,
        "resource_limits": {"cpu": "500m", "memory": "256M", "disk": "64M", "pids": 256}});
    caller.json("POST", "/api/v1/agent-types", Some(json!({"id": "bomb", "workspace": workspace})))?;
    let (hog, neighbour) = (start(caller, "bomb")?, start(caller, "box")?);
    let measure = || -> Result<Spread> {
        let mut times = Vec::new();
        for _ in 0..effort.samples(500) {
            let begun = Instant::now();
            exec(caller, &neighbour)?;
            times.push(millis(begun));
        }
        Ok(Spread::of(times))
    };
    let idle = measure()?;
    let bomb = "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; bomb() { bomb | bomb & }; bomb; sleep 600";
    let body = json!({"command": bomb, "background": true});
    caller.json("POST", &format!("/api/v1/sessions/{hog}/execs"), Some(body))?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    let busy = measure()?;
    close(caller, &hog)?;
    close(caller, &neighbour)?;
    table.row(
        "native box: an exec of true while another box is full of fork bombs and busy loops, over HTTP",
        busy.to_string(),
        format!("while it is idle: {idle}; p99 {:.1}× the time", busy.p99 / idle.p99),
        "p99 ≤ 2× idle",
        json!({"p50_ms": busy.p50, "p99_ms": busy.p99, "idle_p50_ms": idle.p50, "idle_p99_ms": idle.p99}),
    );
    Ok(())
}

/// Measures the fork of a workspace with one gibibyte, compared with the creation of an empty one.
fn fork(effort: Effort, table: &mut Table, caller: &Caller) -> Result<()> {
    let source = start(caller, "box")?;
    let fill = format!("head -c {}M /dev/zero > large", LARGE_MIB);
    caller.json("POST", &format!("/api/v1/sessions/{source}/execs"), Some(json!({"command": fill})))?;
    let (mut empty, mut forks) = (Vec::new(), Vec::new());
    for _ in 0..effort.samples(40) {
        let begun = Instant::now();
        let session = start(caller, "box")?;
        empty.push(millis(begun));
        close(caller, &session)?;
        let begun = Instant::now();
        let path = format!("/api/v1/sessions/{source}/clone?wait=60");
        let cloned = caller.json("POST", &path, Some(json!({"isolation": "full"})))?;
        forks.push(millis(begun));
        let fork = &cloned["items"][0];
        if fork["status"] != "active" {
            bail!("no fork: {fork}");
        }
        close(caller, fork["id"].as_str().context("no id")?)?;
    }
    close(caller, &source)?;
    let (empty, forks) = (Spread::of(empty), Spread::of(forks));
    table.row(
        &format!("native box: a fork of a workspace of {LARGE_MIB} MiB, over HTTP"),
        forks.to_string(),
        format!("an empty create: p50 {:.1} ms; {:.1}× the time", empty.p50, forks.p50 / empty.p50),
        "≤ 2× an empty create",
        json!({"p50_ms": forks.p50, "p99_ms": forks.p99, "empty_p50_ms": empty.p50}),
    );
    Ok(())
}

/// Creates all boxes at once.
fn burst(table: &mut Table, caller: &Caller) -> Result<()> {
    let begun = Instant::now();
    let started: Vec<Result<(String, f64)>> = std::thread::scope(|scope| {
        let one = || {
            let begun = Instant::now();
            start(caller, "box").map(|session| (session, millis(begun)))
        };
        let threads: Vec<_> = (0..BURST).map(|_| scope.spawn(one)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a start panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    let whole = begun.elapsed().as_secs_f64();
    let (sessions, times): (Vec<String>, Vec<f64>) = started.into_iter().flatten().unzip();
    let begun = Instant::now();
    for session in &sessions {
        command(caller, session)?;
    }
    for session in &sessions {
        close(caller, session)?;
    }
    let after = begun.elapsed().as_secs_f64();
    let times = Spread::of(times);
    table.row(
        &format!("native boxes: a burst of {BURST} creates, over HTTP"),
        format!("{} of {BURST} active; {times}", sessions.len()),
        format!("{whole:.2} s for all; a command in each and their closing, one by one: {after:.2} s"),
        "all, p99 ≤ 1,500 ms",
        json!({"active": sessions.len(), "p50_ms": times.p50, "p99_ms": times.p99, "all_s": whole}),
    );
    Ok(())
}

struct Spread {
    p50: f64,
    p99: f64,
}

impl Spread {
    fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self { p50: percentile(&samples, 0.5), p99: percentile(&samples, 0.99) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p50 {:.2} ms, p99 {:.2} ms", self.p50, self.p99)
    }
}

fn millis(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1_000.0
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

pub(super) fn close(caller: &Caller, session: &str) -> Result<()> {
    caller.send("DELETE", &format!("/api/v1/sessions/{session}"), None)?;
    Ok(())
}

fn exec(caller: &Caller, session: &str) -> Result<()> {
    let body = json!({"argv": ["true"]});
    let answer: Value = caller.json("POST", &format!("/api/v1/sessions/{session}/execs"), Some(body))?;
    if answer["exit_code"] == 0 { Ok(()) } else { bail!("{answer}") }
}
