//! `bash` in the background, `bash_output` and `bash_kill`: execs as tools.
//!
//! A command in the background is an ordinary exec. It has its own events, is listed with the
//! others, and outlives the server. The call only starts it, and ends with its id.

use serde_json::{Value, json};
use stead_api::exec::{Chunk, Encoding, OutputPage};
use stead_api::tool::shell::{BashKillParameters, BashOutputParameters};
use stead_core::env::Env;
use stead_core::event::{Answer, ToolFailure};
use stead_core::exec::{ExecOrder, ExecSpec, ExecStatus, FullBuffer, Stdin};
use stead_core::tool::ToolName;
use stead_core::{Actor, ExecId, Rejection};
use stead_fs::budget::{FIXED_BYTES, Room, Stream, escaped_len};
use stead_providers::{Done, ExecError, ToolDone, ToolOrder, read_bash};

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::tools::exec::{self, start, view};
use crate::ops::tools::exec_output::{self, RawChunk, RawPage};

/// Returns true if the call is about a command in the background.
pub(super) fn is_meant(tool: ToolName, arguments: &Value) -> bool {
    match tool {
        ToolName::BashOutput | ToolName::BashKill => true,
        ToolName::Bash => arguments.get("background").is_some_and(|background| background == true),
        _ => false,
    }
}

pub(super) async fn call(engine: &Engine, session: &OpenSession, actor: &Actor, order: ToolOrder) -> ToolDone {
    let called = match order.tool {
        // Boxed, because the future of every tool call would have their size.
        ToolName::BashOutput => Box::pin(output(engine, session, &order)).await,
        ToolName::BashKill => Box::pin(kill(engine, session, &order)).await,
        _ => Box::pin(begin(engine, session, actor, &order)).await,
    };
    let answer = match called {
        Ok((result, message)) => Answer { result: Some(result), error: None, message },
        Err(error) => Answer { result: None, message: error.message.clone(), error: Some(error) },
    };
    ToolDone { answer, done: Done::nothing() }
}

type Called = Result<(Value, String), ToolFailure>;

fn invalid(message: String) -> ToolFailure {
    ToolFailure { code: "invalid_argument".to_owned(), message, hint: None }
}

fn failed(error: &OpError) -> ToolFailure {
    let (code, message) = match error {
        OpError::Rejected(rejection @ Rejection::NoExec { .. }) => {
            let message = format!("{rejection}. The id is the one that bash answered with background: true.");
            (rejection.code(), message)
        }
        OpError::Rejected(rejection) => (rejection.code(), rejection.to_string()),
        other => ("exec_failed", other.to_string()),
    };
    ToolFailure { code: code.to_owned(), message, hint: None }
}

async fn begin(engine: &Engine, session: &OpenSession, actor: &Actor, order: &ToolOrder) -> Called {
    let command = read_bash(&order.arguments, &order.limits).map_err(invalid)?;
    if order.arguments.get("capture_output").is_some_and(|capture| capture == false) {
        let reason = "capture_output must be true with background: true. Redirect unwanted output to /dev/null.";
        return Err(invalid(reason.to_owned()));
    }
    let mut env = Env::default();
    for (name, value) in &command.env {
        env.set(name, value.clone());
    }
    // The parsed timeout has a default, which is meant for the foreground.
    let is_limited = order.arguments.get("timeout").is_some_and(|timeout| !timeout.is_null());
    let timeout_seconds = is_limited.then_some(command.timeout_ms / 1_000);
    let echo = command.brief(&order.limits);
    let stdin = command.stdin.unwrap_or_default().into_bytes();
    let spec = ExecSpec {
        command: Some(command.text),
        argv: command.argv,
        cwd: command.cwd.clone(),
        env: command.env.into_keys().collect(),
        stdin_bytes: stdin.len() as u64,
        stdin: Stdin::Closed,
        timeout_seconds,
        background: true,
        pty: None,
        unread: FullBuffer::Drop,
    };
    let wanted = ExecOrder { spec, env, stdin };
    let begun = start(engine, actor, session.id(), wanted, None).await.map_err(|error| failed(&error))?;
    if let Some(failure) = begun.exec.failure {
        return Err(ToolFailure { code: failure.code, message: failure.message, hint: None });
    }
    let (id, status) = (begun.id, begun.exec.status);
    let result = json!({"id": id, "status": status, "command": echo, "cwd": command.cwd});
    let hint = "Read its output with bash_output and end it with bash_kill.";
    Ok((result, format!("{id} runs in the background. {hint}")))
}

fn id_of(text: &str) -> Result<ExecId, ToolFailure> {
    text.parse().map_err(|_| invalid("id must be the id that bash answered with background: true.".to_owned()))
}

async fn output(engine: &Engine, session: &OpenSession, order: &ToolOrder) -> Called {
    let BashOutputParameters { id, after } = BashOutputParameters::read(&order.arguments).map_err(invalid)?;
    let most = usize::try_from(order.limits.output_bytes).unwrap_or(usize::MAX);
    let page = exec_output::page(engine, session, id_of(&id)?, after, most).await.map_err(|error| failed(&error))?;
    let page = within(page, most).encoded(|chunk| as_text(chunk, most));
    let OutputPage { id, status, exit_code, chunks, missed, after, more } = page;
    let mut message = match exit_code {
        Some(code) => format!("{id} has ended with exit code {code}."),
        None => format!("{id}: {status}."),
    };
    if more {
        message.push_str(&format!(" There is more output; continue with after: {after}."));
    } else if status == ExecStatus::Running {
        message.push_str(&format!(" Read later output with after: {after}."));
    }
    if !missed.is_empty() {
        let lost: u64 = missed.iter().map(|range| range.to.saturating_sub(range.from) + 1).sum();
        message.push_str(&format!(" {lost} chunks of older output are no longer kept."));
    }
    let page = OutputPage { id, status, exit_code, chunks, missed, after, more };
    Ok((serde_json::to_value(page).unwrap_or_default(), message))
}

/// Number of bytes that the fields of a chunk take in JSON.
const CHUNK_FIELDS: usize = 80;

/// Cuts a page to the chunks whose texts and fields take at most `most` bytes of JSON, with the
/// fields around them. The next page begins with the first chunk that does not fit. A page has at
/// least one chunk.
fn within(mut page: RawPage, most: usize) -> RawPage {
    let (mut bytes, mut kept) = (FIXED_BYTES, Vec::new());
    for chunk in std::mem::take(&mut page.chunks) {
        bytes += escaped_len(&String::from_utf8_lossy(&chunk.bytes)) + CHUNK_FIELDS;
        if bytes > most && !kept.is_empty() {
            (page.after, page.more) = (chunk.seq - 1, true);
            page.missed.retain(|missed| missed.to < chunk.seq);
            break;
        }
        kept.push(chunk);
    }
    RawPage { chunks: kept, ..page }
}

/// Converts a chunk to text: invalid UTF-8 is replaced, and the middle of a chunk that alone
/// exceeds the limit is omitted.
fn as_text(chunk: RawChunk, most: usize) -> Chunk {
    let RawChunk { seq, stream, bytes } = chunk;
    let json = most.saturating_sub(FIXED_BYTES + CHUNK_FIELDS);
    let whole = Stream { head: &bytes, tail: &[], total: bytes.len() as u64 };
    let (data, _) = whole.text(Room { text: usize::MAX, json });
    Chunk { seq, stream, encoding: Encoding::Utf8, data }
}

async fn kill(engine: &Engine, session: &OpenSession, order: &ToolOrder) -> Called {
    let BashKillParameters { id } = BashKillParameters::read(&order.arguments).map_err(invalid)?;
    let id = id_of(&id)?;
    let workspace = session.workspace().ok_or_else(|| failed(&ExecError::Unsupported.into()))?;
    exec::kill(engine, session, &*workspace, id).await.map_err(|error| failed(&error))?;
    let ended = view(engine, session, id).await.map_err(|error| failed(&error))?;
    let exit_code = ended.exec.exit.map(|exit| exit.exit_code);
    let result = json!({"id": id, "status": ended.exec.status, "exit_code": exit_code});
    Ok((result, format!("No process of {id} runs any more.")))
}

#[cfg(test)]
mod tests {
    use stead_api::exec::{Missed, OutputStream};
    use stead_fs::budget::json_size;

    use super::*;

    fn page(chunks: Vec<RawChunk>, missed: Vec<Missed>, after: u64) -> RawPage {
        let (id, status) = (ExecId::from_bits(1), ExecStatus::Running);
        RawPage { id, status, exit_code: None, chunks, missed, after, more: false }
    }

    fn chunk(seq: u64, bytes: Vec<u8>) -> RawChunk {
        RawChunk { seq, stream: OutputStream::Stdout, bytes }
    }

    #[test]
    fn a_page_ends_before_the_chunk_that_does_not_fit() {
        let chunks = vec![chunk(1, vec![b'a'; 900]), chunk(4, vec![b'b'; 900])];
        let missed = vec![Missed { from: 2, to: 3 }, Missed { from: 5, to: 6 }];
        let first = within(page(chunks, missed, 6), 2_048);
        let expected = page(vec![chunk(1, vec![b'a'; 900])], vec![Missed { from: 2, to: 3 }], 3);
        assert_eq!(first, RawPage { more: true, ..expected });
    }

    #[test]
    fn a_page_fits_into_the_answer_as_json() {
        for bytes in [vec![b'a'; 5_000], vec![0xff; 1_000], "ä".repeat(700).into_bytes(), vec![1; 400], vec![b'"'; 900]]
        {
            let cut = within(page(vec![chunk(1, bytes)], Vec::new(), 1), 1_024).encoded(|chunk| as_text(chunk, 1_024));
            let text = &cut.chunks[0].data;
            assert!(json_size(&cut) <= 1_024 && text.contains("bytes omitted"), "{} bytes: {text}", json_size(&cut));
            assert_eq!((cut.after, cut.more), (1, false));
        }
    }
}
