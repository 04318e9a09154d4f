//! The persistent shells of a box, one for each session.
//!
//! A checkpoint may stop the box. Before that, the box ends its idle shells and hands over their
//! states, and the next call starts a shell with the state. The states are only in memory, because
//! they can contain secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_api::tool::result::{CommandResult, ShellOrigin, ShellReport};
use stead_box::BoxError;
use stead_box::protocol::{
    self, Answer, Ask, FullBuffer, GuestError, GuestErrorKind, OutputLimits, ProtocolError, ShellOrder,
};
use stead_core::config::CallLimits;
use stead_core::plan::WORKSPACE_ROOT;
use stead_core::{CallId, SessionId};
use stead_fs::budget::json_size;

use super::arguments::{Language, ShellCall};
use super::command::{PATIENCE, brief, captured, left_notice, left_running, rerun_hint};
use super::mux_client::{Alone, MuxClient};
use super::reply::{answered, broken, failed};
use crate::contract::workspace::{Captured, ToolDone};

/// Maximum size of the states of all shells.
const MOST_BYTES: usize = 4 << 20;

/// Script that restores a shell.
type State = Arc<[u8]>;

/// States of shells that were ended together with their box.
#[derive(Default)]
pub(super) struct Shells(Mutex<BTreeMap<String, State>>);

fn name(session: SessionId) -> String {
    format!("shell_{session}")
}

impl Shells {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, State>) -> T) -> T {
        // Each use is one insert, remove or clear, so a panic cannot leave the map inconsistent.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the idle shells of the box and keeps their states. Shells that would lose something
    /// continue to run.
    pub(super) async fn suspend(&self, alone: &Alone<'_>) {
        let Ok((Answer::ShellStates { shells }, body)) = alone.ask(Ask::SuspendShells).await else { return };
        let mut rest = body.as_slice();
        for state in shells {
            let length = usize::try_from(state.bytes).unwrap_or(usize::MAX).min(rest.len());
            let (bytes, more) = rest.split_at(length);
            rest = more;
            self.with(|states| {
                let kept: usize = states.values().map(|state| state.len()).sum();
                if kept + bytes.len() <= MOST_BYTES {
                    states.insert(state.shell, bytes.into());
                }
            });
        }
    }

    /// Ends all shells of the box, because its files are about to be replaced.
    pub(super) async fn end(&self, client: &MuxClient) {
        self.with(BTreeMap::clear);
        // The caller goes on without an answer: the box may be gone.
        let _ = client.ask_soon(Ask::EndShells).await;
    }

    /// Ends the shell of one session.
    pub(super) async fn end_one(&self, client: &MuxClient, session: SessionId) {
        let shell = name(session);
        self.with(|states| states.remove(&shell));
        // A shell that cannot be ended now ends with the box.
        let _ = client.ask_soon(Ask::EndShell { shell }).await;
    }

    /// Runs the command of a tool call.
    pub(super) async fn run(
        &self,
        client: &MuxClient,
        session: SessionId,
        call: CallId,
        wanted: ShellCall,
        limits: &CallLimits,
    ) -> ToolDone {
        let shell = name(session);
        let ShellCall { command, begin, timeout_ms } = wanted;
        let state = self.with(|states| match begin {
            protocol::ShellBegin::Continue => states.get(&shell).cloned(),
            protocol::ShellBegin::Restart => {
                states.remove(&shell);
                None
            }
        });
        let order = ShellOrder {
            shell: shell.clone(),
            call: call.to_string(),
            command: command.clone(),
            begin,
            cwd: WORKSPACE_ROOT.to_owned(),
            timeout_ms,
            output: OutputLimits { kept_bytes: limits.stream_bytes(), ring_bytes: 0, unread: FullBuffer::Drop },
        };
        let patience = Duration::from_millis(timeout_ms) + PATIENCE;
        let silent = |_| Err(BoxError::Lost(std::io::ErrorKind::TimedOut.into()));
        let response = client.ask(Ask::Shell(Box::new(order)), state.as_deref().unwrap_or_default());
        let response = tokio::time::timeout(patience, response).await.unwrap_or_else(silent);
        match response.and_then(read) {
            Ok(ran) => {
                // The box has the state now. A checkpoint may have stored a newer one meanwhile.
                self.with(|states| {
                    if let (Some(kept), Some(sent)) = (states.get(&shell), &state)
                        && Arc::ptr_eq(kept, sent)
                    {
                        states.remove(&shell);
                    }
                });
                answer(command, ran, timeout_ms, limits)
            }
            Err(BoxError::Guest(GuestError { kind: GuestErrorKind::Busy, .. })) => {
                let hint = "Wait for that command, or call shell with restart: true to end it.".to_owned();
                failed("shell_busy", "The shell runs another command.".to_owned(), Some(hint))
            }
            Err(error) => broken(&error),
        }
    }
}

type Read = (protocol::ShellResult, Vec<u8>, Vec<u8>);

fn read((answer, body): (Answer, Vec<u8>)) -> Result<Read, BoxError> {
    let unexpected = || BoxError::from(ProtocolError::Unexpected { what: "to a command for a shell" });
    let Answer::Shell(result) = answer else { return Err(unexpected()) };
    let length = |kept: protocol::Kept| usize::try_from(kept.head.checked_add(kept.tail)?).ok();
    match (length(result.stdout), length(result.stderr)) {
        (Some(stdout), Some(stderr)) if stdout.checked_add(stderr) == Some(body.len()) => {
            let (stdout, stderr) = body.split_at(stdout);
            Ok((*result, stdout.to_vec(), stderr.to_vec()))
        }
        _ => Err(unexpected()),
    }
}

fn answer(command: Option<String>, ran: Read, timeout_ms: u64, limits: &CallLimits) -> ToolDone {
    let (result, stdout, stderr) = ran;
    let notice = notice(&result);
    let mut message = if result.timed_out {
        format!("Timed out after {} s; the command and its processes were ended.", timeout_ms / 1_000)
    } else if result.killed {
        "The command was ended.".to_owned()
    } else if result.oom {
        format!("Exit code {}: the box ran out of memory.", result.exit_code)
    } else {
        format!("Exit code {}.", result.exit_code)
    };
    message.extend(notice.iter().flat_map(|notice| [" ", notice]));
    let shell = ShellReport {
        origin: match result.origin {
            protocol::ShellOrigin::Running => ShellOrigin::Running,
            protocol::ShellOrigin::Restored => ShellOrigin::Restored,
            protocol::ShellOrigin::New => ShellOrigin::New,
        },
        ended: result.ended && !result.state_kept,
        cwd: result.cwd.clone(),
    };
    let mut answer = CommandResult {
        exit_code: result.exit_code,
        stdout: String::new(),
        stderr: String::new(),
        stdout_total: result.stdout.total,
        stderr_total: result.stderr.total,
        truncated: false,
        timed_out: result.timed_out,
        oom: result.oom,
        duration_ms: result.duration_ms,
        left_running: left_running(&result.left),
        left_running_total: result.left.total,
        notice,
        shell: Some(shell),
    };
    let hint = rerun_hint(Language::Shell, command.as_deref().unwrap_or_default());
    let echo = command.map(|command| brief(&command, limits));
    let taken = json_size(&answer) + json_size(&echo) + json_size(&message) + json_size(&hint);
    let (stdout, stderr) = (captured(stdout, result.stdout), captured(stderr, result.stderr));
    let [(stdout, less_stdout), (stderr, less_stderr)] = Captured::texts(&stdout, &stderr, limits, taken);
    (answer.stdout, answer.stderr, answer.truncated) = (stdout, stderr, less_stdout || less_stderr);
    if answer.truncated {
        message.push_str(&hint);
    }
    let mut answer = serde_json::to_value(answer).unwrap_or_default();
    if let Some(echo) = echo {
        answer["command"] = echo.into();
    }
    answered(answer, message)
}

/// Describes what the agent has to know for its next call.
fn notice(result: &protocol::ShellResult) -> Option<String> {
    let started = (result.origin == protocol::ShellOrigin::New)
        .then(|| format!("A new shell was started in {WORKSPACE_ROOT}; it has no state of earlier calls."));
    let interrupted = result.timed_out || result.killed;
    let ended = match (result.ended, result.state_kept) {
        (true, true) if interrupted => Some(
            "The shell keeps the directory, variables and functions that it had before the command; its list of jobs is empty."
                .to_owned(),
        ),
        (true, true) => Some(
            "A process of the box ended the shell; the next call continues with its last known directory, variables and functions."
                .to_owned(),
        ),
        (true, false) => Some("The shell has ended, and its state is lost; the next call starts a new one.".to_owned()),
        (false, _) => None,
    };
    let left = left_notice(&result.left);
    let all: Vec<String> = [started, ended, left].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(" "))
}

#[cfg(test)]
mod tests {
    use stead_box::protocol::Left;

    use super::*;

    fn result() -> protocol::ShellResult {
        protocol::ShellResult {
            origin: protocol::ShellOrigin::Running,
            exit_code: 0,
            timed_out: false,
            killed: false,
            oom: false,
            ended: false,
            state_kept: true,
            cwd: None,
            duration_ms: 1,
            stdout: protocol::Kept::default(),
            stderr: protocol::Kept::default(),
            left: Left::default(),
        }
    }

    #[test]
    fn a_notice_names_only_what_is_new() {
        assert_eq!(notice(&result()), None);
        let new = protocol::ShellResult { origin: protocol::ShellOrigin::New, ..result() };
        assert!(notice(&new).unwrap().starts_with("A new shell was started"));
        let lost = protocol::ShellResult { ended: true, state_kept: false, ..result() };
        assert!(notice(&lost).unwrap().contains("its state is lost"));
        let left = Left { total: 2, processes: Vec::new() };
        assert!(notice(&protocol::ShellResult { left, ..result() }).unwrap().starts_with("2 processes still run"));
    }
}
