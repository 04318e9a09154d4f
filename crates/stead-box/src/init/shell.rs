//! One persistent shell: a long-lived `bash`, and the command that it runs now.
//!
//! A command that does not end in time is killed together with its shell. `bash` cannot abandon a
//! command line from outside: if only its child is killed, it goes on with the next command. The
//! next call then starts a shell with the state of before the command. Processes that earlier
//! commands left running survive this.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::{Errno, read};
use rustix::process::{Pid, Signal, kill_process};

use super::exec::{Exec, Why};
use super::left;
use super::output::Output;
use super::shell_report::{Report, Reports};
use crate::protocol::{OutputLimits, ShellOrigin, ShellResult, Stream};

/// Interval between two attempts to kill the processes of a command.
const AGAIN: Duration = Duration::from_millis(5);
/// Number of attempts after which every process of the shell is killed.
const ROUNDS: u32 = 40;
/// Time after which init gives up on processes that do not end.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Maximum time to wait for a background job to become the program that it runs.
const STARTS_WITHIN: Duration = Duration::from_millis(100);
/// Maximum number of bytes to read from a side channel before reading other files.
const FAIR_SHARE: usize = 256 << 10;
const TIMED_OUT: i32 = 124;
/// Exit code of a command that was killed on request: 128 plus the signal.
const KILLED: i32 = 137;
/// Description of a job that is a part of the shell itself. Its command line is init's program.
const SUBSHELL: &str = "bash (subshell)";

/// A running shell.
pub(super) struct Shell {
    pub(super) exec: Exec,
    pub(super) channel: Option<OwnedFd>,
    reports: Reports,
    /// Number of descriptors that the shell has open by itself.
    own_descriptors: Option<u64>,
    descriptors: Option<u64>,
    pub(super) call: Option<Call>,
    /// Script that restores the state after the last command.
    pub(super) state: Option<Vec<u8>>,
}

/// The command that a shell runs now.
pub(super) struct Call {
    pub(super) connection: u64,
    pub(super) request: u64,
    pub(super) name: String,
    pub(super) origin: ShellOrigin,
    pub(super) deadline: Instant,
    /// Text that only the shell of this call knows. Its report contains it.
    nonce: String,
    /// The report of the command, and the time at which init sends the result at the latest.
    reported: Option<(Report, Instant)>,
    started: Instant,
    limits: OutputLimits,
    /// Processes that earlier commands left running.
    before: Vec<Process>,
    memory_kills: u64,
    ending: Option<Ending>,
}

#[derive(Clone, Copy)]
struct Ending {
    why: Why,
    since: Instant,
    next: Instant,
    rounds: u32,
    /// True if the last look found no process.
    gone: bool,
}

/// A process and its start time, because the kernel reuses pids.
type Process = (Pid, Option<u64>);

/// A finished call: the response, and to whom.
pub(super) struct Finished {
    pub(super) connection: u64,
    pub(super) request: u64,
    pub(super) result: ShellResult,
    pub(super) body: Vec<u8>,
}

/// Identity of a new call.
pub(super) struct NewCall {
    pub(super) connection: u64,
    pub(super) request: u64,
    pub(super) name: String,
    pub(super) origin: ShellOrigin,
    pub(super) timeout: Duration,
    pub(super) limits: OutputLimits,
    pub(super) memory_kills: u64,
}

impl Shell {
    pub(super) fn new(exec: Exec, channel: OwnedFd) -> Self {
        let _ = rustix::io::ioctl_fionbio(&channel, true);
        Self {
            exec,
            channel: Some(channel),
            reports: Reports::default(),
            own_descriptors: None,
            descriptors: None,
            call: None,
            state: None,
        }
    }

    /// Sends a command to the shell, with a script to run before.
    pub(super) fn begin(&mut self, new: NewCall, state: &[u8], command: &str) {
        let NewCall { connection, request, name, origin, timeout, limits, memory_kills } = new;
        let started = Instant::now();
        let nonce = nonce();
        self.exec.feed(&[state, b"\0", command.as_bytes(), b"\0", nonce.as_bytes(), b"\0"].concat(), false);
        if origin == ShellOrigin::Restored {
            // The state of before the command, if the command does not end by itself.
            self.state = Some(state.to_vec());
        }
        self.call = Some(Call {
            connection,
            request,
            name,
            origin,
            deadline: started + timeout,
            nonce,
            reported: None,
            started,
            limits,
            // A shell that was started for this call has no earlier processes. Its own pid may
            // not be known yet.
            before: if origin == ShellOrigin::Running { self.others() } else { Vec::new() },
            memory_kills,
            ending: None,
        });
    }

    /// Starts to kill the running command.
    pub(super) fn end_call(&mut self, why: Why, now: Instant) {
        if let Some(call) = self.call.as_mut().filter(|call| call.ending.is_none()) {
            call.ending = Some(Ending { why, since: now, next: now, rounds: 0, gone: false });
        }
    }

    /// Returns the time at which to call [`Shell::tick`] next.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        let call = self.call.as_ref()?;
        let again = call.reported.as_ref().map(|_| Instant::now() + AGAIN);
        Some(call.ending.map(|ending| ending.next).or(again).unwrap_or(call.deadline))
    }

    /// Returns the processes of the shell without the shell itself.
    fn others(&self) -> Vec<Process> {
        let own = self.exec.command();
        let members = self.exec.tree.members();
        members.into_iter().filter(|pid| Some(*pid) != own).map(|pid| (pid, started_at(pid))).collect()
    }

    /// Returns true if the shell only waits for a command, and a successor with its state would be
    /// the same to its user.
    pub(super) fn is_restorable(&self) -> bool {
        let plain = self.own_descriptors.is_some() && self.own_descriptors == self.descriptors;
        self.call.is_none() && plain && self.state.is_some() && self.others().is_empty()
    }

    pub(super) fn is_supervised(&self) -> bool {
        matches!(self.exec.tree, super::process_tree::ProcessTree::Supervised { .. })
    }

    /// Reads the side channel and the output, and advances the call. Returns the call's result if
    /// it has ended.
    pub(super) fn tick(&mut self, now: Instant, memory_kills: u64) -> Option<Finished> {
        self.exec.read_report();
        let reported = self.read_channel();
        let call = self.call.as_mut()?;
        call.reported = reported.map(|report| (report, now + STARTS_WITHIN)).or(call.reported.take());
        let ending = call.ending;
        if ending.is_none()
            && let Some((report, until)) = call.reported.take()
        {
            if now < until && self.is_starting_processes() {
                self.call.as_mut()?.reported = Some((report, until));
                return None;
            }
            self.exec.drain();
            self.state = report.state;
            return self.finish(memory_kills, report.exit_code, report.cwd);
        }
        if ending.is_none() && self.exec.status.is_some() {
            self.exec.drain();
            // The state of before the command stays if the shell did not end by itself.
            self.state = self.state.take().filter(|_| self.exec.supervisor_killed);
            let code = self.exec.status.map(|status| status.code);
            return self.finish(memory_kills, code, None);
        }
        if self.call.as_ref().is_some_and(|call| now >= call.deadline) {
            self.end_call(Why::Deadline, now);
        }
        self.kill_command(now, memory_kills)
    }

    /// Returns true if the processes of the command cannot be told yet: the supervisor has not
    /// reported the shell's own pid, or a job that the shell forked has not executed its program.
    /// A job that is a subshell looks the same.
    fn is_starting_processes(&self) -> bool {
        if self.exec.status.is_some() {
            return false;
        }
        let (Some(own), Some(call)) = (self.exec.command(), &self.call) else { return true };
        let own = left::command_line(own);
        self.others().iter().any(|process| !call.before.contains(process) && left::command_line(process.0) == own)
    }

    /// Kills the shell and the processes of its command. Returns the result when they are gone.
    fn kill_command(&mut self, now: Instant, memory_kills: u64) -> Option<Finished> {
        let call = self.call.as_ref()?;
        let mut ending = call.ending?;
        let new = |process: &Process| !call.before.contains(process);
        let left: Vec<Pid> = self.others().into_iter().filter(new).map(|(pid, _)| pid).collect();
        // One look at `/proc` can miss the child of a process that exits meanwhile, two cannot.
        let gone = self.exec.status.is_some() && left.is_empty();
        if (gone && ending.gone) || now > ending.since + GIVE_UP {
            self.exec.drain();
            let code = if ending.why == Why::Deadline { TIMED_OUT } else { KILLED };
            return self.finish(memory_kills, Some(code), None);
        }
        if now >= ending.next {
            if call.before.is_empty() || ending.rounds >= ROUNDS {
                // The kernel kills them under one lock, so none escapes by forking.
                self.exec.tree.kill();
            } else {
                for pid in self.exec.command().into_iter().chain(left) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            ending = Ending { next: now + AGAIN, rounds: ending.rounds + 1, gone, ..ending };
            if let Some(call) = &mut self.call {
                call.ending = Some(ending);
            }
        }
        None
    }

    fn finish(&mut self, memory_kills: u64, exit_code: Option<i32>, cwd: Option<String>) -> Option<Finished> {
        let call = self.call.take()?;
        let mut left = left::of(&self.others().into_iter().map(|(pid, _)| pid).collect::<Vec<_>>());
        let own = self.exec.command().map(left::command_line);
        for process in left.processes.iter_mut().filter(|process| Some(&process.command) == own.as_ref()) {
            SUBSHELL.clone_into(&mut process.command);
        }
        let (stdout, stderr, body) = self.exec.output.take_ends();
        self.exec.output = Output::new(call.limits);
        let why = call.ending.map(|ending| ending.why);
        let result = ShellResult {
            origin: call.origin,
            exit_code: exit_code.unwrap_or(1),
            timed_out: why == Some(Why::Deadline),
            killed: why == Some(Why::Asked),
            oom: memory_kills > call.memory_kills,
            ended: self.exec.status.is_some(),
            state_kept: self.state.is_some() || self.exec.status.is_none(),
            cwd,
            duration_ms: u64::try_from(call.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            stdout,
            stderr,
            left,
        };
        Some(Finished { connection: call.connection, request: call.request, result, body })
    }

    /// Reads the side channel, up to a fair share. Returns the report of the running command.
    fn read_channel(&mut self) -> Option<Report> {
        let mut buffer = [0; 16 << 10];
        let (mut found, mut total) = (None, 0);
        let nonce = self.call.as_ref().map(|call| call.nonce.as_str());
        while let Some(channel) = self.channel.as_ref().filter(|_| total < FAIR_SHARE) {
            let count = match read(channel, &mut buffer) {
                Ok(0) => {
                    self.channel = None;
                    break;
                }
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            total += count;
            for report in self.reports.push(&buffer[..count], nonce) {
                match report.exit_code {
                    None => self.own_descriptors = report.descriptors,
                    Some(_) => {
                        self.descriptors = report.descriptors;
                        found = Some(report);
                    }
                }
            }
        }
        found
    }

    pub(super) fn read_output(&mut self, stream: Stream) {
        self.exec.read_output(stream);
    }
}

/// Returns a text that other processes cannot guess.
fn nonce() -> String {
    let mut bytes = [0; 16];
    // 16 bytes are never cut short. Without random bytes the nonce is still a frame of the report.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the start time of a process, in ticks since the boot.
fn started_at(pid: Pid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Field 22 of the file; the fields after the name begin with number 3.
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(19)?.parse().ok()
}
