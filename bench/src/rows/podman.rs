//! Containers over HTTP with a journal, compared with Podman's command line on the same storage,
//! image and runtime.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::boxes::{close, command, start};
use crate::Effort;
use crate::http::{Caller, Load, load};
use crate::server::Server;
use crate::table::Table;

const IMAGE: &str = "localhost/stead-test/tools:1";
const LIMITS: &[&str] = &["--network", "none", "--memory", "256m", "--cpus", "1", "--pids-limit", "128"];
const POOL: u64 = 8;

/// The private Podman that the tests use too.
pub(super) struct Podman {
    directory: PathBuf,
    _script: Child,
}

impl Podman {
    pub(super) fn start() -> Result<Self> {
        let script = include_str!("../../../crates/stead-testkit/src/podman.sh");
        let mut child = Command::new("sh")
            .args(["-c", script, "podman.sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        let directory = line.split(' ').next().unwrap_or_default();
        if directory.is_empty() {
            bail!("no Podman could be started");
        }
        Ok(Self { directory: directory.into(), _script: child })
    }

    /// Runs and removes a container.
    pub(super) fn run_true(&self) -> Result<()> {
        self.run(&[&["run", "--rm"], LIMITS, &[IMAGE, "bash", "-c", "true"]].concat())
    }

    /// Measures commands in a running container.
    pub(super) fn exec_true(&self, samples: usize) -> Result<Load> {
        self.run(&[&["run", "--detach", "--name", "bench"], LIMITS, &[IMAGE, "sleep", "3600"]].concat())?;
        let load = load(1, samples, |_| || self.run(&["exec", "bench", "bash", "-c", "true"]));
        self.run(&["rm", "--force", "--time", "0", "bench"])?;
        load
    }

    fn run(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new("podman");
        command.arg("--tmpdir").arg(self.directory.join("tmp")).args(args);
        command.env("CONTAINERS_CONF", self.directory.join("containers.conf"));
        command.env("CONTAINERS_STORAGE_CONF", self.directory.join("storage.conf"));
        let output = command.stdin(Stdio::null()).output()?;
        if output.status.success() { Ok(()) } else { bail!("{}", String::from_utf8_lossy(&output.stderr)) }
    }
}

pub(crate) fn run(effort: Effort, table: &mut Table) -> Result<()> {
    let podman = Podman::start()?;
    let url = format!("unix://{}", podman.directory.join("podman.sock").display());
    let server = Server::start_with(&[("PODMAN_BASE_URL", &url), ("STEAD_PODMAN_IMAGE", IMAGE)])?;
    let caller = Caller::new(&server.url, &server.token);
    for (name, warm) in [("cold", 0), ("warm", POOL)] {
        let workspace = json!({"enabled": true, "provider": "podman", "workspace_policy": "empty", "require_workspace": true,
            "warm_pool": warm, "resource_limits": {"cpu": "1", "memory": "256M", "disk": "64M", "pids": 128}});
        if warm == 0 {
            caller.json("POST", "/api/v1/agent-types", Some(json!({"id": name, "workspace": workspace})))?;
            cold(effort, table, &podman, &caller)?;
        } else {
            caller.json("POST", "/api/v1/agent-types", Some(json!({"id": name, "workspace": workspace})))?;
            claims(effort, table, &caller)?;
        }
    }
    Ok(())
}

fn cold(effort: Effort, table: &mut Table, podman: &Podman, caller: &Caller) -> Result<()> {
    let peer = load(1, effort.samples(20), |_| || podman.run_true())?;
    let ours = load(1, effort.samples(20), |_| {
        let caller = caller.clone();
        move || {
            let session = start(&caller, "cold")?;
            command(&caller, &session)?;
            close(&caller, &session)
        }
    })?;
    table.row(
        "podman box: create, first command, close, over HTTP",
        format!("p50 {:.0} ms, p99 {:.0} ms", ours.p50_ms, ours.p99_ms),
        format!("podman run --rm: p50 {:.0} ms; {:.2}× the time", peer.p50_ms, ours.p50_ms / peer.p50_ms),
        "≤ 1.2×",
        json!({"p50_ms": ours.p50_ms, "p99_ms": ours.p99_ms, "peer_p50_ms": peer.p50_ms}),
    );
    let peer = podman.exec_true(effort.samples(20))?;
    let session = start(caller, "cold")?;
    let ours = load(1, effort.samples(300), |_| {
        let (caller, session) = (caller.clone(), session.clone());
        move || command(&caller, &session)
    })?;
    close(caller, &session)?;
    table.row(
        "podman box: a command in a live one, over HTTP, journalled twice",
        format!("p50 {:.2} ms, p99 {:.2} ms", ours.p50_ms, ours.p99_ms),
        format!("podman exec: p50 {:.0} ms; {:.0}× faster", peer.p50_ms, peer.p50_ms / ours.p50_ms),
        "≥ 20×",
        json!({"p50_ms": ours.p50_ms, "p99_ms": ours.p99_ms, "peer_p50_ms": peer.p50_ms}),
    );
    Ok(())
}

/// Measures sessions that start whenever the warm pool is full, and then a burst of twice its size.
fn claims(effort: Effort, table: &mut Table, caller: &Caller) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..effort.samples(40) {
        ready(caller)?;
        let began = Instant::now();
        let session = start(caller, "warm")?;
        command(caller, &session)?;
        times.push(began.elapsed().as_secs_f64() * 1_000.0);
        close(caller, &session)?;
    }
    times.sort_by(f64::total_cmp);
    let at = |fraction: f64| times[((times.len() - 1) as f64 * fraction) as usize];
    let (p50, p99) = (at(0.5), at(0.99));
    table.row(
        "podman box from the warm pool: session and first command, over HTTP",
        format!("p50 {p50:.0} ms, p99 {p99:.0} ms"),
        "–".to_owned(),
        "p99 ≤ 50 ms",
        json!({"p50_ms": p50, "p99_ms": p99}),
    );
    let before = ready(caller)?;
    let burst = 2 * POOL;
    let sessions: Vec<String> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..burst).map(|_| scope.spawn(|| start(caller, "warm"))).collect();
        started
            .into_iter()
            .map(|one| one.join().map_err(|_| anyhow::anyhow!("a start panicked"))?)
            .collect::<Result<_>>()
    })?;
    let hits = pool(caller)?["hits"].as_u64().unwrap_or(0) - before["hits"].as_u64().unwrap_or(0);
    for session in &sessions {
        close(caller, session)?;
    }
    table.row(
        "podman warm pool: a burst of twice its size",
        format!("{hits} of {burst} found a box ready, {} of {burst} started", sessions.len()),
        "–".to_owned(),
        "–",
        json!({"hits": hits, "burst": burst}),
    );
    Ok(())
}

fn pool(caller: &Caller) -> Result<Value> {
    Ok(caller.json("GET", "/api/v1/pool", None)?["items"][0].clone())
}

fn ready(caller: &Caller) -> Result<Value> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let entry = pool(caller)?;
        if entry["ready"] == POOL {
            return Ok(entry);
        }
        if Instant::now() > deadline {
            bail!("the pool does not fill: {entry}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
