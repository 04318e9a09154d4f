//! Commands in the box: the `bash` and `python` tools, and setup commands.

use std::time::{Duration, Instant};

use serde_json::json;
use stead_api::tool::result::LeftRunning;
use stead_box::protocol::{AfterRun, Ask, ExecOrder, FullBuffer, Input, Kept, Left, LeftProcess, OutputLimits, Stream};
use stead_box::{BoxError, Finished, Followed};
use stead_core::config::CallLimits;
use stead_core::env::Env;
use stead_core::event::{SetupReport, SetupStream};
use stead_core::plan::WORKSPACE_ROOT;
use stead_fs::budget::{escaped_len, json_size};

use super::arguments::{Capture, Command, Language};
use super::guest_box::GuestBox;
use super::mux_client::MuxClient;
use super::reply::{answered, broken};
use crate::contract::error::ProviderError;
use crate::contract::workspace::{Captured, OutputSink, ToolDone};

/// Time to wait for an answer after a command's deadline.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Number of characters of a command in its result.
const MOST_ECHOED: usize = 4_096;
/// Number of bytes kept of the start and of the end of each output stream of a setup command.
const SETUP_END_BYTES: u64 = 4_096;
/// Size of the buffer between a setup command and the server that follows it.
const SETUP_RING_BYTES: u64 = 256 << 10;

/// Runs the command of a tool call. A failed command is a result; only a failed box is an error.
pub(super) async fn run(client: &MuxClient, exec: String, command: Command, limits: &CallLimits) -> ToolDone {
    let kept_bytes = match command.capture {
        Capture::Kept => limits.stream_bytes(),
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
    let notice = left_notice(&result.left);
    let mut message = if result.timed_out {
        format!("Timed out after {} s; every process of the command was ended.", command.timeout_ms / 1_000)
    } else if result.oom {
        format!("Exit code {}: the box ran out of memory.", result.exit_code)
    } else {
        format!("Exit code {}.", result.exit_code)
    };
    message.extend(notice.iter().flat_map(|notice| [" ", notice]));
    let mut answer = json!({
        "command": brief(&command.text, limits),
        "cwd": command.cwd,
        "exit_code": result.exit_code,
        "stdout": "",
        "stderr": "",
        "stdout_total": result.stdout.total,
        "stderr_total": result.stderr.total,
        "truncated": false,
        "duration_ms": result.duration_ms,
        "timed_out": result.timed_out,
        "oom": result.oom,
        "left_running": left_running(&result.left),
        "left_running_total": result.left.total,
    });
    if let Some(notice) = notice {
        answer["notice"] = notice.into();
    }
    let hint = rerun_hint(command.language, &command.text);
    let [(stdout, less_stdout), (stderr, less_stderr)] = match command.capture {
        Capture::Kept => {
            let taken = json_size(&answer) + json_size(&message) + json_size(&hint);
            let [stdout, stderr] = [(finished.stdout, result.stdout), (finished.stderr, result.stderr)]
                .map(|(bytes, kept)| captured(bytes, kept));
            Captured::texts(&stdout, &stderr, limits, taken)
        }
        Capture::Dropped => [result.stdout, result.stderr].map(|kept| ("capture disabled".to_owned(), kept.total > 0)),
    };
    let truncated = less_stdout || less_stderr;
    if truncated && command.capture == Capture::Kept {
        message.push_str(&hint);
    }
    (answer["stdout"], answer["stderr"], answer["truncated"]) = (stdout.into(), stderr.into(), truncated.into());
    answered(answer, message)
}

/// Describes the processes that a command left running; `None` if there are none.
pub(super) fn left_notice(left: &Left) -> Option<String> {
    /// Number of processes in the sentence.
    const NAMED: usize = 4;
    let named = left.processes.iter().take(NAMED);
    let named: Vec<String> = named.map(|process| format!("{} ({})", process.pid, process.command)).collect();
    let more = if left.total > named.len() as u64 { ", …" } else { "" };
    match left.total {
        0 => None,
        1 => Some(format!("1 process still runs: {}.", named.join(", "))),
        total => Some(format!("{total} processes still run: {}{more}.", named.join(", "))),
    }
}

pub(super) fn left_running(left: &Left) -> Vec<LeftRunning> {
    left.processes
        .iter()
        .map(|LeftProcess { pid, command }| LeftRunning { pid: *pid, command: command.clone() })
        .collect()
}

/// The kept parts of a stream.
pub(super) fn captured(bytes: Vec<u8>, kept: Kept) -> Captured {
    Captured { bytes, head: usize::try_from(kept.head).unwrap_or(usize::MAX), total: kept.total }
}

/// The sentence about the next call if output was omitted. The omitted part is not kept.
pub(super) fn rerun_hint(language: Language, text: &str) -> String {
    let again = match language {
        Language::Python => {
            "write it to a file in the code, for example with print(…, file=open('out.txt', 'w'))".to_owned()
        }
        Language::Shell if text.contains('\n') || text.len() > 200 => {
            "run it with its output redirected to a file (> out.txt 2>&1)".to_owned()
        }
        Language::Shell => format!("run ({text}) > out.txt 2>&1"),
    };
    format!(" The middle of the output is omitted: to see it, {again}, then read out.txt.")
}

/// Shortens the command in the result: the caller has it whole.
pub(super) fn brief(command: &str, limits: &CallLimits) -> String {
    // An eighth of the answer, so that most of it is left for the output.
    let most_json = usize::try_from(limits.output_bytes / 8).unwrap_or(usize::MAX);
    let mut json = 0;
    let fits = |(number, (_, character)): &(usize, (usize, char))| {
        json += escaped_len(character.encode_utf8(&mut [0; 4]));
        *number < MOST_ECHOED && json <= most_json
    };
    let end = command.char_indices().enumerate().take_while(fits).last();
    match end.map_or(0, |(_, (at, character))| at + character.len_utf8()) {
        end if end == command.len() => command.to_owned(),
        end => format!("{}…", &command[..end]),
    }
}

/// A setup command to run.
pub(super) struct SetupOrder<'a> {
    pub(super) number: u64,
    pub(super) command: &'a str,
    pub(super) timeout_seconds: u64,
    pub(super) env: &'a Env,
    pub(super) output: &'a OutputSink,
}

/// Runs a setup command and passes its output on while it runs. Its failure is an error that
/// carries its output.
pub(super) fn set_up(guest_box: &dyn GuestBox, order: &SetupOrder<'_>) -> Result<SetupReport, ProviderError> {
    let SetupOrder { number, command, timeout_seconds, .. } = *order;
    let Finished { result, stdout, stderr, .. } = match run_setup(guest_box, order) {
        Ok(finished) => finished,
        Err(BoxError::Guest(refusal)) => {
            let report = SetupReport { exit_code: 127, stderr: refusal.message, ..report_of(number, command) };
            return Err(ProviderError::Setup { report: Box::new(report), timeout_seconds });
        }
        Err(error) => return Err(error.into()),
    };
    let (stdout_head, stdout) = ends(&stdout, result.stdout);
    let (stderr_head, stderr) = ends(&stderr, result.stderr);
    let report = SetupReport {
        exit_code: result.exit_code,
        timed_out: result.timed_out,
        stdout_head,
        stdout,
        stderr_head,
        stderr,
        stdout_total: result.stdout.total,
        stderr_total: result.stderr.total,
        ..report_of(number, command)
    };
    match report.exit_code {
        0 => Ok(report),
        _ => Err(ProviderError::Setup { report: Box::new(report), timeout_seconds }),
    }
}

fn run_setup(guest_box: &dyn GuestBox, order: &SetupOrder<'_>) -> Result<Finished, BoxError> {
    let SetupOrder { number, command, timeout_seconds, env, output } = order;
    let exec = format!("setup_{number}");
    let order = ExecOrder {
        exec: exec.clone(),
        argv: ["/bin/bash", "-c", command].map(str::to_owned).into(),
        cwd: WORKSPACE_ROOT.to_owned(),
        env: env.texts().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        input: Input::Nothing,
        timeout_ms: Some(timeout_seconds * 1_000),
        terminal: None,
        output: OutputLimits {
            kept_bytes: 2 * SETUP_END_BYTES,
            ring_bytes: SETUP_RING_BYTES,
            unread: FullBuffer::Drop,
        },
    };
    let deadline = Instant::now() + Duration::from_secs(*timeout_seconds) + PATIENCE;
    let mut connection = guest_box.connect()?;
    connection.start(order, &[])?;
    connection.follow(&exec, 0)?;
    loop {
        // A zero timeout would mean none.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match connection.followed_within(Some(left))? {
            Followed::Output { stream: Stream::Stdout, bytes, .. } => output.pass(SetupStream::Stdout, &bytes),
            Followed::Output { stream: Stream::Stderr, bytes, .. } => output.pass(SetupStream::Stderr, &bytes),
            Followed::Finished(_) => break,
        }
    }
    let finished = connection.wait(&exec)?;
    connection.forget(&exec)?;
    Ok(finished)
}

fn report_of(number: u64, command: &str) -> SetupReport {
    SetupReport { number, command: command.to_owned(), ..SetupReport::default() }
}

/// The start and the end of a stream as text. The start is empty if nothing is omitted between
/// them: then the end is the whole stream.
fn ends(bytes: &[u8], kept: Kept) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if kept.total <= bytes.len() as u64 {
        return (String::new(), text(bytes));
    }
    let (head, tail) = bytes.split_at(usize::try_from(kept.head).unwrap_or(usize::MAX).min(bytes.len()));
    (text(head), text(tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_takes_an_eighth_of_the_answer() {
        let limits = CallLimits { output_bytes: 65_536, ..CallLimits::default() };
        assert_eq!(brief("echo hi", &limits), "echo hi");
        assert_eq!(brief("", &limits), "");
        assert_eq!(brief(&"x".repeat(5_000), &limits), "x".repeat(4_096) + "…");
        assert_eq!(brief(&"\u{1}".repeat(4_000), &limits).chars().count(), 65_536 / 8 / 6 + 1);
    }

    #[test]
    fn the_hint_fits_the_language() {
        assert!(rerun_hint(Language::Shell, "make").contains("run (make) > out.txt 2>&1"));
        assert!(rerun_hint(Language::Shell, "a\nb").contains("redirected to a file"));
        let python = rerun_hint(Language::Python, "print(1)");
        assert!(python.contains("print(…, file=open('out.txt', 'w'))") && !python.contains("2>&1"), "{python}");
    }
}
