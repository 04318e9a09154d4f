//! Commands in the box: the `bash` and `python` tools, and setup commands.

use std::time::Duration;

use serde_json::json;
use stead_box::protocol::{AfterRun, Ask, ExecOrder, FullBuffer, Input, Kept, OutputLimits};
use stead_box::{BoxError, Finished};
use stead_core::config::ToolLimits;
use stead_core::env::Env;
use stead_core::event::SetupReport;
use stead_core::plan::WORKSPACE_ROOT;

use super::arguments::{Capture, Command};
use super::guest_box::GuestBox;
use super::mux_client::MuxClient;
use super::reply::{answered, broken};
use crate::contract::error::ProviderError;
use crate::contract::workspace::ToolDone;

/// Time to wait for an answer after a command's deadline.
const PATIENCE: Duration = Duration::from_secs(30);
/// Number of bytes kept of each output stream of a setup command.
const SETUP_TAIL_BYTES: usize = 4_096;

/// Runs the command of a tool call. A failed command is a result; only a failed box is an error.
pub(super) async fn run(client: &MuxClient, exec: String, command: Command, limits: &ToolLimits) -> ToolDone {
    let kept_bytes = match command.capture {
        Capture::Kept => limits.output_bytes,
        Capture::Dropped => 0,
    };
    let order = ExecOrder {
        exec,
        argv: command.argv,
        cwd: command.cwd.clone(),
        env: command.env,
        input: if command.stdin.is_some() { Input::Bytes } else { Input::Nothing },
        timeout_ms: Some(command.timeout_ms),
        terminal: None,
        // No reader follows a tool call, so a ring would only duplicate the kept output.
        output: OutputLimits { kept_bytes, ring_bytes: 0, unread: FullBuffer::Drop },
    };
    let input = command.stdin.unwrap_or_default();
    let ask = Ask::Run { order: Box::new(order), then: AfterRun::Forget };
    let patience = Duration::from_millis(command.timeout_ms) + PATIENCE;
    let silent = |_| Err(BoxError::Lost(std::io::ErrorKind::TimedOut.into()));
    let response = tokio::time::timeout(patience, client.ask(ask, input.as_bytes())).await.unwrap_or_else(silent);
    let finished = match response.and_then(Finished::read) {
        Ok(finished) => finished,
        Err(error) => return broken(&error),
    };
    let result = &finished.result;
    let message = if result.timed_out {
        format!("Timed out after {} s; every process of the command was ended.", command.timeout_ms / 1_000)
    } else if result.oom {
        format!("Exit code {}: the box ran out of memory.", result.exit_code)
    } else {
        format!("Exit code {}.", result.exit_code)
    };
    let text = |bytes: &[u8], kept: Kept| match command.capture {
        Capture::Kept => shown(bytes, kept),
        Capture::Dropped => "capture disabled".to_owned(),
    };
    let result = json!({
        "command": command.text,
        "cwd": command.cwd,
        "exit_code": result.exit_code,
        "stdout": text(&finished.stdout, result.stdout),
        "stderr": text(&finished.stderr, result.stderr),
        "stdout_total": result.stdout.total,
        "stderr_total": result.stderr.total,
        "truncated": result.stdout.truncated() || result.stderr.truncated(),
        "duration_ms": result.duration_ms,
        "timed_out": result.timed_out,
        "oom": result.oom,
    });
    answered(result, message)
}

/// Formats the head and tail of a stream, with the number of omitted bytes between them.
pub(super) fn shown(bytes: &[u8], kept: Kept) -> String {
    let (head, tail) = bytes.split_at(usize::try_from(kept.head).unwrap_or(usize::MAX).min(bytes.len()));
    let (start, end) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    if kept.truncated() {
        format!("{start}\n[… {} of {} bytes omitted …]\n{end}", kept.total - kept.head - kept.tail, kept.total)
    } else if tail.is_empty() {
        start.into_owned()
    } else {
        // Decode as one piece: a character may span head and tail.
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Runs a setup command. Its failure is an error that carries its output.
pub(super) fn set_up(
    guest_box: &dyn GuestBox,
    number: u64,
    command: &str,
    timeout_seconds: u64,
    env: &Env,
) -> Result<SetupReport, ProviderError> {
    let order = ExecOrder {
        exec: format!("setup_{number}"),
        argv: ["/bin/bash", "-c", command].map(str::to_owned).into(),
        cwd: WORKSPACE_ROOT.to_owned(),
        env: env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        input: Input::Nothing,
        timeout_ms: Some(timeout_seconds * 1_000),
        terminal: None,
        output: OutputLimits { kept_bytes: 2 * SETUP_TAIL_BYTES as u64, ring_bytes: 0, unread: FullBuffer::Drop },
    };
    let finished = guest_box.connect().and_then(|mut connection| connection.run(order, &[]));
    let Finished { result, stdout, stderr, .. } = match finished {
        Ok(finished) => finished,
        Err(BoxError::Guest(refusal)) => {
            let report = SetupReport { exit_code: 127, stderr: refusal.message, ..report_of(number, command) };
            return Err(ProviderError::Setup { report: Box::new(report), timeout_seconds });
        }
        Err(error) => return Err(error.into()),
    };
    let report = SetupReport {
        exit_code: result.exit_code,
        timed_out: result.timed_out,
        stdout: tail(&stdout),
        stderr: tail(&stderr),
        stdout_total: result.stdout.total,
        stderr_total: result.stderr.total,
        ..report_of(number, command)
    };
    match report.exit_code {
        0 => Ok(report),
        _ => Err(ProviderError::Setup { report: Box::new(report), timeout_seconds }),
    }
}

fn report_of(number: u64, command: &str) -> SetupReport {
    let (stdout, stderr, command) = (String::new(), String::new(), command.to_owned());
    SetupReport { number, command, exit_code: 0, timed_out: false, stdout, stderr, stdout_total: 0, stderr_total: 0 }
}

/// The last bytes of a stream as text.
fn tail(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SETUP_TAIL_BYTES)..]).into_owned()
}
