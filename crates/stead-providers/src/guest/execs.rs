//! Execs of a box, through `stead-init`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stead_box::protocol::{
    self, AfterRun, Answer, Ask, GuestError, GuestErrorKind, Input, OutputLimits, Request, Stream, encode_request,
};
use stead_box::{BoxError, Finished};
use stead_core::ExecId;
use stead_core::exec::{ExecFailureCode, ExecOrder, ExecOutput, Exit, FullBuffer, Stdin, TerminalSize};
use stead_fs::budget::Room;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::command::captured;
use super::guest_box::GuestBox;
use super::mux_client::{Alone, Frames, MuxClient, connect};
use super::output_cache::{Chunk, OutputCache};
use super::reply::chain;
use crate::contract::execs::{
    AtWork, ExecEnd, ExecError, Execs, Followed, Following, InputEnd, KnownExec, OutputStream,
};

/// Number of output bytes that the box keeps for followers. The ring is larger if the command waits
/// for its reader. Output that a lost connection had already taken must still be there for the next
/// one.
const RING_BYTES: u64 = 1 << 20;
const WAITING_RING_BYTES: u64 = 8 << 20;
/// Number of input bytes per request; the box takes as many as it has room for.
const PIECE: usize = 256 << 10;
/// Delay between two attempts to send input to a command that does not read.
const FEED_AGAIN: Duration = Duration::from_millis(10);

pub(super) struct GuestExecs {
    guest_box: Arc<dyn GuestBox>,
    client: Arc<MuxClient>,
    output_cache: OutputCache,
}

impl GuestExecs {
    pub(super) fn new(guest_box: Arc<dyn GuestBox>, client: Arc<MuxClient>) -> Self {
        Self { guest_box, client, output_cache: OutputCache::default() }
    }

    /// Copies the output of finished commands out of the box, so that stopping the box loses
    /// nothing for readers.
    pub(super) async fn cache_finished(&self, alone: &Alone<'_>) {
        let Ok((Answer::Execs { execs, .. }, _)) = alone.ask(Ask::List).await else { return };
        for status in execs.into_iter().filter(|status| !status.running) {
            let Ok(exec) = status.exec.parse() else { continue };
            if let Ok(chunks) = self.drain(exec).await {
                self.output_cache.keep(exec, chunks);
                // An exec that is not forgotten would make the box count as busy.
                let _ = alone.ask(Ask::Forget { exec: status.exec }).await;
            }
        }
    }

    async fn drain(&self, exec: ExecId) -> Result<Vec<Chunk>, ExecError> {
        let (mut reader, mut chunks) = (self.attach(exec, 0).await?, Vec::new());
        loop {
            match reader.next().await? {
                Followed::Output { seq, stream, bytes } => chunks.push(Chunk { seq, stream, bytes }),
                Followed::Ended => return Ok(chunks),
            }
        }
    }

    async fn attach(&self, exec: ExecId, after: u64) -> Result<Follower, ExecError> {
        let lost = |error| exec_error(exec, error);
        let (read, mut write) = connect(&self.guest_box).await.map_err(lost)?.into_split();
        let request = Request { id: 2, ask: Ask::Attach { exec: exec.to_string(), from: after } };
        let frame = encode_request(&request, &[]).map_err(|error| lost(error.into()))?;
        write.write_all(&frame).await.map_err(|error| lost(BoxError::Lost(error)))?;
        Ok(Follower { exec, read, _write: write, frames: Frames::default() })
    }

    async fn done(&self, exec: ExecId, ask: Ask) -> Result<(), ExecError> {
        self.client.ask(ask, &[]).await.map(drop).map_err(|error| exec_error(exec, error))
    }
}

fn order(exec: ExecId, order: &ExecOrder, output_bytes: u64) -> Box<protocol::ExecOrder> {
    let spec = &order.spec;
    let (ring_bytes, unread) = match spec.unread {
        FullBuffer::Drop => (RING_BYTES, protocol::FullBuffer::Drop),
        FullBuffer::Wait => (WAITING_RING_BYTES, protocol::FullBuffer::Wait),
    };
    Box::new(protocol::ExecOrder {
        exec: exec.to_string(),
        argv: spec.argv.clone(),
        cwd: spec.cwd.clone(),
        env: order.env.texts().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        input: match spec.stdin {
            Stdin::Open => Input::Open,
            Stdin::Closed if order.stdin.is_empty() => Input::Nothing,
            Stdin::Closed => Input::Bytes,
        },
        timeout_ms: spec.timeout_seconds.map(|seconds| seconds.saturating_mul(1_000)),
        terminal: spec.pty.map(size),
        output: OutputLimits { kept_bytes: output_bytes, ring_bytes, unread },
    })
}

fn size(size: TerminalSize) -> protocol::TerminalSize {
    protocol::TerminalSize { rows: size.rows, columns: size.columns }
}

fn end(exec: ExecId, response: (Answer, Vec<u8>)) -> Result<ExecEnd, ExecError> {
    let Finished { result, stdout, stderr } = Finished::read(response).map_err(|error| exec_error(exec, error))?;
    let exit = Exit {
        exit_code: result.exit_code,
        signal: result.signal,
        timed_out: result.timed_out,
        killed: result.killed,
        oom: result.oom,
        duration_ms: result.duration_ms,
        stdout_total: result.stdout.total,
        stderr_total: result.stderr.total,
        truncated: result.stdout.truncated() || result.stderr.truncated(),
        chunks: result.chunks,
    };
    let text = |bytes: Vec<u8>, kept| captured(bytes, kept).stream().text(Room::ENDLESS).0;
    let output = ExecOutput { stdout: text(stdout, result.stdout), stderr: text(stderr, result.stderr) };
    Ok(ExecEnd { exit, output })
}

fn exec_error(exec: ExecId, error: BoxError) -> ExecError {
    match error {
        BoxError::Guest(GuestError { kind, message }) => match kind {
            GuestErrorKind::NoSuchExec => ExecError::Unknown { exec },
            GuestErrorKind::ExecFinished => ExecError::Ended,
            GuestErrorKind::NotATerminal => ExecError::NoTerminal,
            kind => ExecError::Refused { code: failure_code(&kind), message },
        },
        other => ExecError::Lost { reason: chain(&other) },
    }
}

fn failure_code(kind: &GuestErrorKind) -> ExecFailureCode {
    match kind {
        GuestErrorKind::InvalidCwd => ExecFailureCode::InvalidCwd,
        GuestErrorKind::CannotExecute => ExecFailureCode::CannotExecute,
        GuestErrorKind::ResourceExhausted => ExecFailureCode::ResourceExhausted,
        GuestErrorKind::NoSpace => ExecFailureCode::NoSpace,
        _ => ExecFailureCode::Refused,
    }
}

#[async_trait]
impl Execs for GuestExecs {
    async fn start(&self, exec: ExecId, wanted: ExecOrder, output_bytes: u64) -> Result<(), ExecError> {
        let ask = Ask::Exec(order(exec, &wanted, output_bytes));
        self.client.ask(ask, &wanted.stdin).await.map(drop).map_err(|error| exec_error(exec, error))
    }

    async fn run(&self, exec: ExecId, wanted: ExecOrder, output_bytes: u64) -> Result<ExecEnd, ExecError> {
        let ask = Ask::Run { order: order(exec, &wanted, output_bytes), then: AfterRun::Keep };
        end(exec, self.client.ask(ask, &wanted.stdin).await.map_err(|error| exec_error(exec, error))?)
    }

    async fn wait(&self, exec: ExecId) -> Result<ExecEnd, ExecError> {
        let ask = Ask::Wait { exec: exec.to_string() };
        end(exec, self.client.ask(ask, &[]).await.map_err(|error| exec_error(exec, error))?)
    }

    async fn follow(&self, exec: ExecId, after: u64) -> Result<Box<dyn Following>, ExecError> {
        let _used = self.client.use_box().await;
        if let Some(reader) = self.output_cache.reader(exec, after) {
            return Ok(Box::new(reader));
        }
        Ok(Box::new(self.attach(exec, after).await?))
    }

    async fn feed(&self, exec: ExecId, bytes: &[u8], end: InputEnd) -> Result<(), ExecError> {
        let mut left = bytes;
        loop {
            let piece = &left[..left.len().min(PIECE)];
            let last = end == InputEnd::Last && piece.len() == left.len();
            let ask = Ask::Input { exec: exec.to_string(), end: last };
            let taken = match self.client.ask(ask, piece).await.map_err(|error| exec_error(exec, error))? {
                (Answer::Accepted { bytes }, _) => usize::try_from(bytes).unwrap_or(usize::MAX).min(piece.len()),
                _ => 0,
            };
            left = &left[taken..];
            if left.is_empty() {
                return Ok(());
            }
            if taken == 0 {
                // The command is not reading, or has ended.
                let ended = self.at_work().await?.execs.iter().any(|known| known.exec == exec && !known.running);
                if ended {
                    return Err(ExecError::Ended);
                }
                tokio::time::sleep(FEED_AGAIN).await;
            }
        }
    }

    async fn signal(&self, exec: ExecId, signal: i32) -> Result<(), ExecError> {
        match self.client.ask(Ask::Signal { exec: exec.to_string(), signal }, &[]).await {
            Ok(_) => Ok(()),
            Err(BoxError::Guest(GuestError { kind: GuestErrorKind::InvalidSignal, .. })) => {
                Err(ExecError::NoSignal { signal })
            }
            Err(error) => Err(exec_error(exec, error)),
        }
    }

    async fn resize(&self, exec: ExecId, new: TerminalSize) -> Result<(), ExecError> {
        self.done(exec, Ask::Resize { exec: exec.to_string(), size: size(new) }).await
    }

    async fn kill(&self, exec: ExecId) -> Result<(), ExecError> {
        self.done(exec, Ask::Kill { exec: exec.to_string() }).await
    }

    async fn at_work(&self) -> Result<AtWork, ExecError> {
        let response = self.client.ask(Ask::List, &[]).await;
        match response.map_err(|error| ExecError::Lost { reason: chain(&error) })? {
            (Answer::Execs { execs, processes }, _) => {
                let known = execs.into_iter().filter_map(|status| {
                    let exec = status.exec.parse().ok()?;
                    Some(KnownExec { exec, running: status.running, chunks: status.chunks })
                });
                Ok(AtWork { execs: known.collect(), processes })
            }
            _ => Err(ExecError::Lost { reason: "it answered nonsense".to_owned() }),
        }
    }

    fn started_anew(&self) -> bool {
        self.guest_box.started_anew()
    }
}

/// A connection for one reader, open as long as the reader exists.
struct Follower {
    exec: ExecId,
    read: OwnedReadHalf,
    /// Kept open: dropping the write half would end the connection.
    _write: OwnedWriteHalf,
    frames: Frames,
}

#[async_trait]
impl Following for Follower {
    async fn next(&mut self) -> Result<Followed, ExecError> {
        let (reply, bytes) = self.frames.next(&mut self.read).await.map_err(|error| exec_error(self.exec, error))?;
        match reply.answer.or_refusal().map_err(|error| exec_error(self.exec, error))? {
            Answer::Output { stream, number } => {
                let stream = match stream {
                    Stream::Stdout => OutputStream::Stdout,
                    Stream::Stderr => OutputStream::Stderr,
                };
                Ok(Followed::Output { seq: number.saturating_add(1), stream, bytes })
            }
            Answer::Finished(_) => Ok(Followed::Ended),
            _ => Err(ExecError::Lost { reason: "it answered nonsense".to_owned() }),
        }
    }
}
