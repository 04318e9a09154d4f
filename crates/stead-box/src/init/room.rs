//! Room for the next command in a box whose processes are all in use.
//!
//! A command may leave processes running when it ends, such as a development server. When they use up
//! the limit of processes, as a fork bomb does, the next command could not start: then they are ended,
//! and the command is tried again.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};

use super::exec::{Exec, Why};
use super::group_events;
use super::job::{Job, Queued};
use super::serve::Init;
use super::spawn::{Spawned, spawn};
use super::tree::{Tree, everything, strays};
use crate::protocol::{ExecOrder, GuestError, GuestErrorKind};

/// Longest time that init spends on making room for one command. It answers no request meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);
/// More processes than a development server has.
const MANY: u64 = 12;

/// Attempts to make room for one command.
#[derive(Default)]
struct Room {
    /// Set once there was something to end.
    until: Option<Instant>,
}

impl Room {
    /// Ends what is left behind, and says whether to try again.
    fn is_made(&mut self, init: &mut Init) -> bool {
        let now = Instant::now();
        if init.end_left_behind() {
            self.until.get_or_insert(now + PATIENCE);
        }
        if self.until.is_none_or(|until| now > until) {
            return false;
        }
        init.reap();
        std::thread::sleep(PAUSE);
        true
    }
}

impl Init {
    /// Starts a command; if there is no room, ends first what finished commands have left behind.
    pub(super) fn spawn_with_room(&mut self, order: &ExecOrder, tree: &Tree) -> Result<Spawned, GuestError> {
        let mut room = Room::default();
        loop {
            match spawn(order, &self.handles.env, tree) {
                Err(unstarted) if unstarted.kind == GuestErrorKind::ResourceExhausted && room.is_made(self) => {}
                outcome => return outcome,
            }
        }
    }

    /// The same for a file tool.
    pub(super) fn start_job_with_room(&mut self, mut queued: Queued) -> Result<Job, (Queued, io::Error)> {
        let mut room = Room::default();
        loop {
            match Job::start(queued, self.handles.compared.as_ref()) {
                Err((again, error)) if error.kind() == io::ErrorKind::WouldBlock && room.is_made(self) => {
                    queued = again;
                }
                outcome => return outcome,
            }
        }
    }

    /// Ends what finished commands have left behind if that is why the box refused processes since the last command was
    /// started. The new command might find room for itself and none for what it starts, and `bash` tries that again for
    /// fifteen seconds.
    pub(super) fn clear_a_full_box(&mut self) {
        if !self.was_full() {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        while self.end_left_behind() && Instant::now() < deadline {
            self.reap();
            std::thread::sleep(PAUSE);
        }
        self.reap();
    }

    /// The same while commands run, because leftover processes may still be forking when the next
    /// command has started. Ends them only if they outnumber the processes of running commands.
    /// Otherwise the running commands are the cause, and a leftover development server must not be
    /// ended for them. Without `pids.events` this does nothing.
    pub(super) fn clear_for_running_commands(&mut self) {
        if self.handles.events.processes.is_none() || self.refusals() == self.refusals_seen {
            return;
        }
        let running = self.execs.values().filter(|exec| exec.result().is_none());
        let running: u64 = running.map(|exec| exec.tree.count()).sum();
        let left = self.left_behind();
        if running > 0 && left >= MANY && left > running {
            self.refusals_seen = self.refusals();
            self.end_left_behind();
        }
    }

    /// Returns true if many processes were left behind and the kernel refused processes since the
    /// last check. Without `pids.events`, returns true if leftover processes take half of the
    /// limit.
    fn was_full(&mut self) -> bool {
        if self.handles.events.processes.is_none() {
            // The kernel does not count refusals by `RLIMIT_NPROC`.
            let most = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
            return self.left_behind() >= most / 2;
        }
        let refusals = self.refusals();
        let refused = refusals > self.refusals_seen;
        self.refusals_seen = refusals;
        refused && self.left_behind() >= MANY
    }

    /// Number of processes that the kernel has refused the box; 0 without `pids.events`.
    fn refusals(&self) -> u64 {
        group_events::refused_processes(self.handles.events.processes.as_ref())
    }

    /// Number of processes that finished commands have left behind.
    fn left_behind(&self) -> u64 {
        if self.handles.cgroup.is_none() {
            return self.not_of_running_commands().len() as u64;
        }
        let finished = self.execs.values().filter(|exec| exec.result().is_some());
        finished.chain(&self.lingering).map(|exec| exec.tree.count()).sum()
    }

    /// Processes of commands that have finished, which without control groups init may have forgotten.
    fn not_of_running_commands(&self) -> Vec<Pid> {
        let running = self.execs.values().filter(|exec| exec.result().is_none()).filter_map(Exec::child);
        let known: Vec<_> = running.chain(self.jobs.iter().map(|job| job.child)).collect();
        strays(&known)
    }

    /// Ends the processes of commands that have finished. Says whether there were any.
    fn end_left_behind(&mut self) -> bool {
        if self.handles.cgroup.is_none() {
            let left = self.not_of_running_commands();
            if self.jobs.is_empty() && self.execs.values().all(|exec| exec.result().is_some()) {
                // One `kill` for all processes, so that none escapes by forking.
                everything();
            }
            for process in &left {
                let _ = kill_process(*process, Signal::KILL);
            }
            return !left.is_empty();
        }
        let now = Instant::now();
        let finished = self.execs.values_mut().filter(|exec| exec.result().is_some());
        let mut found = false;
        for exec in finished.chain(&mut self.lingering) {
            found |= exec.tree.count() > 0;
            exec.end(Why::Asked, now);
        }
        found
    }
}
