//! Follows a command's output across lost connections and server restarts.

use std::io::{BufReader, ErrorKind};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use stead_api::exec::{Chunk, Exec, Missed, OutputStream, StreamEvent};

use super::sse::next_event;
use super::{Client, ClientError, segment};
use crate::failure::Failure;

const PAUSE: Duration = Duration::from_millis(200);
/// Time to wait for an unreachable server before giving up.
const GIVE_UP: Duration = Duration::from_secs(120);

/// An update about a command.
pub(crate) enum ExecNews {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// Number of chunks that are lost.
    Missed(u64),
    /// The exec after its end.
    Finished(Box<Exec>),
}

/// URL path of an exec.
pub(crate) fn exec_path(session: &str, exec: &str) -> String {
    format!("/sessions/{}/execs/{}", segment(session), segment(exec))
}

/// Passes every chunk of output to `take`, in order and once each, and then the end.
pub(crate) fn follow_exec(
    client: &Client,
    session: &str,
    exec: &str,
    mut take: impl FnMut(ExecNews) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut after, mut last_event_at) = (0, Instant::now());
    loop {
        match client.stream(&format!("{}/stream?after={after}", exec_path(session, exec))) {
            Ok(stream) => {
                let mut reader = BufReader::new(stream);
                loop {
                    let event = match next_event(&mut reader) {
                        Ok(Some(event)) => event,
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        Ok(None) | Err(_) => break,
                    };
                    last_event_at = Instant::now();
                    match StreamEvent::parse(&event.event, &event.data) {
                        Some(StreamEvent::Output(chunk)) if chunk.seq > after => {
                            after = chunk.seq;
                            take(output(chunk))?;
                        }
                        Some(StreamEvent::Missed(Missed { from, to })) => {
                            after = after.max(to);
                            take(ExecNews::Missed(to.saturating_sub(from) + 1))?;
                        }
                        Some(StreamEvent::Finished(exec)) => return take(ExecNews::Finished(exec)),
                        _ => {}
                    }
                }
            }
            Err(ClientError::Refused(problem)) if problem.status < 500 => return Err((*problem).into()),
            Err(error) if last_event_at.elapsed() > GIVE_UP => return Err(error.into()),
            Err(_) => {}
        }
        std::thread::sleep(PAUSE);
    }
}

fn output(chunk: Chunk) -> ExecNews {
    let stream = chunk.stream;
    let bytes = chunk.bytes().unwrap_or_default();
    match stream {
        OutputStream::Stdout => ExecNews::Stdout(bytes),
        OutputStream::Stderr => ExecNews::Stderr(bytes),
    }
}

/// A request body with bytes for a command's standard input.
pub(crate) fn stdin_body(bytes: &[u8]) -> serde_json::Value {
    serde_json::json!({"data": BASE64.encode(bytes), "encoding": "base64"})
}
