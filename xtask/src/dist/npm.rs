//! The npm packages: `@stead/cli` has the programs, one of them as a command. `@stead/sdk` is the
//! TypeScript SDK.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::archive::{Effort, tar_gz};
use super::programs::{NAMES, Programs};
use super::{VERSION, install};
use crate::process::{command, root, run};
use crate::third_party::sdk_typescript;

pub(super) const FILE: &str = concat!("stead-cli-", env!("CARGO_PKG_VERSION"), ".tgz");

const SDK: &str = concat!("stead-sdk-", env!("CARGO_PKG_VERSION"), ".tgz");

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

/// Compiles and packs the SDK.
pub(super) fn write_sdk(out: &Path, effort: Effort) -> Result<()> {
    let built = sdk_typescript::build()?;
    let stage = tempfile::tempdir_in(out)?;
    let package = stage.path().join("package");
    for file in ["package.json", "README.md", "LICENSE"] {
        install(&built.folder.join(file), &package.join(file), 0o644)?;
    }
    run(command("cp").arg("-R").arg(built.folder.join("dist")).arg(package.join("dist")))?;
    tar_gz(stage.path(), &out.join(SDK), effort)
}
