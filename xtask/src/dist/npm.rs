//! The npm package `@stead/cli`: the programs, one of them as a command.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::archive::{Effort, tar_gz};
use super::programs::{NAMES, Programs};
use super::{VERSION, install};
use crate::process::root;

pub(super) const FILE: &str = concat!("stead-cli-", env!("CARGO_PKG_VERSION"), ".tgz");

pub(super) fn write(programs: &Programs, work: &Path, out: &Path, effort: Effort) -> Result<()> {
    let stage = work.join("npm");
    let package = stage.join("package");
    for name in NAMES {
        install(&programs.path(name), &package.join("bin").join(name), 0o755)?;
    }
    install(&root().join("LICENSE"), &package.join("LICENSE"), 0o644)?;
    let about = json!({
        "name": "@stead/cli",
        "version": VERSION,
        "description": "Isolated, governed workspaces for AI agents: the server and its command line",
        "license": "Apache-2.0",
        "os": ["linux"],
        "cpu": ["x64"],
        "libc": ["glibc"],
        "bin": {"stead": "bin/stead"},
        // Package managers must not keep the programs in an archive.
        "preferUnplugged": true,
    });
    std::fs::write(package.join("package.json"), serde_json::to_string_pretty(&about)? + "\n")?;
    tar_gz(&stage, &out.join(FILE), effort)
}
