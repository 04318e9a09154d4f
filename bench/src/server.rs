//! The server under test: the release binary with a new home.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::http::Caller;

pub(crate) struct Server {
    child: Child,
    end: End,
    home: tempfile::TempDir,
    pub(crate) url: String,
    pub(crate) token: String,
}

/// The treatment of the sessions at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// They are closed, because boxes outlive a server by design.
    Close,
    /// The server is killed. For sessions in its memory only.
    Kill,
}

/// Returns the release binary next to this one.
fn binary() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("stead");
    if !path.exists() {
        bail!("{} is not built; run `cargo xtask bench`", path.display());
    }
    Ok(path)
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(env: &[(&str, &str)]) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let child = Command::new(binary()?)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("STEAD_HOME", home.path())
            .env("STEAD_LOG", "warn")
            .env("WORKSPACE_MAX_CONCURRENT", "100000")
            .env("WORKSPACE_DEFAULT_PROVIDER", "memory")
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start stead serve")?;
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let record = std::fs::read_to_string(home.path().join("server.json")).unwrap_or_default();
            let token = std::fs::read_to_string(home.path().join("token")).unwrap_or_default();
            if let Some(url) =
                serde_json::from_str::<Value>(&record).ok().and_then(|record| Some(record["url"].as_str()?.to_owned()))
            {
                let url = url.trim_end_matches('/').to_owned();
                return Ok(Self { child, end: End::Close, home, url, token: token.trim().to_owned() });
            }
            if Instant::now() > deadline {
                bail!("the server is not up after 20 s");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Server {
    pub(crate) fn ended_by(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// Closes all sessions, because boxes outlive a server by design.
    fn close_all(&self) -> Result<()> {
        let caller = Caller::new(&self.url, &self.token);
        for status in ["provisioning", "active", "closing"] {
            loop {
                let page = caller.json("GET", &format!("/api/v1/sessions?limit=500&status={status}"), None)?;
                let sessions = page["items"].as_array().context("no list of sessions")?;
                for session in sessions {
                    let id = session["id"].as_str().context("a session without an id")?;
                    caller.json("DELETE", &format!("/api/v1/sessions/{id}"), None)?;
                }
                if page["next_cursor"].is_null() {
                    break;
                }
            }
        }
        let stopped = Command::new(binary()?)
            .args(["--json", "stop"])
            .env("STEAD_HOME", self.home.path())
            .stdout(Stdio::null())
            .status()?;
        ensure!(stopped.success(), "stead stop: {stopped}");
        Ok(())
    }
}

impl Drop for Server {
    #[expect(clippy::print_stderr, reason = "the user must learn about boxes that remain on the host")]
    fn drop(&mut self) {
        if self.end == End::Close
            && let Err(error) = self.close_all()
        {
            eprintln!(
                "cannot close all sessions of the server in {}, so boxes may remain on this host: {error:#}",
                self.home.path().display()
            );
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
