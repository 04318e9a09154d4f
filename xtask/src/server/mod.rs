//! A real `stead serve` as a child process, on a free loopback port. It is stopped or killed by its
//! process id.

pub(crate) mod home_processes;
pub(crate) mod http;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::{command, target, wait_within};
use http::Client;

const START_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The build of `stead` to run. Checks use the debug build, and measurements the release build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Debug,
    Release,
}

/// Returns the debug binary that the `build` step (or `cargo build`) made.
pub(crate) fn binary() -> Result<PathBuf> {
    binary_of(Build::Debug)
}

fn binary_of(build: Build) -> Result<PathBuf> {
    let (folder, make) = match build {
        Build::Debug => ("debug", "cargo xtask test --only build"),
        Build::Release => ("release", "cargo build --release -p stead -p stead-box"),
    };
    let path = target().join(folder).join("stead");
    if !path.exists() {
        bail!("{} is missing; build it with `{make}`", path.display());
    }
    Ok(path)
}

/// Returns a `stead` command with this home and no other setting from the caller's environment.
pub(crate) fn stead(home: &Path) -> Result<Command> {
    stead_of(Build::Debug, home)
}

fn stead_of(build: Build, home: &Path) -> Result<Command> {
    let mut stead = command(binary_of(build)?);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("STEAD_") || name.starts_with("WORKSPACE_")) {
            stead.env_remove(name);
        }
    }
    stead.env("STEAD_HOME", home);
    Ok(stead)
}

pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    home: PathBuf,
    log: PathBuf,
    started: Instant,
}

impl Server {
    /// Starts the process and returns at once. Its output goes to `log`, one file per start.
    pub(crate) fn start(home: &Path, log: &Path) -> Result<Self> {
        Self::start_build(Build::Debug, "memory", home, log)
    }

    fn start_build(build: Build, provider: &str, home: &Path, log: &Path) -> Result<Self> {
        let address = free_address()?;
        let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let child = stead_of(build, home)?
            .args(["serve", "--listen", &address.to_string()])
            // Higher than any chore needs, because they test crashes and inputs, not the capacity
            // limit.
            .env("WORKSPACE_MAX_CONCURRENT", "1000")
            .env("WORKSPACE_DEFAULT_PROVIDER", provider)
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start `stead serve`")?;
        Ok(Self { child, address, home: home.to_owned(), log: log.to_owned(), started: Instant::now() })
    }

    /// Starts a server with a home below `folder` and waits until it is ready. `settings` is its
    /// `stead.toml`.
    pub(crate) fn ready_in(folder: &Path, settings: &str) -> Result<Self> {
        Self::ready_build_in(Build::Debug, folder, settings)
    }

    /// Like [`Server::ready_in`], but sessions get a native box unless their agent type says
    /// otherwise.
    pub(crate) fn ready_with_boxes_in(folder: &Path) -> Result<Self> {
        Self::ready_provider_in(Build::Debug, "native", folder, "")
    }

    /// Like [`Server::ready_in`], with the given build.
    pub(crate) fn ready_build_in(build: Build, folder: &Path, settings: &str) -> Result<Self> {
        Self::ready_provider_in(build, "memory", folder, settings)
    }

    fn ready_provider_in(build: Build, provider: &str, folder: &Path, settings: &str) -> Result<Self> {
        let home = folder.join("home");
        std::fs::create_dir(&home)?;
        if !settings.is_empty() {
            std::fs::write(home.join("stead.toml"), settings)?;
        }
        let mut server = Self::start_build(build, provider, &home, &folder.join("server.log"))?;
        server.wait_ready()?;
        Ok(server)
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the admin token that the first start wrote.
    pub(crate) fn token(&self) -> Result<String> {
        self.client()?.token.context("the server has no token")
    }

    /// Waits for `/readyz` and returns how long the start took.
    pub(crate) fn wait_ready(&mut self) -> Result<Duration> {
        let probe = Client { address: self.address, token: None };
        loop {
            if probe.get("/readyz").is_ok_and(|response| response.status == 200) {
                return Ok(self.started.elapsed());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("`stead serve` ended while starting: {status}\n{}", self.log_tail());
            }
            if self.started.elapsed() > START_LIMIT {
                bail!("`stead serve` is not ready after {} s\n{}", START_LIMIT.as_secs(), self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a client with the admin token that the first start wrote.
    pub(crate) fn client(&self) -> Result<Client> {
        let file = self.home.join("token");
        let token = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(Client { address: self.address, token: Some(token.trim().to_owned()) })
    }

    /// Sends SIGKILL. Fails if the server has exited by itself before.
    pub(crate) fn kill(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("`stead serve` ended by itself: {status}\n{}", self.log_tail());
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM and waits for a clean exit within the limit.
    pub(crate) fn stop(mut self) -> Result<Duration> {
        let start = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        match wait_within(&mut self.child, STOP_LIMIT)? {
            Some(status) if status.success() => Ok(start.elapsed()),
            Some(status) if status.signal() == Some(Signal::TERM.as_raw()) => {
                bail!("`stead serve` died of SIGTERM instead of ending in order\n{}", self.log_tail())
            }
            Some(status) => bail!("`stead serve` ended badly after SIGTERM: {status}\n{}", self.log_tail()),
            None => {
                bail!("`stead serve` still runs {} s after SIGTERM\n{}", STOP_LIMIT.as_secs(), self.log_tail())
            }
        }
    }

    /// Returns the end of the server's log, for error messages.
    pub(crate) fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(30)..];
        format!("--- the server's last lines ---\n{}", tail.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Kills a server that still runs, because a failed check must not leave one behind. Errors
        // mean that it is gone.
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
