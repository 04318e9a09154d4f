//! Tools from the crate registry. Each is built once, in debug mode, at a fixed version, under
//! `target/xtask/tools`.

use std::path::PathBuf;

use anyhow::Result;

use crate::process::{cache, cargo, command, output, run as run_command};

/// Returns the program of a crate with the same name. Installs it if necessary.
pub(crate) fn installed(name: &str, version: &str) -> Result<PathBuf> {
    let tools = cache().join("tools");
    let tool = tools.join("bin").join(name);
    if tool.exists() && output(command(&tool).arg("--version"))?.trim() == format!("{name} {version}") {
        return Ok(tool);
    }
    println!("installing {name} {version} (once, about a minute)");
    let build = cache().join("tools-build");
    run_command(
        cargo()
            .args(["install", name, "--version", version, "--locked", "--debug", "--force", "--root"])
            .arg(&tools)
            .arg("--target-dir")
            .arg(&build)
            .env("CARGO_PROFILE_DEV_DEBUG", "false"),
    )?;
    std::fs::remove_dir_all(build)?;
    Ok(tool)
}
