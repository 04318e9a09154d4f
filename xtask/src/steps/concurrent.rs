//! Steps that run one after another beside a long step, each in a process of its own.
//!
//! The long step waits much of its time, and two cores are few. The output of a step is printed in
//! one piece when the step has ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::{Failure, Outcome, Step, clock};

/// Runs steps until the first failure.
pub(super) fn run(chore: &str, steps: &[Step]) -> (Vec<Outcome>, Option<Failure>) {
    let mut failure = None;
    let mut rows = Vec::new();
    for step in steps {
        if failure.is_some() {
            rows.push(Outcome::NotReached);
            continue;
        }
        let start = Instant::now();
        let result = run_step(chore, step);
        let took = start.elapsed();
        match result {
            Ok(()) => rows.push(Outcome::Passed(took)),
            Err(error) => {
                println!("beside: {}: FAILED after {}: {error:#}", step.name, clock(took));
                rows.push(Outcome::Failed(took));
                failure = Some((step.name, error));
            }
        }
    }
    (rows, failure)
}

fn run_step(chore: &str, step: &Step) -> Result<()> {
    let mut output = tempfile::tempfile().context("cannot make a file for the output")?;
    let mut command = Command::new(this_program()?);
    command.args([chore, "--only", step.name]).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    let status = command.status().with_context(|| format!("cannot start the step '{}'", step.name))?;
    print(&mut output)?;
    if !status.success() {
        bail!("{status}; its output is above");
    }
    Ok(())
}

/// Returns the path of this program. A build may have replaced its file, which the system then
/// calls deleted.
fn this_program() -> Result<OsString> {
    let path = std::env::current_exe()?.into_os_string().into_vec();
    Ok(OsString::from_vec(path.strip_suffix(b" (deleted)").unwrap_or(&path).to_vec()))
}

fn print(output: &mut File) -> Result<()> {
    let mut bytes = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut bytes)?;
    Ok(std::io::stdout().lock().write_all(&bytes)?)
}
