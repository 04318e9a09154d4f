//! `cargo xtask hostile-load [--seconds N] [--clients N] [--attack NAME]…`: runs the same mixed
//! load of many clients with and without a hostile session.
//!
//! The load of `clients.rs` runs in segments, alternately alone and together with `hostile.rs`, so
//! that changes in the machine's own load affect both halves. `monitor.rs` watches the server's
//! memory and the home's disk usage. At the end everything is closed, and `census.rs` looks for
//! leftovers on the host. All of it uses loopback and a home of its own.

mod census;
mod clients;
mod hostile;
mod measure;
mod monitor;

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::process::{cargo, run as run_command};
use crate::server::http::Client;
use crate::server::{Build, Server};
use clients::Worker;
use hostile::Hostile;
use measure::{Latencies, Report};
use monitor::Monitor;

/// Default duration of the load with the hostile session, in seconds.
const SECONDS: u64 = 30 * 60;
/// The load without the hostile session is this many times shorter. Its percentiles do not need
/// more samples.
const ALONE_SHORTER: u32 = 3;
const CLIENTS: usize = 16;
/// Number of segments without and of segments with the hostile session.
const ROUNDS: u32 = 2;
/// Disk limit of each ordinary workspace, and of each hostile one.
const ORDINARY_DISK_MIB: u64 = 64;
const HOSTILE_DISK_MIB: u64 = 256;
/// Allowed disk usage of the home besides the workspaces: journal, prepared volumes and templates.
const OWN_DISK_MIB: u64 = 2048;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Size {
    seconds: u64,
    clients: usize,
    /// Attacks to run; empty for all of them.
    attacks: Vec<String>,
}

/// The value of `--seconds` of `cargo xtask nightly`.
static ASKED: OnceLock<u64> = OnceLock::new();

pub(crate) fn run(args: &[String]) -> Result<()> {
    campaign(&parse(args)?)
}

/// The `hostile-load` step of the nightly tests.
pub(crate) fn check() -> Result<()> {
    campaign(&Size { seconds: ASKED.get().copied().unwrap_or(SECONDS), clients: CLIENTS, attacks: Vec::new() })
}

/// Removes `--seconds N` from the arguments of the nightly and stores the value.
pub(crate) fn take_seconds(args: &[String]) -> Result<Vec<String>> {
    let Some(at) = args.iter().position(|arg| arg == "--seconds") else { return Ok(args.to_vec()) };
    let value = args.get(at + 1).context("--seconds wants a number")?;
    let seconds = value.parse().with_context(|| format!("--seconds {value}"))?;
    ASKED.get_or_init(|| seconds);
    Ok([&args[..at], &args[at + 2..]].concat())
}

fn parse(args: &[String]) -> Result<Size> {
    let mut size = Size { seconds: SECONDS, clients: CLIENTS, attacks: Vec::new() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next().with_context(|| format!("{arg} wants a number"))?;
        match arg.as_str() {
            "--seconds" => size.seconds = value.parse().with_context(|| format!("--seconds {value}"))?,
            "--clients" => size.clients = value.parse().with_context(|| format!("--clients {value}"))?,
            "--attack" => size.attacks.push(hostile::known(value)?.to_owned()),
            _ => bail!("usage: cargo xtask hostile-load [--seconds N] [--clients N] [--attack NAME]…"),
        }
    }
    Ok(size)
}

fn campaign(size: &Size) -> Result<()> {
    run_command(cargo().args(["build", "--release", "--package", "stead", "--package", "stead-box", "--bins"]))?;
    let alone = size.seconds / u64::from(ALONE_SHORTER);
    println!("{} clients, {alone} s without and {} s with a hostile session", size.clients, size.seconds);
    let folder = tempfile::Builder::new().prefix("stead-load-").tempdir()?;
    let server = Server::ready_build_in(Build::Release, folder.path(), "")?;
    let result = measured(&server, size).inspect_err(|_| println!("{}", server.log_tail()));
    let (report, groups) = match result {
        Ok(found) => found,
        Err(error) => return Err(kept(folder, error)),
    };
    let home = server.home().to_owned();
    server.stop()?;
    let left = census::left(&home, &groups)?;
    report.print();
    print_census(&left);
    match report.verdict().and_then(|()| nothing_left(&left)) {
        Ok(()) => Ok(()),
        Err(error) => Err(kept(folder, error)),
    }
}

fn kept(folder: tempfile::TempDir, error: anyhow::Error) -> anyhow::Error {
    let path = folder.keep();
    error.context(format!("everything is kept in {}", path.display()))
}

/// Prints the leftovers, also if a latency is above its limit.
fn print_census(left: &[String]) {
    println!("  census: {} on the host after the end", if left.is_empty() { "nothing" } else { "left" });
    left.iter().for_each(|line| println!("    {line}"));
}

fn nothing_left(left: &[String]) -> Result<()> {
    ensure!(left.is_empty(), "{} objects are left on the host after the end", left.len());
    Ok(())
}

/// Runs the load without and with the hostile session. Returns the report and the control groups of
/// all boxes.
fn measured(server: &Server, size: &Size) -> Result<(Report, census::Groups)> {
    let admin = server.client()?;
    declare(&admin)?;
    let monitor = Monitor::start(server.pid(), server.home());
    let mut workers: Vec<Worker> = (0..size.clients).map(|number| Worker::new(number, &admin)).collect();
    let (mut without, mut with) = (Latencies::default(), Latencies::default());
    let segment = Duration::from_secs(size.seconds) / ROUNDS;
    // Warm-up, because the first boxes, prepared volumes and connections cost more than later ones.
    work(&mut workers, Instant::now() + Duration::from_secs(5))?;
    for round in 1..=ROUNDS {
        without.extend(work(&mut workers, Instant::now() + segment / ALONE_SHORTER)?);
        println!("  round {round}: {} operations without", without.count());
        let hostile = Hostile::begin(&admin, &size.attacks)?;
        let measured = work(&mut workers, Instant::now() + segment);
        let attacks = hostile.end()?;
        with.extend(measured?);
        println!("  round {round}: {} operations with; hostile: {attacks}", with.count());
    }
    workers.iter_mut().try_for_each(Worker::close)?;
    close_all(&admin)?;
    let seen = monitor.end();
    let live = size.clients as u64 * 3;
    let disk_limit = (live * ORDINARY_DISK_MIB + 2 * HOSTILE_DISK_MIB + OWN_DISK_MIB) << 20;
    Ok((Report { without, with, memory: seen.memory, disk: seen.disk, disk_limit }, seen.groups))
}

fn work(workers: &mut [Worker], until: Instant) -> Result<Latencies> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(move || worker.work(until))).collect();
        let mut all = Latencies::default();
        for thread in threads {
            all.extend(thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a client panicked")))?);
        }
        Ok(all)
    })
}

fn declare(admin: &Client) -> Result<()> {
    let kinds = [
        ("ordinary", "native", limits("0.5", "128M", ORDINARY_DISK_MIB)),
        ("hostile", "native", limits("0.5", "256M", HOSTILE_DISK_MIB)),
        ("hostile-memory", "memory", limits("0.5", "256M", HOSTILE_DISK_MIB)),
    ];
    for (id, provider, limits) in kinds {
        let workspace = json!({"enabled": true, "provider": provider, "workspace_policy": "empty",
            "require_workspace": true, "resource_limits": limits});
        let response = admin.post("/api/v1/agent-types", &json!({"id": id, "workspace": workspace}))?;
        ensure!(response.status == 201, "the agent type {id} was not registered: {response}");
    }
    Ok(())
}

fn limits(cpu: &str, memory: &str, disk_mib: u64) -> Value {
    json!({"cpu": cpu, "memory": memory, "disk": format!("{disk_mib}M"), "pids": 128})
}

/// Closes every open session, because a failed client may have left one.
fn close_all(admin: &Client) -> Result<()> {
    for status in ["active", "provisioning"] {
        let page = admin.get(&format!("/api/v1/sessions?limit=500&status={status}"))?.json()?;
        for id in page["items"].as_array().into_iter().flatten().filter_map(|session| session["id"].as_str()) {
            admin.request("DELETE", &format!("/api/v1/sessions/{id}"), &[], None)?;
        }
    }
    let start = Instant::now();
    loop {
        let page = admin.get("/api/v1/sessions?limit=500&status=closing")?.json()?;
        if page["items"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_secs(60), "sessions are still closing after 60 s: {page}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Returns true if a text contains the path of the home. The texts do not only contain paths.
fn names(text: &str, home: &Path) -> bool {
    home.to_str().is_some_and(|home| text.contains(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_or_refused() {
        let args = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let size = parse(&args(&["--seconds", "60", "--clients", "4", "--attack", "snapshots"])).unwrap();
        assert_eq!(size, Size { seconds: 60, clients: 4, attacks: args(&["snapshots"]) });
        assert!(parse(&args(&["--attack", "kindness"])).is_err());
        assert!(parse(&args(&["--seconds"])).is_err());
        assert!(parse(&args(&["--minutes", "1"])).is_err());
        assert_eq!(take_seconds(&args(&["--only", "x"])).unwrap(), args(&["--only", "x"]));
        assert!(take_seconds(&args(&["--seconds"])).is_err());
    }
}
