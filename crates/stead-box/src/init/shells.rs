//! The persistent shells of a box.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::exec::{Exec, Why};
use super::job::failed;
use super::process_tree::ProcessTree;
use super::serve::Init;
use super::shell::{Finished, NewCall, Shell};
use super::shell_report::PROGRAM;
use super::spawn::SideChannel;
use crate::protocol::{Answer, ExecOrder, GuestErrorKind, Input, ShellBegin, ShellOrder, ShellOrigin, ShellState};

/// Maximum number of shells. Sessions that share a box have one each.
const MOST_SHELLS: usize = 16;
const BASH: &str = "/bin/bash";

#[derive(Default)]
pub(super) struct Shells {
    running: BTreeMap<String, Shell>,
    /// States of shells that a timeout ended.
    states: BTreeMap<String, Vec<u8>>,
    /// Ended shells whose processes are being killed, by name.
    ending: Vec<(String, Exec)>,
    /// Calls that restart a shell and wait until the processes of the old one are gone.
    restarting: Vec<Restart>,
}

struct Restart {
    connection: u64,
    request: u64,
    order: ShellOrder,
}

impl Shells {
    /// Returns the commands of all shells.
    pub(super) fn running(&self) -> impl Iterator<Item = &Exec> {
        self.running.values().map(|shell| &shell.exec).chain(self.ending.iter().map(|(_, exec)| exec))
    }

    pub(super) fn execs_mut(&mut self) -> impl Iterator<Item = &mut Exec> {
        let ending = self.ending.iter_mut().map(|(_, exec)| exec);
        self.running.values_mut().map(|shell| &mut shell.exec).chain(ending)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Shell)> {
        self.running.iter()
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Shell> {
        self.running.get_mut(name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.ending.is_empty()
    }

    /// Returns true if a shell's command is being killed.
    pub(super) fn is_ending(&self) -> bool {
        !self.ending.is_empty()
    }

    /// Number of processes that only wait for a command: shells and their supervisors.
    pub(super) fn waiting_processes(&self) -> u64 {
        let waiting = self.running.values().filter(|shell| shell.call.is_none());
        waiting.map(|shell| 1 + u64::from(shell.is_supervised())).sum()
    }

    pub(super) fn next_tick(&self) -> Option<Instant> {
        let running = self.running.values().filter_map(Shell::next_tick);
        running.chain(self.ending.iter().filter_map(|(_, exec)| exec.next_tick())).min()
    }

    /// Kills the command of this call. Returns false if no shell runs it.
    pub(super) fn kill(&mut self, call: &str) -> bool {
        let is_it = |shell: &&mut Shell| shell.call.as_ref().is_some_and(|running| running.name == call);
        let Some(shell) = self.running.values_mut().find(is_it) else { return false };
        shell.end_call(Why::Asked, Instant::now());
        true
    }

    /// Kills every process of a shell and discards its state. Returns its calls, which have no
    /// result, as connection and request.
    fn end(&mut self, name: &str) -> Vec<(u64, u64)> {
        self.states.remove(name);
        let waiting = self.restarting.extract_if(.., |restart| restart.order.shell == name);
        let mut calls: Vec<_> = waiting.map(|restart| (restart.connection, restart.request)).collect();
        if let Some(mut shell) = self.running.remove(name) {
            shell.exec.end(Why::Asked, Instant::now());
            self.ending.push((name.to_owned(), shell.exec));
            calls.extend(shell.call.map(|call| (call.connection, call.request)));
        }
        calls
    }

    /// Returns true if processes of a shell of this name are being killed.
    fn is_ending_one(&self, name: &str) -> bool {
        self.ending.iter().any(|(ending, _)| ending == name)
    }
}

impl Init {
    /// Runs a command in a shell. Returns the refusal; the response comes at the command's end.
    pub(super) fn shell(
        &mut self,
        connection: u64,
        request: u64,
        order: &ShellOrder,
        state: Vec<u8>,
    ) -> Option<Answer> {
        let command = order.command.as_deref().unwrap_or("true");
        if command.contains('\0') {
            return Some(failed(GuestErrorKind::InvalidArgument, "a command cannot contain a NUL"));
        }
        if order.begin == ShellBegin::Restart {
            self.end_shell(&order.shell);
            if self.shells.is_ending_one(&order.shell) {
                let order = ShellOrder { begin: ShellBegin::Continue, ..order.clone() };
                self.shells.restarting.push(Restart { connection, request, order });
                return None;
            }
        }
        let busy = || {
            let message = "the shell still runs another command; restart it to end that command";
            Some(failed(GuestErrorKind::Busy, message))
        };
        if self.shells.restarting.iter().any(|restart| restart.order.shell == order.shell) {
            return busy();
        }
        if self.shells.get_mut(&order.shell).is_some_and(|shell| shell.exec.status.is_some() && shell.call.is_none()) {
            self.retire(&order.shell);
        }
        let mut origin = ShellOrigin::Running;
        let mut script = Vec::new();
        match self.shells.get_mut(&order.shell).map(|shell| shell.call.is_some()) {
            Some(true) => return busy(),
            Some(false) => {}
            None => {
                script = self.shells.states.get(&order.shell).cloned().unwrap_or(state);
                script.retain(|byte| *byte != 0);
                origin = if script.is_empty() { ShellOrigin::New } else { ShellOrigin::Restored };
                if let Err(refused) = self.start_shell(order) {
                    return Some(*refused);
                }
                self.shells.states.remove(&order.shell);
            }
        }
        let memory_kills = self.memory_kills();
        let timeout = Duration::from_millis(order.timeout_ms);
        let (name, limits) = (order.call.clone(), order.output);
        let new = NewCall { connection, request, name, origin, timeout, limits, memory_kills };
        self.shells.get_mut(&order.shell)?.begin(new, &script, command);
        None
    }

    fn start_shell(&mut self, order: &ShellOrder) -> Result<(), Box<Answer>> {
        if self.shells.running.len() >= MOST_SHELLS {
            let message = format!("{MOST_SHELLS} shells are running in the box");
            return Err(Box::new(failed(GuestErrorKind::ResourceExhausted, message)));
        }
        if !std::path::Path::new(BASH).exists() {
            let message = "the image has no /bin/bash, which a persistent shell needs; run single commands instead";
            return Err(Box::new(failed(GuestErrorKind::CannotExecute, message)));
        }
        let exec = ExecOrder {
            exec: order.shell.clone(),
            argv: [BASH, "--norc", "--noprofile", "-c", PROGRAM, "bash"].map(str::to_owned).into(),
            cwd: order.cwd.clone(),
            env: BTreeMap::new(),
            input: Input::Open,
            timeout_ms: None,
            terminal: None,
            output: order.output,
        };
        self.clear_a_full_box();
        let tree = self.new_tree()?;
        let before = self.memory_kills();
        match self.spawn_with_room(&exec, &tree, SideChannel::With) {
            Ok(mut spawned) => {
                let Some(channel) = spawned.side_channel.take() else {
                    return Err(Box::new(failed(GuestErrorKind::Io, "the shell has no side channel")));
                };
                let exec = Exec::new(&exec, Vec::new(), spawned, tree, before);
                self.shells.running.insert(order.shell.clone(), Shell::new(exec, channel));
                Ok(())
            }
            Err(unstarted) => {
                self.unstarted.push(tree);
                Err(Box::new(Answer::Failed(unstarted)))
            }
        }
    }

    /// Makes the place for the processes of a new command.
    pub(super) fn new_tree(&mut self) -> Result<ProcessTree, Box<Answer>> {
        let tree = match &self.handles.cgroup {
            Some(group) => ProcessTree::group(group, self.next_number),
            None => Ok(ProcessTree::Supervised { supervisor: None, rounds: 0 }),
        };
        self.next_number += 1;
        tree.map_err(|error| {
            Box::new(failed(GuestErrorKind::ResourceExhausted, format!("cannot make a control group: {error}")))
        })
    }

    pub(super) fn end_shell(&mut self, name: &str) {
        for (connection, request) in self.shells.end(name) {
            self.answer_call(connection, request, failed(GuestErrorKind::ToolEnded, "the shell was ended"), &[]);
        }
    }

    fn answer_call(&mut self, connection: u64, request: u64, answer: Answer, body: &[u8]) {
        if let Some(connection) = self.connections.iter_mut().find(|other| other.number == connection) {
            connection.answer(request, answer, body);
        }
    }

    pub(super) fn end_shells(&mut self) -> Answer {
        let restarting = self.shells.restarting.iter().map(|restart| &restart.order.shell);
        let names = self.shells.running.keys().chain(self.shells.states.keys()).chain(restarting);
        for name in names.cloned().collect::<Vec<_>>() {
            self.end_shell(&name);
        }
        Answer::Done
    }

    /// Ends all shells and returns their states, if nothing else runs and nothing is lost.
    pub(super) fn suspend_shells(&mut self) -> (Answer, Vec<u8>) {
        let (mut shells, mut body) = (Vec::new(), Vec::new());
        let busy = self.execs.values().any(|exec| exec.result().is_none()) || !self.lingering.is_empty();
        if busy || !self.shells.running.values().all(Shell::is_restorable) {
            return (Answer::ShellStates { shells }, body);
        }
        let mut states = std::mem::take(&mut self.shells.states);
        let names: Vec<String> = self.shells.running.keys().cloned().collect();
        for name in names {
            states
                .extend(self.shells.running.get_mut(&name).and_then(|shell| Some((name.clone(), shell.state.take()?))));
            self.end_shell(&name);
        }
        for (shell, state) in states {
            shells.push(ShellState { shell, bytes: state.len() as u64 });
            body.extend(state);
        }
        (Answer::ShellStates { shells }, body)
    }

    /// Removes a shell that has ended. Its state stays if a timeout ended it.
    fn retire(&mut self, name: &str) {
        let Some(shell) = self.shells.running.remove(name) else { return };
        self.shells.states.extend(shell.state.map(|state| (name.to_owned(), state)));
        if shell.exec.lingers(self.handles.cgroup.as_ref()) {
            self.lingering.push(shell.exec);
        }
    }

    /// Advances all shells and answers their calls.
    pub(super) fn settle_shells(&mut self, now: Instant, memory_kills: u64, strays: u64) {
        let finished: Vec<Finished> =
            self.shells.running.values_mut().filter_map(|shell| shell.tick(now, memory_kills)).collect();
        for Finished { connection, request, result, body } in finished {
            self.answer_call(connection, request, Answer::Shell(Box::new(result)), &body);
        }
        let ended = self.shells.running.iter().filter(|(_, shell)| shell.call.is_none() && shell.exec.status.is_some());
        for name in ended.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.retire(&name);
        }
        let group = self.handles.cgroup.as_ref();
        for (name, mut exec) in std::mem::take(&mut self.shells.ending) {
            if !exec.tick(now, memory_kills, strays) {
                self.shells.ending.push((name, exec));
            } else if exec.lingers(group) {
                self.lingering.push(exec);
            }
        }
        let (waiting, ready) = std::mem::take(&mut self.shells.restarting)
            .into_iter()
            .partition(|restart| self.shells.is_ending_one(&restart.order.shell));
        self.shells.restarting = waiting;
        for Restart { connection, request, order } in ready {
            if let Some(refused) = self.shell(connection, request, &order, Vec::new()) {
                self.answer_call(connection, request, refused, &[]);
            }
        }
    }
}
