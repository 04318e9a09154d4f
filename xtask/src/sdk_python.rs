//! The `sdk-python` step: checks `sdk/python` against real servers.
//!
//! The package starts each server itself, with the debug build of `stead`, as it does for users who
//! have only the package. The tests use the installed package, not its sources.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::prerequisites::python::{COMPAT, Environment, OPENAI_AGENTS, SDK};
use crate::process::{command, root, run_within};
use crate::server;

const FOLDER: &str = "sdk/python";
const GENERATORS: [&str; 2] = ["tools/generate_types.py", "tools/generate_sync.py"];
const LIMIT: Duration = Duration::from_secs(1800);

pub(crate) fn check() -> Result<()> {
    check_generated()?;
    SDK.ensure()?;
    python(&SDK, &["-m", "mypy"])?;
    let interpreter = SDK.program("python");
    run_within(in_folder(&interpreter).args(["-m", "pyright", "--pythonpath"]).arg(&interpreter), LIMIT)?;
    install(&SDK)?;
    tests(&SDK, &[".", "--ignore=integrations", "--ignore=openai_agents"])?;
    COMPAT.ensure()?;
    install(&COMPAT)?;
    tests(&COMPAT, &["integrations"])?;
    OPENAI_AGENTS.ensure()?;
    install(&OPENAI_AGENTS)?;
    tests(&OPENAI_AGENTS, &["openai_agents"])
}

/// Writes the files that are generated from the API document and from the asynchronous client.
pub(crate) fn generate() -> Result<()> {
    GENERATORS.iter().try_for_each(|generator| run_within(in_folder("python3").arg(generator), LIMIT))
}

/// Fails if a generated file is not current.
pub(crate) fn check_generated() -> Result<()> {
    GENERATORS.iter().try_for_each(|generator| run_within(in_folder("python3").args([generator, "--check"]), LIMIT))
}

fn in_folder(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = command(program);
    command.current_dir(root().join(FOLDER)).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn python(environment: &Environment, args: &[&str]) -> Result<()> {
    run_within(in_folder(environment.program("python")).args(args), LIMIT)
}

/// Builds the package and installs it.
fn install(environment: &Environment) -> Result<()> {
    let options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--force-reinstall"];
    run_within(in_folder(environment.program("pip")).arg("install").args(options).arg("."), LIMIT)
}

fn tests(environment: &Environment, args: &[&str]) -> Result<()> {
    let mut pytest = in_folder(environment.program("python"));
    for name in ["STEAD_URL", "STEAD_TOKEN", "STEAD_HOME"] {
        pytest.env_remove(name);
    }
    // In this folder, Python finds the installed package and not its sources.
    pytest.current_dir(root().join(FOLDER).join("tests"));
    pytest.args(["-m", "pytest"]).args(args).env("STEAD_PROGRAM", server::binary()?);
    run_within(&mut pytest, LIMIT)
}
