//! `cargo xtask eval-worker`: builds the Python worker and copies it next to `stead`.
//!
//! It is a separate workspace, always built in release mode, and debug and release builds use the
//! same program. The interpreter declares a newer Rust version than it needs, so the build ignores
//! the declared version. Remove the flag after the toolchain has been updated.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, run as run_command, target};

pub(crate) const MANIFEST: &str = "crates/stead-eval-worker/Cargo.toml";
const NAME: &str = "stead-eval-worker";

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("usage: cargo xtask eval-worker");
    }
    ensure()
}

fn target_dir() -> PathBuf {
    target().join("eval-worker")
}

/// Returns a cargo command for the worker's workspace.
fn worker_cargo(words: &[&str]) -> std::process::Command {
    let mut command = cargo();
    command.args(words).args(["--manifest-path", MANIFEST, "--locked", "--ignore-rust-version", "--target-dir"]);
    command.arg(target_dir());
    command
}

/// Builds the worker and copies it to where debug and release builds of `stead`, and their tests,
/// look for it.
pub(crate) fn ensure() -> Result<()> {
    run_command(&mut worker_cargo(&["build", "--release"]))?;
    let built = target_dir().join("release").join(NAME);
    for profile in ["debug", "release"] {
        let folder = target().join(profile);
        std::fs::create_dir_all(&folder)?;
        install(&built, &folder.join(NAME))?;
    }
    Ok(())
}

/// Copies under a temporary name first, so that a running worker is never overwritten.
fn install(built: &Path, wanted: &Path) -> Result<()> {
    let new = wanted.with_extension("new");
    std::fs::copy(built, &new)
        .and_then(|_| std::fs::rename(&new, wanted))
        .with_context(|| format!("cannot put the worker at {}", wanted.display()))
}

/// Runs the worker's lints with the profile of its build, so that nothing is compiled twice.
pub(crate) fn clippy() -> Result<()> {
    let mut command = worker_cargo(&["clippy", "--release", "--all-targets"]);
    run_command(command.args(["--", "-D", "warnings"]))
}

pub(crate) fn test() -> Result<()> {
    run_command(&mut worker_cargo(&["test", "--release"]))
}

pub(crate) fn fmt() -> Result<()> {
    run_command(cargo().args(["fmt", "--check", "--manifest-path", MANIFEST]))
}
