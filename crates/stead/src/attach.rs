//! Attaches this terminal, or these pipes, to a command: forwards its output, our input and our
//! signals.

mod raw_terminal;

use std::io::{IsTerminal as _, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::de::IgnoredAny;
use serde_json::json;
use stead_api::Exec;
use stead_api::exec::{ExecFailure, ExecRequest, Input, Pty, ResizeRequest};
use stead_api::request::Whole;
use stead_core::env::Env;
use stead_core::exec::{ExecFailureCode, ExecStatus, FullBuffer};

use crate::client::{Client, ExecNews, exec_path, follow_exec, segment, stdin_body};
use crate::failure::Failure;
use crate::output::{self, Channel};
pub(crate) use raw_terminal::RawTerminal;

/// Ctrl-]: detaches from the command.
const DETACH: u8 = 0x1d;
/// Number of interrupts after which the command is killed.
const PATIENCE: u32 = 3;

/// Connection of the command. In terminal mode this terminal is put into raw mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pipes,
    Terminal,
}

/// Result of an attached command.
pub(crate) enum Ended {
    /// The command ended; the exec as the server reports it.
    Finished(Box<Exec>),
    /// The command keeps running without us.
    Detached,
}

/// Destination of the command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Live,
    /// Discard the output.
    Nothing,
}

/// Starts a command and attaches to it until it ends.
pub(crate) fn run(
    client: Arc<Client>,
    session: &str,
    argv: &[String],
    mode: Mode,
    show: Show,
) -> Result<Ended, Failure> {
    let mut body = ExecRequest {
        background: true,
        unread: FullBuffer::Wait,
        stdin: Input::Open(has_input(Mode::Pipes)),
        ..ExecRequest::argv(argv.to_owned())
    };
    if mode == Mode::Terminal {
        body.pty = Pty::Sized(terminal_size());
        let mut env = Env::default();
        env.set("TERM", std::env::var("TERM").unwrap_or_else(|_| "xterm".to_owned()));
        body.env = Some(env);
    }
    let key = uuid::Uuid::now_v7().to_string();
    let path = format!("/sessions/{}/execs", segment(session));
    let started: Exec = client.create(&path, &body, &key, std::time::Duration::ZERO)?;
    stay(client, session, &started.id.to_string(), mode, show)
}

/// Attaches to a command that already runs on a terminal, and resizes it to this one.
pub(crate) fn come_back(client: Arc<Client>, session: &str, exec: &str) -> Result<Ended, Failure> {
    client.post::<IgnoredAny>(&format!("{}/resize", exec_path(session, exec)), &terminal_size())?;
    stay(client, session, exec, Mode::Terminal, Show::Live)
}

fn terminal_size() -> ResizeRequest {
    let (rows, columns) = raw_terminal::size();
    ResizeRequest { rows: Whole(rows.into()), columns: Whole(columns.into()) }
}

/// Attaches to a running command.
fn stay(client: Arc<Client>, session: &str, exec: &str, mode: Mode, show: Show) -> Result<Ended, Failure> {
    let path = exec_path(session, exec);
    let detached = Arc::new(AtomicBool::new(false));
    let _raw = if mode == Mode::Terminal { RawTerminal::take()? } else { None };
    signals(client.clone(), path.clone(), mode)?;
    if has_input(mode) {
        let back = format!("stead shell {session} --attach {exec}");
        feed(client.clone(), path, mode, detached.clone(), back);
    }
    let mut finished = None;
    let followed = follow_exec(&client, session, exec, |news| {
        if detached.load(Ordering::Relaxed) {
            return Err(Failure::new("detached"));
        }
        match news {
            ExecNews::Finished(exec) => finished = Some(exec),
            _ if show == Show::Nothing => {}
            ExecNews::Stdout(bytes) => output::raw(Channel::Out, &bytes)?,
            ExecNews::Stderr(bytes) => output::raw(Channel::Error, &bytes)?,
            ExecNews::Missed(chunks) => {
                let text = format!("\r\n[stead: {chunks} chunks of output were lost]\r\n");
                output::raw(Channel::Error, text.as_bytes())?;
            }
        }
        Ok(())
    });
    match followed {
        _ if detached.load(Ordering::Relaxed) => Ok(Ended::Detached),
        Ok(()) => {
            finished.map(Ended::Finished).ok_or_else(|| Failure::new("the exit status of the command is unknown"))
        }
        Err(failure) => Err(failure),
    }
}

/// Returns true if standard input is forwarded. `/dev/null` has nothing to forward, and an open
/// input would cost a connection and a request to close it.
fn has_input(mode: Mode) -> bool {
    let stdin = std::io::stdin();
    let is_null = || {
        let null = rustix::fs::makedev(1, 3);
        rustix::fs::fstat(&stdin).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device() && stat.st_rdev == null
        })
    };
    mode == Mode::Terminal || !(stdin.is_terminal() || is_null())
}

/// Converts the result of a command to an exit of this program.
pub(crate) fn exit(exec: &Exec) -> Result<(), Failure> {
    match (exec.status, exec.exit_code) {
        (ExecStatus::Finished, Some(0)) => Ok(()),
        (ExecStatus::Finished, Some(code)) => Err(Failure::exit(u8::try_from(code).unwrap_or(1))),
        (status, _) => Err(without_exit_code(status, exec.error.as_ref())),
    }
}

/// The failure of a command that did not start, or whose end the server does not know.
fn without_exit_code(status: ExecStatus, error: Option<&ExecFailure>) -> Failure {
    let why = error.map_or("its end is not known", |error| &error.message);
    let failure = match status {
        ExecStatus::Failed => Failure::new(format!("the command could not be started: {why}")),
        _ => Failure::new(format!("the command was interrupted: {why}")),
    };
    let code = error.map(|error| error.code);
    let failure = match code {
        Some(code) => failure.coded(code.as_str(), None),
        None => failure,
    };
    // A command that cannot be started ends with 127, as in a shell. A full box is not the
    // command's fault, so it does not.
    let started = status != ExecStatus::Failed || code == Some(ExecFailureCode::ResourceExhausted);
    if started { failure } else { failure.not_started() }
}

/// Forwards standard input to the command, including its end.
fn feed(client: Arc<Client>, path: String, mode: Mode, detached: Arc<AtomicBool>, back: String) {
    std::thread::spawn(move || {
        let mut buffer = [0; 32 << 10];
        let mut stdin = std::io::stdin().lock();
        loop {
            let count = match stdin.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let typed = &buffer[..count];
            if mode == Mode::Terminal && typed.contains(&DETACH) {
                detached.store(true, Ordering::Relaxed);
                // The next output wakes the reader. A WINCH signal without a size change causes
                // some.
                let _ = client.post::<IgnoredAny>(&format!("{path}/signal"), &json!({"signal": "WINCH"}));
                raw_terminal::restore();
                let message = format!("\r\ndetached; the command goes on. To come back: {back}\r\n");
                output::raw(Channel::Error, message.as_bytes()).ok();
                #[expect(
                    clippy::exit,
                    reason = "the reader waits for output that may never come; the terminal is restored"
                )]
                std::process::exit(0);
            }
            if client.post::<IgnoredAny>(&format!("{path}/stdin"), &stdin_body(typed)).is_err() {
                return;
            }
        }
        if mode == Mode::Pipes {
            let _ = client.post::<IgnoredAny>(&format!("{path}/stdin"), &json!({"close": true}));
        }
    });
}

/// Forwards interrupts and terminal resizes.
fn signals(client: Arc<Client>, path: String, mode: Mode) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error: std::io::Error| Failure::new("cannot wait for signals").because(&error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (mut interrupt, mut terminate, mut window) = {
        let _context = runtime.enter();
        let kind = |kind| signal(kind).map_err(failed);
        (kind(SignalKind::interrupt())?, kind(SignalKind::terminate())?, kind(SignalKind::window_change())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            let mut interrupts = 0;
            loop {
                let (what, body) = tokio::select! {
                    _ = interrupt.recv() => {
                        interrupts += 1;
                        ("signal", json!({"signal": if interrupts < PATIENCE { "INT" } else { "KILL" }}))
                    }
                    _ = terminate.recv() => ("signal", json!({"signal": "TERM"})),
                    _ = window.recv() => ("resize", json!(terminal_size())),
                };
                if what == "resize" && mode == Mode::Pipes {
                    continue;
                }
                // If this fails, the command has ended meanwhile, and the reader learns it from the
                // stream.
                if interrupts >= PATIENCE && what == "signal" {
                    let _ = client.delete::<IgnoredAny>(&path);
                } else {
                    let _ = client.post::<IgnoredAny>(&format!("{path}/{what}"), &body);
                }
            }
        });
    });
    Ok(())
}
