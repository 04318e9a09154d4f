//! Repeats the failures of a long test run at its end.

use std::io::{BufRead as _, BufReader, Read};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::process;

/// Maximum number of lines to repeat. The last ones are kept.
const MOST_LINES: usize = 600;
/// Time to wait for remaining output after the run has ended. An orphaned process may still hold
/// the pipe.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Runs tests, passes their output through, and repeats the output of failed tests.
pub(crate) fn run(command: &mut std::process::Command) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the tests")?;
    let (send, lines) = mpsc::channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || read(output, &send));
    }
    let mut report = FailureReport::default();
    let status = loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => report.read_line(&line),
            Err(mpsc::RecvTimeoutError::Disconnected) => break child.wait()?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    while let Ok(line) = lines.recv_timeout(LAST_LINES) {
                        report.read_line(&line);
                    }
                    break status;
                }
            }
        }
    };
    if !status.success() {
        println!("\nwhat failed, once more:\n{}", report.text());
    }
    process::check(command, status)
}

/// Prints every line and sends it to the channel.
fn read(output: impl Read, send: &mpsc::Sender<String>) {
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        println!("{line}");
        if send.send(line).is_err() {
            return;
        }
    }
}

/// The parts of the output that belong to report.
#[derive(Default)]
struct FailureReport {
    lines: Vec<String>,
    within: bool,
}

impl FailureReport {
    fn read_line(&mut self, line: &str) {
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
        let mut report = FailureReport::default();
        for line in ["test a ... ok", "failures:", "---- b stdout ----", "no", "test result: FAILED.", "test c ... ok"]
        {
            report.read_line(line);
        }
        assert_eq!(report.text(), "failures:\n---- b stdout ----\nno\ntest result: FAILED.");
    }

    #[test]
    fn a_run_ends_with_its_program_and_not_with_its_pipe() {
        let mut command = process::command("sh");
        run(command.args(["-c", "sleep 20 & exit 3"])).unwrap_err();
    }
}
