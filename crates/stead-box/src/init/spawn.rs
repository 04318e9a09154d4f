//! Starts commands.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::process_tree::{Member, ProcessTree};
use super::supervise;
use crate::build;
use crate::protocol::{ExecOrder, GuestError, GuestErrorKind, Input, TerminalSize};
use crate::spec::{HOME, WORKSPACE};
use crate::sys::clone::{self, Side};
use crate::sys::signals;

/// Default environment of commands. The box and the order can override it.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", HOME),
    ("USER", "agent"),
    ("LOGNAME", "agent"),
    ("SHELL", "/bin/bash"),
    ("LANG", "C.UTF-8"),
    ("TMPDIR", "/tmp"),
    ("PWD", WORKSPACE),
];

/// A started command, and init's ends of its files.
pub(super) struct Spawned {
    /// The command itself, or its supervisor.
    pub(super) child: Pid,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: Option<OwnedFd>,
    pub(super) stdin: Option<OwnedFd>,
    /// Pipe on which a supervisor reports about the command.
    pub(super) report: Option<OwnedFd>,
    /// Pipe that the command has as descriptor [`SIDE_CHANNEL`].
    pub(super) side_channel: Option<OwnedFd>,
}

/// Number of the command's end of a side channel. It is above all numbers that programs usually
/// open.
pub(super) const SIDE_CHANNEL: i32 = 199;

/// Tells whether a command has a pipe to init in addition to its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideChannel {
    Without,
    With,
}

/// The command's ends of its files.
struct Files {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    side_channel: Option<OwnedFd>,
    terminal: bool,
}

pub(super) fn spawn(
    order: &ExecOrder,
    base: &BTreeMap<String, String>,
    tree: &ProcessTree,
    side_channel: SideChannel,
) -> Result<Spawned, GuestError> {
    let directory = open_cwd(&order.cwd)?;
    let exhausted = |error: io::Error| {
        GuestError::new(GuestErrorKind::ResourceExhausted, format!("cannot start a process: {error}"))
    };
    let (ours, mut theirs) = files(order).map_err(exhausted)?;
    let side_channel = match side_channel {
        SideChannel::Without => None,
        SideChannel::With => {
            let (reader, writer) = io::pipe().map_err(exhausted)?;
            theirs.side_channel = Some(writer.into());
            Some(reader.into())
        }
    };
    let (mut failure, fail) = io::pipe().map_err(exhausted)?;
    let supervised = match tree {
        ProcessTree::Supervised { .. } => Some(io::pipe().map_err(exhausted)?),
        ProcessTree::Group { .. } => None,
    };
    let mut environment: BTreeMap<&str, &str> = ENVIRONMENT.iter().copied().collect();
    environment.insert("PWD", &order.cwd);
    environment.extend(base.iter().chain(&order.env).map(|(name, value)| (name.as_str(), value.as_str())));
    let (report, report_writer) =
        supervised.map_or((None, None), |(report, report_writer)| (Some(report), Some(report_writer)));
    let (side, member) = tree.fork().map_err(exhausted)?;
    let command = || become_command(order, &environment, &directory, &theirs, (tree, member), &fail);
    let child = match side {
        Side::Parent(pid) => pid,
        Side::Child => match report_writer {
            None => clone::leave(command()),
            Some(report_writer) => supervise::run(report_writer.into(), command),
        },
    };
    drop((theirs, fail, report_writer));
    // A successful exec closes the pipe. A failed one writes the reason, and its process exits and
    // is reaped like any other.
    let mut reason = String::new();
    let _ = failure.by_ref().take(4096).read_to_string(&mut reason);
    if !reason.is_empty() {
        return Err(GuestError::new(GuestErrorKind::CannotExecute, reason));
    }
    Ok(Spawned { child, report: report.map(Into::into), side_channel, ..ours(child) })
}

/// Returns `/bin/sh` instead of `/bin/bash` if the image has no bash.
fn shell_that_is_there(program: &str) -> &str {
    let without_bash = program == "/bin/bash" && !std::path::Path::new(program).exists();
    if without_bash { "/bin/sh" } else { program }
}

/// Opens the working directory. It follows ordinary links, but not magic links such as those in
/// `/proc/self/fd`.
fn open_cwd(path: &str) -> Result<OwnedFd, GuestError> {
    let refused = |why: &str| GuestError::new(GuestErrorKind::InvalidCwd, format!("cannot work in {path:?}: {why}"));
    if !path.starts_with('/') {
        return Err(refused("it is not an absolute path"));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        // gVisor has no `openat2`. Init has no directory open that a magic link could lead to.
        Err(Errno::NOSYS) => openat(CWD, path, flags, Mode::empty()),
        opened => opened,
    };
    opened.map_err(|error| refused(&error.to_string()))
}

type Ours = Box<dyn FnOnce(Pid) -> Spawned>;

fn files(order: &ExecOrder) -> io::Result<(Ours, Files)> {
    if let Some(size) = order.terminal {
        return terminal(size);
    }
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    let (stdin, their_stdin) = match order.input {
        Input::Nothing => (None, OwnedFd::from(std::fs::File::open("/dev/null")?)),
        Input::Bytes | Input::Open => {
            let (theirs, ours) = io::pipe()?;
            (Some(OwnedFd::from(ours)), theirs.into())
        }
    };
    let ours = move |child| {
        let (stdout, stderr) = (stdout.into(), Some(stderr.into()));
        Spawned { child, stdout, stderr, stdin, report: None, side_channel: None }
    };
    let (stdout, stderr) = (their_stdout.into(), their_stderr.into());
    let theirs = Files { stdin: their_stdin, stdout, stderr, side_channel: None, terminal: false };
    Ok((Box::new(ours), theirs))
}

/// Opens a pseudo-terminal in the box's own devpts.
fn terminal(size: TerminalSize) -> io::Result<(Ours, Files)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    unlockpt(&master)?;
    resize(&master, size)?;
    let slave = match ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC) {
        // gVisor can only open the other end by its name.
        Err(Errno::NOTTY) => {
            let name = ptsname(&master, Vec::new())?;
            openat(CWD, name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?
        }
        opened => opened?,
    };
    let (stdin, again) = (slave.try_clone()?, slave.try_clone()?);
    let writer = master.try_clone()?;
    let ours = move |child| {
        let (stdin, side_channel) = (Some(writer), None);
        Spawned { child, stdout: master, stderr: None, stdin, report: None, side_channel }
    };
    Ok((Box::new(ours), Files { stdin, stdout: slave, stderr: again, side_channel: None, terminal: true }))
}

pub(super) fn resize(terminal: impl AsFd, size: TerminalSize) -> io::Result<()> {
    Ok(tcsetwinsize(terminal, Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 })?)
}

/// In the child: executes the command. On failure it reports the reason and returns the exit code.
fn become_command(
    order: &ExecOrder,
    environment: &BTreeMap<&str, &str>,
    directory: &OwnedFd,
    files: &Files,
    (tree, member): (&ProcessTree, Member),
    mut fail: &io::PipeWriter,
) -> i32 {
    let prepared = || -> io::Result<()> {
        member.join(tree)?;
        build::close_child()?;
        signals::new_session()?;
        // Resets the priority, because init may have a higher one.
        let _ = rustix::process::setpriority_process(None, 0);
        rustix::stdio::dup2_stdin(&files.stdin)?;
        rustix::stdio::dup2_stdout(&files.stdout)?;
        rustix::stdio::dup2_stderr(&files.stderr)?;
        if files.terminal {
            rustix::process::ioctl_tiocsctty(&files.stdin)?;
        }
        if let Some(side_channel) = &files.side_channel {
            signals::inherit_as(side_channel, SIDE_CHANNEL)?;
        }
        rustix::process::fchdir(directory)?;
        signals::reset();
        Ok(())
    };
    let Some((program, arguments)) = order.argv.split_first() else {
        let _ = write!(fail, "there is no program to run");
        return NOT_FOUND;
    };
    let program = shell_that_is_there(program);
    if let Err(error) = prepared() {
        let _ = write!(fail, "cannot run {program:?}: {error}");
        return NOT_EXECUTABLE;
    }
    let error = Command::new(program).args(arguments).env_clear().envs(environment).exec();
    match exit_code(&error) {
        // The command has started and ends like one that a shell could not find: with a message on
        // its standard error.
        Some(code) => {
            let _ = writeln!(io::stderr(), "cannot run {program:?}: {error}");
            code
        }
        None => {
            let _ = write!(fail, "cannot run {program:?}: {error}");
            NOT_EXECUTABLE
        }
    }
}

/// Exit codes for a program that cannot be executed, the same as those of a shell.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Returns the exit code for an error of `execve`. `None` if the box lacks a resource, which is not
/// the command's fault.
fn exit_code(error: &io::Error) -> Option<i32> {
    match error.raw_os_error()? {
        libc::ENOENT => Some(NOT_FOUND),
        libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE => None,
        _ => Some(NOT_EXECUTABLE),
    }
}
