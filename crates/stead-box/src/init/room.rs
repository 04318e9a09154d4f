//! Makes room for the next command in a box that has reached its process limit.
//!
//! A command may leave processes running when it ends, such as a development server. If they
//! exhaust the process limit, as a fork bomb does, the next command cannot start. Then init kills
//! them and tries again.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};

use super::exec::{Exec, Why};
use super::group_events;
use super::job::{Job, Queued};
use super::process_tree::{ProcessTree, everything, strays};
use super::serve::Init;
use super::spawn::{SideChannel, Spawned, spawn};
use crate::protocol::{ExecOrder, GuestError, GuestErrorKind};

/// Maximum time that init spends on making room for one command. It handles no request meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);
/// More processes than a typical development server has.
const MANY: u64 = 12;

/// Attempts to make room for one command.
#[derive(Default)]
struct Room {
    /// Set after the first process was killed.
    until: Option<Instant>,
}

impl Room {
    /// Kills leftover processes. Returns true if the caller should try again.
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
    /// Starts a command. If there is no room, it first kills processes that finished commands left
    /// behind.
    pub(super) fn spawn_with_room(
        &mut self,
        order: &ExecOrder,
        tree: &ProcessTree,
        side_channel: SideChannel,
    ) -> Result<Spawned, GuestError> {
        let mut room = Room::default();
        loop {
            match spawn(order, &self.handles.env, tree, side_channel) {
                Err(unstarted) if unstarted.kind == GuestErrorKind::ResourceExhausted && room.is_made(self) => {}
                outcome => return outcome,
            }
        }
    }

    /// Does the same for a file tool.
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

    /// Kills processes that finished commands left behind, if they are the reason why the box
    /// refused processes since the last start. Otherwise the new command might start but fail to
    /// start children, and `bash` retries that for fifteen seconds.
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

    /// Does the same while commands run, because leftover processes may still be forking when the
    /// next command has started. It kills them only if they outnumber the processes of running
    /// commands. Otherwise the running commands are the cause, and a leftover development server
    /// must survive. Without `pids.events` this does nothing.
    pub(super) fn clear_for_running_commands(&mut self) {
        if self.handles.events.processes.is_none() || self.refusals() == self.refusals_seen {
            return;
        }
        let running = self.execs.values().filter(|exec| exec.result().is_none()).chain(self.shells.running());
        let running: u64 = running.map(|exec| exec.tree.count()).sum();
        let left = self.left_behind();
        if running > 0 && left >= MANY && left > running {
            self.refusals_seen = self.refusals();
            self.end_left_behind();
        }
    }

    /// Returns true if there are many leftover processes and the kernel refused processes since the
    /// last check. Without `pids.events`, returns true if leftover processes take half of the
    /// limit.
    fn was_full(&mut self) -> bool {
        if self.handles.events.processes.is_none() {
            // The kernel does not count failures because of `RLIMIT_NPROC`.
            let most = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
            return self.left_behind() >= most / 2;
        }
        let refusals = self.refusals();
        let refused = refusals > self.refusals_seen;
        self.refusals_seen = refusals;
        refused && self.left_behind() >= MANY
    }

    /// Number of forks that the kernel has refused in this box; 0 without `pids.events`.
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

    /// Returns processes that belong to no running command. Without control groups init may have
    /// lost track of them.
    fn not_of_running_commands(&self) -> Vec<Pid> {
        let running = self.execs.values().filter(|exec| exec.result().is_none()).chain(self.shells.running());
        let running = running.filter_map(Exec::child);
        let known: Vec<_> = running.chain(self.jobs.iter().map(|job| job.child)).collect();
        strays(&known)
    }

    /// Kills the processes of finished commands. Returns true if there were any.
    fn end_left_behind(&mut self) -> bool {
        if self.handles.cgroup.is_none() {
            let left = self.not_of_running_commands();
            let idle = self.execs.values().all(|exec| exec.result().is_some()) && self.shells.is_empty();
            if self.jobs.is_empty() && idle {
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
