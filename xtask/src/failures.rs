//! What failed in a long run of tests, said once more at its end, where people and machines look first.

use std::io::{BufRead as _, BufReader, Read};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process;

/// How much is said again: the end of it, which is the latest.
const MOST_LINES: usize = 600;
/// After the run has ended, for what is still in the pipe; somebody who was left behind may hold its other end.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Runs tests with their output streamed through, and repeats what the failing ones said.
pub(crate) fn run(command: &mut std::process::Command) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the tests")?;
    let (send, lines) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || read(output, &send));
    }
    let mut failures = Failures::default();
    let status = loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => failures.hear(&line),
            Err(mpsc::RecvTimeoutError::Disconnected) => break child.wait()?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    while let Ok(line) = lines.recv_timeout(LAST_LINES) {
                        failures.hear(&line);
                    }
                    break status;
                }
            }
        }
    };
    if !status.success() {
        println!("\nwhat failed, once more:\n{}", failures.text());
    }
    process::check(command, status)
}

/// Prints every line as it comes, and hands it on.
fn read(output: impl Read, send: &mpsc::Sender<String>) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        if send.send(line).is_err() {
            return;
        }
    }
}

/// The parts of a test run's output that are about failures.
#[derive(Default)]
struct Failures {
    lines: Vec<String>,
    within: bool,
}

impl Failures {
    fn hear(&mut self, line: &str) {
        if line == "failures:" {
            self.within = true;
        }
        if self.within {
            self.lines.push(line.to_owned());
        }
        if line.starts_with("test result:") {
            self.within = false;
        }
    }

    fn text(&self) -> String {
        self.lines[self.lines.len().saturating_sub(MOST_LINES)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_failed_is_kept() {
        let mut failures = Failures::default();
        for line in ["test a ... ok", "failures:", "---- b stdout ----", "no", "test result: FAILED.", "test c ... ok"]
        {
            failures.hear(line);
        }
        assert_eq!(failures.text(), "failures:\n---- b stdout ----\nno\ntest result: FAILED.");
    }

    #[test]
    fn a_run_ends_with_its_program_and_not_with_its_pipe() {
        let mut command = process::command("sh");
        run(command.args(["-c", "sleep 20 & exit 3"])).unwrap_err();
    }
}
