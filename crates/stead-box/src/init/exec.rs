//! One command, from its start to its result.
//!
//! The result is available when the process has ended, not when its pipes are closed. Init
//! continues to read pipes that other processes hold, for followers, but does not wait for them. A
//! command that is killed, by a deadline or on request, has a result only when none of its
//! processes is left.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::{Errno, read, write};
use rustix::process::{Pid, Signal, WaitStatus, kill_process, kill_process_group};

use super::left;
use super::output::Output;
use super::process_tree::ProcessTree;
use super::spawn::Spawned;
use crate::protocol::{ExecOrder, ExecResult, ExecStatus, Input, Left, Stream};

/// Maximum time to wait for open pipes after the command has ended.
const DRAIN: Duration = Duration::from_millis(50);
/// Interval between two attempts to kill a process tree.
const AGAIN: Duration = Duration::from_millis(5);
/// Time after which init reports the remaining processes as survivors.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Exit code after a timeout, the same as that of `timeout`.
const TIMED_OUT: i32 = 124;
/// Maximum number of bytes to read from one pipe before reading others.
const FAIR_SHARE: usize = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Deadline,
    Asked,
}

enum Phase {
    Running,
    /// The command has ended, but its pipes are still open.
    Draining {
        until: Instant,
    },
    Ending {
        why: Why,
        since: Instant,
        next: Instant,
    },
    /// The result, with the kept output.
    Finished(Box<(ExecResult, Vec<u8>)>),
}

pub(super) struct Exec {
    pub(super) output: Output,
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
    pub(super) report: Option<OwnedFd>,
    pub(super) input: Option<Pending>,
    pub(super) tree: ProcessTree,
    /// Process that init started.
    child: Option<Pid>,
    /// Process of the command, if it differs from `child`.
    command: Option<Pid>,
    pub(super) status: Option<ExitStatus>,
    /// True if the supervisor was killed before it reported the end of the command.
    pub(super) supervisor_killed: bool,
    phase: Phase,
    started: Instant,
    deadline: Option<Instant>,
    memory_kills: u64,
    report_bytes: Vec<u8>,
}

/// Exit status of a process: its exit code, or 128 plus the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExitStatus {
    pub(super) code: i32,
    signal: Option<i32>,
}

impl ExitStatus {
    pub(super) fn of(status: WaitStatus) -> Self {
        let signal = status.terminating_signal();
        Self { code: status.exit_status().unwrap_or(128 + signal.unwrap_or(0)), signal }
    }

    /// Encodes the status as one number. A signal is negative.
    pub(super) fn to_number(self) -> i32 {
        self.signal.map_or(self.code, |signal| -signal)
    }

    fn from_number(number: i32) -> Self {
        if number < 0 {
            Self { code: 128 - number, signal: Some(-number) }
        } else {
            Self { code: number, signal: None }
        }
    }
}

/// Pending standard input of the command.
pub(super) struct Pending {
    pub(super) fd: OwnedFd,
    pub(super) bytes: VecDeque<u8>,
    end: bool,
}

impl Exec {
    pub(super) fn new(
        order: &ExecOrder,
        input: Vec<u8>,
        spawned: Spawned,
        mut tree: ProcessTree,
        memory_kills: u64,
    ) -> Self {
        let started = Instant::now();
        for fd in [Some(&spawned.stdout), spawned.stderr.as_ref(), spawned.stdin.as_ref(), spawned.report.as_ref()] {
            let _ = fd.map(|fd| rustix::io::ioctl_fionbio(fd, true));
        }
        let command = match &mut tree {
            ProcessTree::Group { .. } => Some(spawned.child),
            ProcessTree::Supervised { supervisor, .. } => {
                *supervisor = Some(spawned.child);
                None
            }
        };
        let end = order.input == Input::Bytes && order.terminal.is_none();
        Self {
            output: Output::new(order.output),
            stdout: Some(spawned.stdout),
            stderr: spawned.stderr,
            report: spawned.report,
            input: spawned.stdin.map(|fd| Pending { fd, bytes: input.into(), end }),
            tree,
            child: Some(spawned.child),
            command,
            status: None,
            supervisor_killed: false,
            phase: Phase::Running,
            started,
            deadline: order.timeout_ms.map(|millis| started + Duration::from_millis(millis)),
            memory_kills,
            report_bytes: Vec::new(),
        }
    }

    pub(super) fn result(&self) -> Option<&ExecResult> {
        if let Phase::Finished(finished) = &self.phase { Some(&finished.0) } else { None }
    }

    pub(super) fn kept(&self) -> &[u8] {
        if let Phase::Finished(finished) = &self.phase { &finished.1 } else { &[] }
    }

    pub(super) fn status(&self, exec: &str) -> ExecStatus {
        let (running, exit_code) = (self.result().is_none(), self.result().map(|result| result.exit_code));
        ExecStatus { exec: exec.to_owned(), running, exit_code, chunks: self.output.chunks() }
    }

    /// Returns the time at which to call [`Exec::tick`] next.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running => self.deadline,
            Phase::Draining { until } => Some(until),
            Phase::Ending { next, .. } => Some(next),
            Phase::Finished(_) => None,
        }
    }

    /// Handles the end of a child of init. Returns true if it belongs to this exec.
    pub(super) fn reaped(&mut self, pid: Pid, status: ExitStatus) -> bool {
        if self.child != Some(pid) {
            return false;
        }
        self.child = None;
        self.read_report();
        if let ProcessTree::Supervised { supervisor, .. } = &mut self.tree {
            *supervisor = None;
            // A supervisor exits with 0 when it has no child left. The orphans of one that was
            // killed cannot be identified.
            if status.to_number() != 0 {
                self.supervisor_killed = self.status.is_none();
                super::process_tree::everything();
            }
        }
        self.status = self.status.or(Some(status));
        true
    }

    /// Reads the supervisor's messages: the command's pid, then its exit status.
    pub(super) fn read_report(&mut self) {
        let Some(report) = &self.report else { return };
        let mut bytes = [0; 8];
        match read(report, &mut bytes) {
            Ok(0) | Err(Errno::IO) => self.report = None,
            Ok(count) => self.report_bytes.extend_from_slice(&bytes[..count]),
            Err(_) => {}
        }
        let word = |index: usize| {
            let word = self.report_bytes.get(index * 4..index * 4 + 4)?;
            Some(i32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        };
        self.command = self.command.or_else(|| Pid::from_raw(word(0).filter(|pid| *pid > 0)?));
        self.status = self.status.or_else(|| word(1).map(ExitStatus::from_number));
    }

    pub(super) fn end(&mut self, why: Why, now: Instant) {
        if matches!(self.phase, Phase::Running | Phase::Draining { .. }) {
            self.phase = Phase::Ending { why, since: now, next: now + AGAIN };
        }
        // Also kills processes that a finished exec left behind.
        self.tree.kill();
    }

    pub(super) fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. })
    }

    /// Returns the process of the command, once it is known and until it has ended.
    pub(super) fn command(&self) -> Option<Pid> {
        self.command.filter(|_| self.status.is_none())
    }

    /// Returns the process that init started, until it has ended.
    pub(super) fn child(&self) -> Option<Pid> {
        self.child
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let command = self.command.filter(|_| self.status.is_none()).ok_or(Errno::SRCH)?;
        kill_process_group(command, signal).or_else(|_| kill_process(command, signal))
    }

    /// Reads available output and advances the phase. Returns true if the exec has just finished.
    /// `strays` is the number of processes that may belong to any exec.
    pub(super) fn tick(&mut self, now: Instant, memory_kills: u64, strays: u64) -> bool {
        self.read_report();
        if matches!(self.phase, Phase::Running) {
            if self.status.is_some() {
                self.phase = Phase::Draining { until: now + DRAIN };
            } else if self.deadline.is_some_and(|deadline| now >= deadline) {
                self.end(Why::Deadline, now);
            }
        }
        match self.phase {
            Phase::Draining { until } => {
                self.drain();
                let closed = self.stdout.is_none() && self.stderr.is_none();
                // A process that is just ending must not count as left behind.
                if (closed && self.tree.count() == 0) || now >= until {
                    self.finish(None, 0, memory_kills);
                    return true;
                }
            }
            Phase::Ending { why, since, next } => {
                let left = self.tree.count() + strays;
                if (left == 0 && self.child.is_none()) || now > since + GIVE_UP {
                    self.drain();
                    self.finish(Some(why), left, memory_kills);
                    return true;
                }
                if now >= next {
                    self.tree.kill();
                    self.phase = Phase::Ending { why, since, next: now + AGAIN };
                }
            }
            Phase::Running | Phase::Finished(_) => {}
        }
        false
    }

    fn finish(&mut self, why: Option<Why>, survivors: u64, memory_kills: u64) {
        let ExitStatus { code, signal } = self.status.unwrap_or(ExitStatus::from_number(-libc::SIGKILL));
        let (stdout, stderr, kept) = self.output.take_ends();
        let timed_out = why == Some(Why::Deadline);
        let left = if why.is_none() { left::of(&self.tree.members()) } else { Left::default() };
        self.input = None;
        let result = ExecResult {
            exit_code: if timed_out { TIMED_OUT } else { code },
            signal,
            timed_out,
            killed: why == Some(Why::Asked),
            oom: memory_kills > self.memory_kills,
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            stdout,
            stderr,
            chunks: self.output.chunks(),
            survivors,
            left,
        };
        self.phase = Phase::Finished(Box::new((result, kept)));
    }

    /// Returns true if a process of a finished exec still runs, or a process holds one of its
    /// pipes.
    pub(super) fn lingers(&self, group: Option<&OwnedFd>) -> bool {
        !self.tree.remove(group) || self.stdout.is_some() || self.stderr.is_some()
    }

    pub(super) fn drain(&mut self) {
        self.read_output(Stream::Stdout);
        self.read_output(Stream::Stderr);
    }

    /// Returns true if init should read its pipes now.
    pub(super) fn wants_output(&self) -> bool {
        !self.output.waits() || self.status.is_some()
    }

    /// Reads available output, up to a fair share.
    pub(super) fn read_output(&mut self, stream: Stream) {
        let pipe = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let mut buffer = [0; 64 << 10];
        let mut total = 0;
        while let Some(fd) = pipe.as_ref().filter(|_| total < FAIR_SHARE) {
            match read(fd, &mut buffer) {
                Ok(0) | Err(Errno::IO) => *pipe = None, // EIO: a terminal without users
                Ok(count) => {
                    total += count;
                    self.output.push(stream, &buffer[..count]);
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
    }

    /// Accepts input for the command. Returns the number of accepted bytes.
    pub(super) fn feed(&mut self, bytes: &[u8], end: bool) -> usize {
        const MOST: usize = 1 << 20;
        let Some(input) = &mut self.input else { return 0 };
        let taken = bytes.len().min(MOST.saturating_sub(input.bytes.len()));
        input.bytes.extend(&bytes[..taken]);
        input.end |= end && taken == bytes.len();
        self.write_input();
        taken
    }

    pub(super) fn write_input(&mut self) {
        let Some(input) = &mut self.input else { return };
        while !input.bytes.is_empty() {
            match write(&input.fd, input.bytes.as_slices().0) {
                Ok(count) => drop(input.bytes.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // The command has closed its input.
                Err(_) => {
                    self.input = None;
                    return;
                }
            }
        }
        if input.end {
            self.input = None;
        }
    }
}
