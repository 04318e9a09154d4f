//! Handles each request.

use std::io;
use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;
use stead_fs::DiskFs;

use super::connection::{Connection, Following, Waiting};
use super::exec::{Exec, Why};
use super::job::{Queued, Work, failed};
use super::ports::{Settled, listening};
use super::serve::Init;
use super::spawn::{SideChannel, resize};
use super::{Door, UpperOn};
use crate::protocol::{AfterRun, Answer, Ask, ExecOrder, FileAsk, GuestErrorKind, Request, VERSION};
use crate::spec::{HOME, WORKSPACE};

/// Maximum number of execs. A new one replaces a finished one.
const MOST_EXECS: usize = 256;
const MOST_NAME: usize = 128;
/// Maximum number of entries that are synced one by one, for a tree on a filesystem of the host.
const SYNCED_ONE_BY_ONE: usize = 512;

impl Init {
    pub(super) fn request(&mut self, index: usize, request: Request, body: Vec<u8>) {
        let Request { id, ask } = request;
        if !self.connections[index].greeted && !matches!(ask, Ask::Hello { .. }) {
            return self.connections[index].close();
        }
        let answer = match ask {
            Ask::Hello { version } => {
                // A server of another version learns this version and decides what to do.
                self.connections[index].greeted = version == VERSION;
                Some(Answer::Hello { version: VERSION })
            }
            Ask::Exec(order) => Some(self.exec(&order, body)),
            Ask::Run { order, then } => match self.exec(&order, body) {
                Answer::Started => {
                    self.connections[index].waiting.push(Waiting { request: id, exec: order.exec, then });
                    None
                }
                refused => Some(refused),
            },
            Ask::Wait { exec } => self.known(&exec, |init| {
                init.connections[index].waiting.push(waiting(id, &exec));
                None
            }),
            Ask::Attach { exec, from } => self.known(&exec, |init| {
                init.connections[index].following.push(Following { request: id, exec: exec.clone(), next: from });
                None
            }),
            Ask::Kill { exec } if self.shells.kill(&exec) => Some(Answer::Done),
            Ask::Kill { exec } => self.known(&exec, |init| {
                init.execs.get_mut(&exec)?.end(Why::Asked, Instant::now());
                init.connections[index].waiting.push(waiting(id, &exec));
                None
            }),
            Ask::Signal { exec, signal } => self.known(&exec, |init| Some(signal_exec(init.execs.get(&exec)?, signal))),
            Ask::Resize { exec, size } => self.known(&exec, |init| {
                let terminal = init.execs.get(&exec)?.stdout.as_ref();
                let resized = terminal.is_some_and(|terminal| resize(terminal, size).is_ok());
                Some(if resized {
                    Answer::Done
                } else {
                    failed(GuestErrorKind::NotATerminal, "the exec has no terminal")
                })
            }),
            Ask::Input { exec, end } => self.known(&exec, |init| {
                let bytes = init.execs.get_mut(&exec)?.feed(&body, end) as u64;
                Some(Answer::Accepted { bytes })
            }),
            Ask::List => {
                let execs = self.execs.iter().map(|(id, exec)| exec.status(id)).collect();
                Some(Answer::Execs { execs, processes: self.processes() })
            }
            Ask::Bind { env } => {
                self.handles.env.extend(env);
                Some(Answer::Done)
            }
            Ask::Carry { at } => Some(match self.connections[index].carry(at, &body) {
                Ok(()) => Answer::Done,
                Err(error) => failed(GuestErrorKind::NoSpace, format!("the box cannot take the file: {error}")),
            }),
            Ask::Fetch { from } => match self.connections[index].fetch(from) {
                Ok(piece) => return self.connections[index].answer(id, Answer::Piece, &piece),
                Err(error) => Some(failed(GuestErrorKind::Io, format!("the box cannot give the file: {error}"))),
            },
            Ask::Shell(order) => {
                let number = self.connections[index].number;
                self.shell(number, id, &order, body)
            }
            Ask::SuspendShells => {
                let (answer, states) = self.suspend_shells();
                return self.connections[index].answer(id, answer, &states);
            }
            Ask::EndShells => Some(self.end_shells()),
            Ask::EndShell { shell } => {
                self.end_shell(&shell);
                Some(Answer::Done)
            }
            Ask::Forget { exec } => self.known(&exec, |init| Some(init.forget(&exec))),
            Ask::Tool(mut call) => match serde_json::from_slice(&body) {
                Ok(arguments) => {
                    call.arguments = arguments;
                    self.queue(index, id, Work::Tool(call))
                }
                Err(_) => return self.connections[index].close(),
            },
            Ask::Files(ask) => return self.files(index, id, ask),
            Ask::Sockets => return self.lend_sockets(index, id),
            Ask::Connect { port } => return self.connect_port(index, id, port),
            Ask::Ports => Some(Answer::Ports { ports: listening::ports() }),
            ask @ (Ask::Rest | Ask::Alone) => self.rest(index, id, &ask),
            Ask::Shutdown => {
                self.shutdown = true;
                None
            }
        };
        if let Some(answer) = answer {
            self.connections[index].answer(id, answer, &[]);
        }
    }

    fn files(&mut self, index: usize, id: u64, ask: Box<FileAsk>) {
        let file = if ask.takes_file() { self.connections[index].take_file() } else { None };
        if ask.takes_file() && file.is_none() {
            return self.connections[index].close();
        }
        if let Some(refused) = self.queue(index, id, Work::Files { ask, file }) {
            self.connections[index].answer(id, refused, &[]);
        }
    }

    fn connect_port(&mut self, index: usize, id: u64, port: u16) {
        let number = self.connections[index].number;
        if let Some(settled) = self.ports.connect(number, id, port) {
            self.connected(settled);
        }
    }

    fn lend_sockets(&mut self, index: usize, id: u64) {
        let connection = &mut self.connections[index];
        match &self.handles.network {
            Some(network) => connection.lend(id, &network.files()),
            None => connection.answer(id, failed(GuestErrorKind::NotFound, "the box has no network"), &[]),
        }
    }

    /// Ends the box, or closes its other connections, if nothing runs in it.
    fn rest(&mut self, index: usize, id: u64, ask: &Ask) -> Option<Answer> {
        if !self.is_idle(index) {
            return Some(failed(GuestErrorKind::Busy, "something runs or is remembered in the box"));
        }
        // The written files are about to become a layer that a snapshot refers to, so they must be
        // on the disk before the server records the snapshot. Nothing else runs, so blocking here
        // delays no other request. If the sync fails, the server copies the files instead, as it
        // does for a busy box.
        if self.sync_workspace().is_err() {
            return Some(failed(GuestErrorKind::Busy, "the box cannot bring its files onto the disk"));
        }
        if matches!(ask, Ask::Rest) {
            self.shutdown = true;
            self.connections[index].answer(id, Answer::Done, &[]);
            self.connections[index].write();
            return None;
        }
        let number = self.connections[index].number;
        self.connections.iter_mut().filter(|other| other.number != number).for_each(Connection::close);
        Some(Answer::Done)
    }

    /// Syncs the agent's files to the disk.
    fn sync_workspace(&self) -> io::Result<()> {
        match &self.handles.compared {
            Some(compared) if self.handles.upper_on == UpperOn::Host => {
                let upper = DiskFs::from_fd(compared.upper.try_clone()?);
                upper.sync_small_tree(SYNCED_ONE_BY_ONE).map_err(io::Error::other)
            }
            _ => sync_volume(),
        }
    }

    /// Returns true if nothing runs in the box and all other connections are quiet.
    fn is_idle(&self, asking: usize) -> bool {
        let number = self.connections[asking].number;
        let alone = self.connections.iter().all(|connection| connection.number == number || connection.is_quiet());
        let quiet = self.execs.is_empty() && self.lingering.is_empty() && self.queue.is_empty() && self.jobs.is_empty();
        alone && quiet && self.ports.is_empty() && self.shells.is_empty() && other_processes() == 0
    }

    /// Answers a request for a connection to a port.
    pub(super) fn connected(&mut self, settled: Settled) {
        let Settled { connection, request, result } = settled;
        let Some(index) = self.connections.iter().position(|other| other.number == connection) else { return };
        match (result, &self.handles.door) {
            (Err(error), _) => self.connections[index].answer(request, Answer::Failed(error), &[]),
            (Ok(socket), Door::Listener(_)) => {
                self.connections[index].answer_with(request, Answer::Connected, &socket);
            }
            (Ok(socket), Door::Dialled(_)) => {
                self.connections[index].answer(request, Answer::Relayed, &[]);
                // The loop that reads this connection goes on with its index, so the connection is
                // replaced at the end of the tick.
                self.relayed.push((connection, socket));
            }
        }
    }

    /// Turns connections into relays.
    pub(super) fn start_relays(&mut self) {
        for (number, socket) in std::mem::take(&mut self.relayed) {
            let Some(index) = self.connections.iter().position(|other| other.number == number) else { continue };
            if let Some(stream) = self.connections.remove(index).into_stream() {
                self.ports.relay(number, stream, socket);
            }
        }
    }

    fn known(&mut self, exec: &str, then: impl FnOnce(&mut Self) -> Option<Answer>) -> Option<Answer> {
        if self.execs.contains_key(exec) {
            then(self)
        } else {
            Some(failed(GuestErrorKind::NoSuchExec, "there is no exec of this id in the box"))
        }
    }

    fn queue(&mut self, index: usize, request: u64, work: Work) -> Option<Answer> {
        self.queue.push_back(Queued { connection: self.connections[index].number, request, work });
        None
    }

    fn exec(&mut self, order: &ExecOrder, input: Vec<u8>) -> Answer {
        if order.exec.is_empty() || order.exec.len() > MOST_NAME {
            return failed(GuestErrorKind::InvalidExec, "an exec's id has 1 to 128 bytes");
        }
        if self.execs.contains_key(&order.exec) {
            return failed(GuestErrorKind::ExecExists, "there is an exec of this id in the box");
        }
        if self.execs.len() >= MOST_EXECS && !self.forget_oldest() {
            return failed(GuestErrorKind::ResourceExhausted, format!("{MOST_EXECS} execs are running"));
        }
        self.clear_a_full_box();
        let tree = match self.new_tree() {
            Ok(tree) => tree,
            Err(refused) => return *refused,
        };
        let before = self.memory_kills();
        match self.spawn_with_room(order, &tree, SideChannel::Without) {
            Ok(spawned) => {
                let mut exec = Exec::new(order, input, spawned, tree, before);
                exec.write_input();
                self.execs.insert(order.exec.clone(), exec);
                Answer::Started
            }
            Err(unstarted) => {
                // The process of a failed start may not have exited yet.
                self.unstarted.push(tree);
                Answer::Failed(unstarted)
            }
        }
    }

    fn forget(&mut self, id: &str) -> Answer {
        let finished = self.execs.get(id).is_some_and(|exec| exec.result().is_some());
        if !finished {
            return failed(GuestErrorKind::ExecRunning, "the exec has not finished");
        }
        if let Some(exec) = self.execs.remove(id)
            && exec.lingers(self.handles.cgroup.as_ref())
        {
            self.lingering.push(exec);
        }
        Answer::Done
    }

    /// Returns the number of processes, without init, its own jobs and shells that wait for a
    /// command.
    fn processes(&self) -> u64 {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok()));
        (pids.count() as u64).saturating_sub(1 + self.jobs.len() as u64 + self.shells.waiting_processes())
    }

    /// Removes the first finished exec in the order of ids. Returns false if none has finished.
    fn forget_oldest(&mut self) -> bool {
        let finished = self.execs.iter().find(|(_, exec)| exec.result().is_some()).map(|(id, _)| id.clone());
        finished.is_some_and(|id| self.forget(&id) == Answer::Done)
    }

    /// Sends output to followers that have room for it, and results to clients that wait for them.
    pub(super) fn notify_waiting(&mut self) {
        let mut forget = Vec::new();
        let execs = &mut self.execs;
        for connection in &mut self.connections {
            for waiting in std::mem::take(&mut connection.waiting) {
                match execs.get(&waiting.exec).map(|exec| (exec, exec.result())) {
                    Some((_, None)) => connection.waiting.push(waiting),
                    Some((exec, Some(result))) => {
                        connection.answer(waiting.request, Answer::Finished(result.clone()), exec.kept());
                        forget.extend(Some(waiting.exec).filter(|_| waiting.then == AfterRun::Forget));
                    }
                    None => connection.answer(
                        waiting.request,
                        failed(GuestErrorKind::NoSuchExec, "the exec was forgotten"),
                        &[],
                    ),
                }
            }
            for mut following in std::mem::take(&mut connection.following) {
                let Some(exec) = execs.get_mut(&following.exec) else {
                    connection.answer(
                        following.request,
                        failed(GuestErrorKind::NoSuchExec, "the exec was forgotten"),
                        &[],
                    );
                    continue;
                };
                while connection.has_room()
                    && let Some((number, stream, bytes)) = exec.output.chunk(following.next)
                {
                    connection.answer(following.request, Answer::Output { stream, number }, bytes);
                    following.next = number + 1;
                }
                exec.output.delivered(following.next);
                let caught_up = following.next >= exec.output.chunks();
                match exec.result().filter(|_| caught_up) {
                    Some(result) => connection.answer(following.request, Answer::Finished(result.clone()), &[]),
                    None => connection.following.push(following),
                }
            }
        }
        for exec in forget {
            self.forget(&exec);
        }
    }
}

fn waiting(request: u64, exec: &str) -> Waiting {
    Waiting { request, exec: exec.to_owned(), then: AfterRun::Keep }
}

/// Syncs the filesystem of the workspace.
///
/// The agent may have made the workspace unreadable. Its other directories are on the same volume,
/// so this tries them too.
fn sync_volume() -> io::Result<()> {
    match [WORKSPACE, "/tmp", HOME].into_iter().find_map(|path| DiskFs::open(Path::new(path)).ok()?.sync_tree().ok()) {
        Some(()) => Ok(()),
        None => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Returns the number of other processes in the box; `usize::MAX` if they cannot be counted.
fn other_processes() -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return usize::MAX };
    let numbered =
        |entry: &std::fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    entries.flatten().filter(numbered).filter(|entry| entry.file_name() != "1").count()
}

fn signal_exec(exec: &Exec, number: i32) -> Answer {
    let Some(signal) = Signal::from_named_raw(number) else {
        return failed(GuestErrorKind::InvalidSignal, format!("{number} is not a signal"));
    };
    match exec.signal(signal) {
        Ok(()) => Answer::Done,
        Err(_) => failed(GuestErrorKind::ExecFinished, "the command has ended"),
    }
}
