//! `cargo xtask deny`: checks the rules of `deny.toml` with cargo-deny.
//!
//! It does not check advisories, because their database is cloned from the network on every run.

use anyhow::{Result, bail};

use crate::prerequisites::cargo_tools::installed;
use crate::process::{command, run as run_command};

const VERSION: &str = "0.20.2";

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask deny");
    }
    check()
}

pub(crate) fn check() -> Result<()> {
    let tool = installed("cargo-deny", VERSION)?;
    // The Python worker is a separate workspace.
    for manifest in ["Cargo.toml", "crates/stead-eval-worker/Cargo.toml"] {
        let files = ["--manifest-path", manifest, "--config", "deny.toml"];
        run_command(command(&tool).args(files).args(["--locked", "check", "bans", "licenses", "sources"]))?;
    }
    Ok(())
}
