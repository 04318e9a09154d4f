//! The main loop of process 1.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitOptions, kill_process, wait};

use super::connection::Connection;
use super::exec::{Exec, ExitStatus};
use super::group_events;
use super::job::{Job, Queued, failed};
use super::ports::{Polled, Ports};
use super::process_tree::{ProcessTree, strays};
use super::shells::Shells;
use super::socket_watch::SocketWatch;
use super::{Door, Handles};
use crate::protocol::{GuestErrorKind, Stream};
use crate::sys::signals;

const MOST_CONNECTIONS: usize = 64;
/// Maximum number of concurrent calls. Others wait.
const MOST_JOBS: usize = 8;
/// Maximum size of all ring buffers together. Beyond it init drops the output of ended commands.
const RING_BUDGET: usize = 24 << 20;

pub(super) struct Init {
    pub(super) handles: Handles,
    pub(super) signals: OwnedFd,
    pub(super) connections: Vec<Connection>,
    pub(super) execs: BTreeMap<String, Exec>,
    pub(super) shells: Shells,
    /// Forgotten execs whose processes or pipes remain. Init continues to read their pipes, because
    /// closing them would kill a background server at its next line of output.
    pub(super) lingering: Vec<Exec>,
    /// Control groups of commands that failed to start.
    pub(super) unstarted: Vec<ProcessTree>,
    pub(super) queue: VecDeque<Queued>,
    pub(super) jobs: Vec<Job>,
    pub(super) ports: Ports,
    /// Connections that become relays of a port at the end of the tick.
    pub(super) relayed: Vec<(u64, OwnedFd)>,
    sockets: SocketWatch,
    /// The kernel's count of refused processes at the last check for leftover processes.
    pub(super) refusals_seen: u64,
    /// Next number for connections and control groups. Numbers are never reused.
    pub(super) next_number: u64,
    pub(super) shutdown: bool,
}

/// A source of events.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Listener,
    Children,
    Connection(u64),
    Output(String, Stream),
    Report(String),
    Input(String),
    Lingering(usize, Stream),
    ShellOutput(String, Stream),
    ShellInput(String),
    /// The side channel of a shell or the report of its supervisor, which every tick reads.
    ShellReport,
    Job(u64, u64),
    Port(Polled),
    /// A program in the box asks for its processors.
    Affinity,
}

/// Serves until the box is shut down. When process 1 exits, the kernel kills all other processes of
/// the box.
pub(crate) fn serve(handles: Handles) {
    let Ok(signals) = signals::child_signals() else { return };
    if let Door::Listener(listener) = &handles.door
        && listener.set_nonblocking(true).is_err()
    {
        return;
    }
    let mut init = Init {
        handles,
        signals,
        connections: Vec::new(),
        execs: BTreeMap::new(),
        shells: Shells::default(),
        lingering: Vec::new(),
        unstarted: Vec::new(),
        queue: VecDeque::new(),
        jobs: Vec::new(),
        ports: Ports::default(),
        relayed: Vec::new(),
        sockets: SocketWatch::new(),
        refusals_seen: 0,
        next_number: 0,
        shutdown: false,
    };
    init.dial();
    while !init.shutdown {
        let ready = init.wait();
        for (source, flags) in ready {
            init.handle(&source, flags);
        }
        init.settle();
    }
}

impl Init {
    /// Waits until something is ready or a deadline passes.
    fn wait(&self) -> Vec<(Source, PollFlags)> {
        let mut sources = vec![Source::Children];
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        if let Door::Listener(listener) = &self.handles.door {
            sources.push(Source::Listener);
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        for connection in &self.connections {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, connection.wants_to_read());
            flags.set(PollFlags::OUT, connection.wants_to_write());
            sources.push(Source::Connection(connection.number));
            fds.push(PollFd::new(&connection.stream, flags));
        }
        for (id, exec) in &self.execs {
            let input = exec.input.as_ref().filter(|input| !input.bytes.is_empty());
            let reads = exec.wants_output();
            let ends = [
                (Source::Output(id.clone(), Stream::Stdout), exec.stdout.as_ref().filter(|_| reads), PollFlags::IN),
                (Source::Output(id.clone(), Stream::Stderr), exec.stderr.as_ref().filter(|_| reads), PollFlags::IN),
                (Source::Report(id.clone()), exec.report.as_ref(), PollFlags::IN),
                (Source::Input(id.clone()), input.map(|input| &input.fd), PollFlags::OUT),
            ];
            for (source, fd, flags) in ends {
                if let Some(fd) = fd {
                    sources.push(source);
                    fds.push(PollFd::from_borrowed_fd(fd.as_fd(), flags));
                }
            }
        }
        for (index, exec) in self.lingering.iter().enumerate() {
            for (stream, fd) in [(Stream::Stdout, &exec.stdout), (Stream::Stderr, &exec.stderr)] {
                if let Some(fd) = fd {
                    sources.push(Source::Lingering(index, stream));
                    fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
                }
            }
        }
        for (name, shell) in self.shells.iter() {
            let exec = &shell.exec;
            let input = exec.input.as_ref().filter(|input| !input.bytes.is_empty());
            let ends = [
                (Source::ShellOutput(name.clone(), Stream::Stdout), exec.stdout.as_ref(), PollFlags::IN),
                (Source::ShellOutput(name.clone(), Stream::Stderr), exec.stderr.as_ref(), PollFlags::IN),
                (Source::ShellReport, exec.report.as_ref(), PollFlags::IN),
                (Source::ShellReport, shell.channel.as_ref(), PollFlags::IN),
                (Source::ShellInput(name.clone()), input.map(|input| &input.fd), PollFlags::OUT),
            ];
            for (source, fd, flags) in ends {
                if let Some(fd) = fd {
                    sources.push(source);
                    fds.push(PollFd::from_borrowed_fd(fd.as_fd(), flags));
                }
            }
        }
        for job in &self.jobs {
            sources.push(Source::Job(job.connection, job.request));
            fds.push(PollFd::new(&job.pipe, PollFlags::IN));
        }
        if let Some(affinity) = &self.handles.affinity {
            sources.push(Source::Affinity);
            fds.push(PollFd::from_borrowed_fd(affinity.fd(), PollFlags::IN));
        }
        for (polled, fd) in self.ports.polled() {
            sources.push(Source::Port(polled));
            fds.push(fd);
        }
        let timeout = self.next_deadline().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_micros(200);
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() }
        });
        // Interrupted or out of memory: try again.
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let flags: Vec<_> = fds.iter().map(PollFd::revents).collect();
        sources.into_iter().zip(flags).filter(|(_, flags)| !flags.is_empty()).collect()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let execs = self.execs.values().filter_map(Exec::next_tick);
        let dial = match &self.handles.door {
            Door::Listener(_) => None,
            Door::Dialled(dialler) => dialler.due(self.ready_connections()),
        };
        let sockets = self.may_have_processes().then(|| self.sockets.due());
        let jobs = self.jobs.iter().map(|job| job.deadline);
        execs
            .chain(jobs)
            .chain(dial)
            .chain(self.ports.next_deadline())
            .chain(sockets)
            .chain(self.shells.next_tick())
            .min()
    }

    fn handle(&mut self, source: &Source, flags: PollFlags) {
        match source {
            Source::Listener => self.accept(),
            Source::Children => {
                signals::drain(&self.signals);
                self.reap();
            }
            Source::Connection(number) => self.converse(*number, flags),
            Source::Output(id, stream) => {
                if let Some(exec) = self.execs.get_mut(id) {
                    exec.read_output(*stream);
                }
            }
            Source::Report(id) => {
                if let Some(exec) = self.execs.get_mut(id) {
                    exec.read_report();
                }
            }
            Source::Input(id) => {
                if let Some(exec) = self.execs.get_mut(id) {
                    exec.write_input();
                }
            }
            Source::ShellOutput(name, stream) => {
                if let Some(shell) = self.shells.get_mut(name) {
                    shell.read_output(*stream);
                }
            }
            Source::ShellInput(name) => {
                if let Some(shell) = self.shells.get_mut(name) {
                    shell.exec.write_input();
                }
            }
            Source::ShellReport => {}
            // No entry is removed before all sources are handled, and new ones are appended. So the
            // index is valid.
            Source::Lingering(index, stream) => {
                if let Some(exec) = self.lingering.get_mut(*index) {
                    exec.read_output(*stream);
                }
            }
            Source::Job(connection, request) => self.read_job(*connection, *request),
            Source::Port(polled) => self.ports.copy(*polled, flags),
            Source::Affinity => self.answer_affinity(flags),
        }
    }

    fn answer_affinity(&mut self, flags: PollFlags) {
        if flags.contains(PollFlags::IN)
            && let Some(affinity) = &self.handles.affinity
        {
            affinity.answer_next();
        }
    }

    /// Returns the number of connections without a handshake yet.
    fn ready_connections(&self) -> usize {
        self.connections.iter().filter(|connection| !connection.greeted && !connection.is_closed()).count()
    }

    /// Opens connections to the server, if the server cannot connect.
    fn dial(&mut self) {
        let ready = self.ready_connections();
        let Door::Dialled(dialler) = &mut self.handles.door else { return };
        for stream in dialler.dial(ready, Instant::now()) {
            if let Ok(connection) = Connection::new(self.next_number, stream) {
                self.next_number += 1;
                self.connections.push(connection);
            }
        }
    }

    fn accept(&mut self) {
        let Door::Listener(listener) = &self.handles.door else { return };
        while let Ok((stream, _)) = listener.accept() {
            if self.connections.len() < MOST_CONNECTIONS
                && let Ok(connection) = Connection::new(self.next_number, stream)
            {
                self.next_number += 1;
                self.connections.push(connection);
            }
        }
    }

    fn converse(&mut self, number: u64, flags: PollFlags) {
        let Some(index) = self.connections.iter().position(|connection| connection.number == number) else { return };
        if flags.contains(PollFlags::OUT) {
            self.connections[index].write();
        }
        if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.connections[index].read();
        }
        loop {
            match self.connections[index].next() {
                Ok(Some((request, body))) => self.request(index, request, body),
                Ok(None) => return,
                Err(_) => return self.connections[index].close(),
            }
        }
    }

    pub(super) fn reap(&mut self) {
        // The call fails when there is no child left.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            for exec in self.execs.values_mut().chain(&mut self.lingering).chain(self.shells.execs_mut()) {
                if exec.reaped(pid, ExitStatus::of(status)) {
                    break;
                }
            }
        }
    }

    fn read_job(&mut self, connection: u64, request: u64) {
        let is_it = |job: &Job| job.connection == connection && job.request == request;
        let Some(index) = self.jobs.iter().position(is_it) else { return };
        let Some(result) = self.jobs[index].read() else { return };
        self.jobs.swap_remove(index);
        let Some(connection) = self.connections.iter_mut().find(|other| other.number == connection) else { return };
        match result {
            Ok(frame) => connection.send(&frame),
            Err(answer) => connection.answer(request, answer, &[]),
        }
    }

    /// Handles timeouts and the consequences of the handled events.
    fn settle(&mut self) {
        let now = Instant::now();
        if self.may_have_processes() && self.sockets.look(now) {
            self.clear_for_running_commands();
        }
        let memory_kills = self.memory_kills();
        let strays = self.end_strays();
        let group = self.handles.cgroup.as_ref();
        for exec in self.execs.values_mut() {
            if exec.tick(now, memory_kills, strays) {
                exec.tree.remove(group);
            }
        }
        self.settle_shells(now, memory_kills, strays);
        let group = self.handles.cgroup.as_ref();
        self.lingering.retain(|exec| exec.lingers(group));
        self.unstarted.retain(|tree| !tree.remove(group));
        for job in self.jobs.iter().filter(|job| now >= job.deadline) {
            job.kill();
            if let Some(connection) = self.connections.iter_mut().find(|other| other.number == job.connection) {
                connection.answer(
                    job.request,
                    failed(GuestErrorKind::TimedOut, "the tool took too long and was ended"),
                    &[],
                );
            }
        }
        self.jobs.retain(|job| now < job.deadline);
        self.start_jobs();
        for settled in self.ports.settle(now) {
            self.connected(settled);
        }
        self.start_relays();
        self.notify_waiting();
        self.keep_within_budget();
        self.connections.retain(|connection| !connection.is_closed());
        self.dial();
    }

    /// Number of OOM kills, plus the number of times that init killed the box's processes because
    /// of their sockets.
    pub(super) fn memory_kills(&self) -> u64 {
        group_events::memory_kills(self.handles.events.memory.as_ref()) + self.sockets.kills()
    }

    /// Returns true if processes other than init may run. Without control groups init does not know
    /// which processes commands leave behind.
    fn may_have_processes(&self) -> bool {
        self.handles.cgroup.is_none() || !self.execs.is_empty() || !self.lingering.is_empty() || !self.shells.is_empty()
    }

    /// Kills orphans if an exec is being killed. Without subreapers all orphans become children of
    /// process 1, and their exec is unknown. Returns the number of orphans left.
    fn end_strays(&self) -> u64 {
        let listens = matches!(self.handles.door, Door::Listener(_));
        if listens || !(self.execs.values().any(Exec::is_ending) || self.shells.is_ending()) {
            return 0;
        }
        let execs = self.execs.values().chain(&self.lingering).chain(self.shells.running()).filter_map(Exec::child);
        let known: Vec<_> = execs.chain(self.jobs.iter().map(|job| job.child)).collect();
        let strays = strays(&known);
        for stray in &strays {
            let _ = kill_process(*stray, Signal::KILL);
        }
        strays.len() as u64
    }

    /// Drops the output of ended commands if all ring buffers together exceed the limit.
    fn keep_within_budget(&mut self) {
        let mut bytes: usize = self.execs.values().map(|exec| exec.output.ring_bytes()).sum();
        let ended = self.execs.values_mut().filter(|exec| exec.result().is_some());
        for exec in ended {
            if bytes <= RING_BUDGET {
                return;
            }
            bytes -= exec.output.ring_bytes();
            exec.output.empty_ring();
        }
    }

    fn start_jobs(&mut self) {
        let mut index = 0;
        while index < self.queue.len() && self.jobs.len() < MOST_JOBS {
            let changing = self.jobs.iter().any(|job| job.changes_files);
            if changing && self.queue[index].changes_files() {
                index += 1;
                continue;
            }
            let Some(queued) = self.queue.remove(index) else { return };
            match self.start_job_with_room(queued) {
                Ok(job) => self.jobs.push(job),
                Err((queued, error)) => {
                    let message = format!("the box cannot start another process: {error}");
                    let connection = self.connections.iter_mut().find(|other| other.number == queued.connection);
                    if let Some(connection) = connection {
                        connection.answer(queued.request, failed(GuestErrorKind::ResourceExhausted, message), &[]);
                    }
                }
            }
        }
    }
}
