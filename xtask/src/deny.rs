//! `cargo xtask deny`: the rules of `deny.toml`, checked by cargo-deny itself.
//!
//! It is built once, unoptimised (about a minute; a check takes two seconds either way), under `target/xtask/tools`.
//! Advisories are left out here: their database is cloned from the network on every run.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::process::{cache, cargo, command, output, run as run_command};

const VERSION: &str = "0.20.2";

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask deny");
    }
    check()
}

pub(crate) fn check() -> Result<()> {
    let tool = ensure()?;
    run_command(command(tool).args(["--locked", "check", "bans", "licenses", "sources"]))
}

fn ensure() -> Result<PathBuf> {
    let tools = cache().join("tools");
    let tool = tools.join("bin/cargo-deny");
    if tool.exists() && output(command(&tool).arg("--version"))?.trim() == format!("cargo-deny {VERSION}") {
        return Ok(tool);
    }
    println!("installing cargo-deny {VERSION} (once, about a minute)");
    let build = cache().join("tools-build");
    run_command(
        cargo()
            .args(["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--force", "--root"])
            .arg(&tools)
            .arg("--target-dir")
            .arg(&build)
            .env("CARGO_PROFILE_DEV_DEBUG", "false"),
    )?;
    std::fs::remove_dir_all(build)?;
    Ok(tool)
}
