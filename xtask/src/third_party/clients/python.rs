//! The Python client, made by openapi-python-client.

use std::path::Path;

use anyhow::{Context, Result};

use super::{DOCUMENT, LIMIT, Operation, Program, copy, expect_all};
use crate::prerequisites::python::CLIENTS;
use crate::process::{command, root, run_within};

const PACKAGE: &str = "stead_client";

/// Generates and type-checks the client, and returns the program that uses it.
pub(super) fn generate(folder: &Path, operations: &[Operation]) -> Result<Program> {
    CLIENTS.ensure()?;
    let interpreter = CLIENTS.program("python");
    let project = folder.join("python");
    std::fs::create_dir_all(&project)?;
    for file in ["use.py", "mypy.ini"] {
        copy(file, &project)?;
    }

    // A module of an earlier run must not hide that the generator left an operation out.
    let client = project.join(PACKAGE);
    if client.exists() {
        std::fs::remove_dir_all(&client)?;
    }
    // The generator formats its output with the ruff on PATH, and warns if there is none.
    let programs = CLIENTS.program("");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path)))
        .context("PATH contains an invalid directory")?;
    run_within(
        command(CLIENTS.program("openapi-python-client"))
            .args(["generate", "--meta", "none", "--fail-on-warning", "--path"])
            .arg(root().join(DOCUMENT))
            .arg("--output-path")
            .arg(&client)
            .env("PATH", path),
        LIMIT,
    )?;
    expect_all("Python", operations, |operation| {
        let file = format!("{PACKAGE}/api/{}/{}.py", operation.tag.replace(['-', ' '], "_"), operation.id);
        project.join(file).is_file()
    })?;
    let python = |args: &[&str]| run_within(command(&interpreter).current_dir(&project).args(args), LIMIT);
    python(&["-m", "compileall", "-q", PACKAGE, "use.py"])?;
    python(&["-m", "mypy", "--no-error-summary", "use.py", PACKAGE])?;

    let mut program = command(interpreter);
    program.current_dir(&project).arg("use.py");
    Ok(Program(program))
}
