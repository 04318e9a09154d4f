//! A `stead-init` process that builds something, from its start to its report.

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

/// A start takes milliseconds; one that takes this long will not end well.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// What the program is to do.
pub(super) enum Work {
    Launch,
    Tree,
}

pub(super) struct Builder(Child);

impl Builder {
    pub(super) fn spawn(init: &Path, work: Work) -> Result<Self, BoxError> {
        Command::new(init)
            // The box sees this as its first process's name; where the program is on the host is none of its business.
            .arg0("stead-init")
            .arg(match work {
                Work::Launch => "launch",
                Work::Tree => "tree",
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

    pub(super) fn tell(&mut self, order: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(order).map_err(io::Error::other)?;
        line.push(b'\n');
        if let Some(stdin) = &mut self.0.stdin {
            // If it does not read, it ends, and what it says or does not say tells why.
            let _ = stdin.write_all(&line);
        }
        Ok(())
    }

    /// Tells it its order and takes its report; the inner error is what it said instead of one.
    pub(super) fn ask(&mut self, order: &impl Serialize) -> io::Result<Result<Report, String>> {
        self.tell(order)?;
        let said = self.listen();
        Ok(serde_json::from_slice(&said).map_err(|_| String::from_utf8_lossy(&said).chars().take(200).collect()))
    }

    /// The one line, or as much as comes in time.
    fn listen(&mut self) -> Vec<u8> {
        let mut said = Vec::new();
        let Some(stdout) = &mut self.0.stdout else { return said };
        let deadline = Instant::now() + START_TIMEOUT;
        let mut buffer = [0; 4096];
        while !said.ends_with(b"\n") && said.len() < 64 << 10 {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&*stdout, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => break,
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => break,
                Ok(_) => {}
            }
            match stdout.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => said.extend_from_slice(&buffer[..count]),
            }
        }
        said
    }

    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        let _ = self.0.kill();
        self.0.wait()
    }

    /// Lets it end by itself: there is no order for it.
    pub(super) fn dismiss(mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }

    /// One that was killed before it could record the process it had forked leaves it to us: it ends by itself, and is in the helper's process group.
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
