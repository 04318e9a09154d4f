//! `cargo xtask crash --kills N [--seed S]`: kills the real server with SIGKILL at random times
//! under load, starts it again on the same home, and verifies that it lost nothing.
//!
//! A few workers create sessions, call tools and close sessions. Each keeps a model of the
//! acknowledged requests (`model.rs`). A request without a response may or may not have taken
//! effect. A request with a response must not be undone. After each restart `check.rs` compares the
//! server with the model. At the end `final_checks.rs` closes everything, verifies the journals
//! offline and counts leftovers on the host.

mod check;
mod final_checks;
mod load;
mod model;
mod random;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use crate::process::{cargo, run as run_command};
use crate::server::Server;
use crate::server::http::Client;
use load::Worker;
use random::Random;

const WORKERS: usize = 3;
const AGENT_TYPE: &str = "crash";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let (kills, seed) = parse(args)?;
    run_command(cargo().args(["build", "--package", "stead"]))?;
    campaign(kills, seed)
}

/// The `crash` step of the tests.
pub(crate) fn check() -> Result<()> {
    campaign(20, random::seed_of_today())
}

/// The same with the length that a release needs.
pub(crate) fn check_long() -> Result<()> {
    campaign(1000, random::seed_of_today())
}

fn parse(args: &[String]) -> Result<(u32, u64)> {
    let (mut kills, mut seed) = (20, random::seed_of_today());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let value = args.next().with_context(|| format!("{arg} wants a number"))?;
        match arg.as_str() {
            "--kills" => kills = value.parse().with_context(|| format!("--kills {value}"))?,
            "--seed" => seed = value.parse().with_context(|| format!("--seed {value}"))?,
            _ => bail!("usage: cargo xtask crash [--kills N] [--seed S]"),
        }
    }
    Ok((kills, seed))
}

fn campaign(kills: u32, seed: u64) -> Result<()> {
    println!("{kills} kills, seed {seed}");
    let folder = tempfile::Builder::new().prefix("stead-crash-").tempdir()?;
    let mut campaign = Campaign::new(folder.path(), seed)?;
    let result = campaign.run(kills).and_then(|()| campaign.end());
    println!("{}", campaign.summary());
    result.map_err(|error| {
        let kept = folder.keep();
        error.context(format!("seed {seed}, kill {}; everything is kept in {}", campaign.kills, kept.display()))
    })
}

struct Campaign {
    home: PathBuf,
    logs: PathBuf,
    random: Random,
    workers: Vec<Worker>,
    start: Instant,
    starts: u32,
    kills: u32,
    kills_while_starting: u32,
    slowest_start: Duration,
}

impl Campaign {
    fn new(folder: &Path, seed: u64) -> Result<Self> {
        let (home, logs) = (folder.join("home"), folder.join("logs"));
        std::fs::create_dir(&home)?;
        std::fs::create_dir(&logs)?;
        let mut random = Random::new(seed);
        let workers = (0..WORKERS).map(|number| Worker::new(format!("{seed:x}-{number}"), random.fork())).collect();
        Ok(Self {
            home,
            logs,
            random,
            workers,
            start: Instant::now(),
            starts: 0,
            kills: 0,
            kills_while_starting: 0,
            slowest_start: Duration::ZERO,
        })
    }

    fn run(&mut self, kills: u32) -> Result<()> {
        let server = self.start_ready()?;
        register_agent_type(&server.client()?)?;
        self.load_until_killed(server)?;
        let mut reported_at = Instant::now();
        while self.kills < kills {
            // Kills one server in eight while it recovers from the previous kill.
            if self.random.one_in(8) {
                let server = self.start_server()?;
                std::thread::sleep(self.random.millis(1, 100));
                server.kill()?;
                self.kills += 1;
                self.kills_while_starting += 1;
                continue;
            }
            let server = self.start_ready()?;
            check::after_restart(&server.client()?, &mut self.workers, &mut self.random)
                .inspect_err(|_| println!("{}", server.log_tail()))?;
            self.load_until_killed(server)?;
            if reported_at.elapsed() > Duration::from_secs(5) {
                println!("  {}", self.summary());
                reported_at = Instant::now();
            }
        }
        Ok(())
    }

    fn start_server(&mut self) -> Result<Server> {
        self.starts += 1;
        Server::start(&self.home, &self.logs.join(format!("{:04}.log", self.starts)))
    }

    fn start_ready(&mut self) -> Result<Server> {
        let mut server = self.start_server()?;
        self.slowest_start = self.slowest_start.max(server.wait_ready()?);
        Ok(server)
    }

    fn load_until_killed(&mut self, server: Server) -> Result<()> {
        let client = server.client()?;
        let delay = self.random.millis(5, 250);
        let killed = AtomicBool::new(false);
        let (kill, work) = std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.workers.iter_mut().map(|worker| scope.spawn(|| worker.work(&client, &killed))).collect();
            std::thread::sleep(delay);
            // Set the flag before the kill. A connection that breaks without the flag broke for
            // another reason.
            killed.store(true, Ordering::SeqCst);
            let kill = server.kill();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow!("a worker panicked")))
            };
            (kill, threads.into_iter().try_for_each(join))
        });
        self.kills += 1;
        kill.and(work)
    }

    fn end(&mut self) -> Result<()> {
        let server = self.start_ready()?;
        let client = server.client()?;
        let closed = check::everything(&client, &mut self.workers)
            .and_then(|()| final_checks::compare_replays(&client, &self.home, &self.workers, &mut self.random))
            .and_then(|()| final_checks::close_all(&client, &mut self.workers))
            .and_then(|()| final_checks::no_strangers(&client, &self.workers));
        closed.inspect_err(|_| println!("{}", server.log_tail()))?;
        server.stop()?;
        final_checks::verify_offline(&self.home)?;
        final_checks::nothing_left(&self.home, &self.workers)
    }

    fn summary(&self) -> String {
        let acknowledged: u32 = self.workers.iter().map(|worker| worker.acknowledged).sum();
        let unanswered: u32 = self.workers.iter().map(|worker| worker.unanswered).sum();
        let sessions: usize = self.workers.iter().map(|worker| worker.sessions.len()).sum();
        format!(
            "{} kills ({} while starting), {} starts, {sessions} sessions, {acknowledged} acknowledged operations, \
             {unanswered} unanswered, slowest start {} ms, {} s",
            self.kills,
            self.kills_while_starting,
            self.starts,
            self.slowest_start.as_millis(),
            self.start.elapsed().as_secs()
        )
    }
}

fn register_agent_type(client: &Client) -> Result<()> {
    let body = json!({
        "id": AGENT_TYPE,
        "name": "Crash test",
        "workspace": {
            "enabled": true,
            "provider": "memory",
            "workspace_policy": "empty",
            "tools": ["ls", "read", "write", "rm"],
        },
    });
    let response = client.post("/api/v1/agent-types", &body)?;
    if response.status != 201 {
        bail!("the agent type was not registered: {response}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_or_refused() {
        let args = |words: &[&str]| parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(args(&["--kills", "7", "--seed", "9"]).unwrap(), (7, 9));
        assert!(args(&["--kills", "many"]).is_err());
        assert!(args(&["--kills"]).is_err());
        assert!(args(&["--rounds", "7"]).is_err());
    }
}
