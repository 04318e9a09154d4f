//! `cargo xtask eval-worker`: build the Python worker and put it beside `stead`.
//!
//! It is a workspace of its own, always optimised and built once: one program serves debug and release builds alike. The interpreter
//! declares a newer Rust than it needs, so the declared version is ignored; when the toolchain has moved on, the flag goes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, run as run_command, target};

const MANIFEST: &str = "crates/stead-eval-worker/Cargo.toml";
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

/// A cargo command about the worker's own workspace.
fn worker_cargo(words: &[&str]) -> std::process::Command {
    let mut command = cargo();
    command.args(words).args(["--manifest-path", MANIFEST, "--locked", "--ignore-rust-version", "--target-dir"]);
    command.arg(target_dir());
    command
}

/// Builds it and puts it where debug and release builds of `stead`, and their tests, look for it.
pub(crate) fn ensure() -> Result<()> {
    run_command(&mut worker_cargo(&["build", "--release"]))?;
    let built = target_dir().join("release").join(NAME);
    for profile in ["debug", "release"] {
        let folder = target().join(profile);
        std::fs::create_dir_all(&folder)?;
        place(&built, &folder.join(NAME))?;
    }
    Ok(())
}

/// Under another name first: a running worker is never written over.
fn place(built: &Path, wanted: &Path) -> Result<()> {
    let new = wanted.with_extension("new");
    std::fs::copy(built, &new)
        .and_then(|_| std::fs::rename(&new, wanted))
        .with_context(|| format!("cannot put the worker at {}", wanted.display()))
}

/// The worker's own lints and tests, with the profile it is built with: nothing is compiled twice.
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
