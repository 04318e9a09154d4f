//! A `stead-init` process that builds a box or its files, from its start to its report.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, waitpgid};
use serde::Serialize;

use crate::build::Report;
use crate::error::BoxError;

/// Timeout of a build, which normally takes milliseconds.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which a wait for a report checks for a cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Subcommand of the builder.
pub(super) enum Work {
    Launch,
    Tree,
    Hash,
    Diff,
}

pub(super) struct Builder(Child);

impl Builder {
    pub(super) fn spawn(init: &Path, work: Work) -> Result<Self, BoxError> {
        Command::new(init)
            // The box sees this as the name of process 1. It must not reveal the program's path on
            // the host.
            .arg0("stead-init")
            .arg(match work {
                Work::Launch => "launch",
                Work::Tree => "tree",
                Work::Hash => "hash",
                Work::Diff => "diff",
            })
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .map_err(|source| BoxError::NoInit { program: init.to_owned(), source })
    }

    pub(super) fn send(&mut self, order: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(order).map_err(io::Error::other)?;
        line.push(b'\n');
        if let Some(stdin) = &mut self.0.stdin {
            // If the builder does not read, it exits, and its report or its absence gives the
            // reason.
            let _ = stdin.write_all(&line);
        }
        Ok(())
    }

    /// Sends an order and reads the report. The inner error is the output if it is not a report.
    pub(super) fn request(&mut self, order: &impl Serialize) -> io::Result<Result<Report, String>> {
        self.send(order)?;
        let report = self.read_report();
        Ok(serde_json::from_slice(&report).map_err(|_| String::from_utf8_lossy(&report).chars().take(200).collect()))
    }

    /// Reads one line, or the part of it that arrives before the timeout.
    fn read_report(&mut self) -> Vec<u8> {
        self.read_line(START_TIMEOUT, &|| false)
    }

    /// Reads one line, or the part of it that arrives before the timeout and before `cancelled`
    /// returns true.
    pub(super) fn read_line(&mut self, timeout: Duration, cancelled: &dyn Fn() -> bool) -> Vec<u8> {
        self.read_line_within(64 << 10, timeout, cancelled)
    }

    /// Like [`Builder::read_line`], with another limit on the length of the line.
    pub(super) fn read_line_within(
        &mut self,
        most_bytes: usize,
        timeout: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Vec<u8> {
        let mut report = Vec::new();
        let Some(stdout) = &mut self.0.stdout else { return report };
        let deadline = Instant::now() + timeout;
        let mut buffer = [0; 16 << 10];
        while !report.ends_with(b"\n") && report.len() < most_bytes {
            let left = deadline.saturating_duration_since(Instant::now());
            let pause = left.min(CANCEL_CHECK);
            let pause = Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: pause.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&*stdout, PollFlags::IN)], Some(&pause)) {
                Ok(0) if left.is_zero() || cancelled() => break,
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Err(_) => break,
                Ok(_) => {}
            }
            match stdout.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => report.extend_from_slice(&buffer[..count]),
            }
        }
        report
    }

    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        let _ = self.0.kill();
        self.0.wait()
    }

    /// Closes the input, so that the builder exits because there is no order.
    pub(super) fn dismiss(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }

    /// Reaps the child of a builder that was killed before it could record the child. The child
    /// exits by itself, and is in the builder's process group.
    pub(super) fn reap_orphan(&self) {
        let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) else { return };
        for _ in 0..100 {
            match waitpgid(group, WaitOptions::NOHANG) {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }
}
