//! Runs other programs: from the workspace root, without stdin, and with errors that contain the
//! command line.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Returns the workspace root: the parent directory of this crate.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Returns the directory for installed tools and caches. `cargo clean` removes it.
pub(crate) fn cache() -> PathBuf {
    target().join("xtask")
}

/// Returns a command in the workspace root with an empty stdin, so that no program waits for input.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(set_by_cargo_run) {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns true for variables in which `cargo run` describes *this* crate. Children do not see
/// them. Otherwise build scripts that watch them (such as ring's) would run again whenever a plain
/// `cargo` and a chore alternate.
fn set_by_cargo_run(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"].iter().any(|prefix| name.starts_with(prefix))
        || matches!(name, "CARGO_PRIMARY_PACKAGE" | "OUT_DIR" | "LD_LIBRARY_PATH")
}

/// Runs a program to its end and passes its output through.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", command_line(command)))?;
    check(command, status)
}

/// Like [`run`], but kills the program and fails after `limit`.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<()> {
    let mut child = command.spawn().with_context(|| format!("cannot start {}", command_line(command)))?;
    match wait_within(&mut child, limit)? {
        Some(status) => check(command, status),
        None => {
            child.kill()?;
            child.wait()?;
            bail!("{} took longer than {} s and was killed", command_line(command), limit.as_secs())
        }
    }
}

/// Runs a program to its end and returns its standard output. Passes stderr through.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {}", command_line(command)))?;
    check(command, output.status)?;
    String::from_utf8(output.stdout)
        .with_context(|| format!("{} printed something that is not UTF-8", command_line(command)))
}

/// Returns true if a command exists and succeeds. Discards its output.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    command(program)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub(crate) fn wait_within(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn check(command: &Command, status: ExitStatus) -> Result<()> {
    if status.success() { Ok(()) } else { bail!("{} failed: {status}", command_line(command)) }
}

/// Returns the command line as typed from the workspace root.
fn command_line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.strip_prefix(root()).unwrap_or(program).display().to_string();
    let args = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    format!("`{}`", std::iter::once(program).chain(args).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command_line() {
        let error = run(command("sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert_eq!(error, "`sh -c exit 3` failed: exit status: 3");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let start = Instant::now();
        let error = run_within(command("sleep").arg("60"), Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("took longer"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn children_keep_cargo_settings_but_not_this_crates_description() {
        assert!(set_by_cargo_run("CARGO_PKG_NAME"));
        assert!(set_by_cargo_run("CARGO_MANIFEST_DIR"));
        assert!(!set_by_cargo_run("CARGO_HOME"));
        assert!(!set_by_cargo_run("CARGO_TARGET_DIR"));
        assert!(!set_by_cargo_run("CARGO_BUILD_JOBS"));
    }
}
