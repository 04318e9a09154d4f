//! Reads the output of a command from a chunk on, without waiting for more.

use std::time::Duration;

use stead_api::exec::{Chunk, Missed, OutputPage, OutputStream};
use stead_core::exec::ExecStatus;
use stead_core::{Actor, ExecId, SessionId};
use stead_fs::incomplete_tail;
use stead_providers::OutputStream as BoxStream;

use crate::effects::exec_watch::at_work;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::tools::exec::{readable, view};
use crate::ops::tools::follow_exec::{ExecNews, reader};

/// Time to wait for chunks that the box has announced.
const PATIENCE: Duration = Duration::from_secs(10);

/// A chunk as the box sent it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawChunk {
    pub(super) seq: u64,
    pub(super) stream: OutputStream,
    pub(super) bytes: Vec<u8>,
}

/// An [`OutputPage`] before its bytes are encoded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawPage {
    pub(super) id: ExecId,
    pub(super) status: ExecStatus,
    pub(super) exit_code: Option<i32>,
    pub(super) chunks: Vec<RawChunk>,
    pub(super) missed: Vec<Missed>,
    pub(super) after: u64,
    pub(super) more: bool,
}

/// Returns the chunks after `after`. The answer ends after the first chunk that reaches
/// `most_bytes`.
#[boxed]
pub async fn exec_output(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    exec: ExecId,
    after: u64,
    most_bytes: usize,
) -> Result<OutputPage, OpError> {
    let session = readable(engine, actor, id).await?;
    let page = page(engine, &session, exec, after, most_bytes).await?;
    Ok(page.encoded(|RawChunk { seq, stream, bytes }| Chunk::new(seq, stream, bytes)))
}

/// Reads for an actor whose permission has been checked.
pub(super) async fn page(
    engine: &Engine,
    session: &OpenSession,
    exec: ExecId,
    after: u64,
    most_bytes: usize,
) -> Result<RawPage, OpError> {
    // The status comes first. So an ended exec has no more chunks than counted next.
    let view = view(engine, session, exec).await?;
    let recorded = view.exec.exit.as_ref().map_or(0, |exit| exit.chunks);
    let last = recorded.max(in_box(session, exec).await);
    let (status, exit_code) = (view.exec.status, view.exec.exit.map(|exit| exit.exit_code));
    let (chunks, missed) = (Vec::new(), Vec::new());
    let mut page = RawPage { id: exec, status, exit_code, chunks, missed, after, more: false };
    let mut reader = reader(engine, session.clone(), exec, after).await?;
    let mut bytes_read = 0;
    while page.after < last && bytes_read < most_bytes {
        // A box that does not answer in time may do so at the next request.
        let Ok(news) = tokio::time::timeout(PATIENCE, reader.next()).await else { break };
        match news? {
            Some(ExecNews::Output { seq, stream, bytes }) => {
                bytes_read += bytes.len();
                page.after = seq;
                page.chunks.push(RawChunk { seq, stream: stream_of(stream), bytes });
            }
            Some(ExecNews::Missed { from, to }) => {
                page.after = to;
                page.missed.push(Missed { from, to });
            }
            Some(ExecNews::Ended(_)) => break,
            None => return Err(OpError::ShuttingDown),
        }
    }
    page.more = page.after < last;
    Ok(page)
}

impl RawPage {
    /// Encodes the chunks, after no character is split between two of them.
    pub(super) fn encoded(mut self, encode: impl FnMut(RawChunk) -> Chunk) -> OutputPage {
        self.hold_back();
        join(&mut self.chunks);
        let Self { id, status, exit_code, chunks, missed, after, more } = self;
        OutputPage { id, status, exit_code, chunks: chunks.into_iter().map(encode).collect(), missed, after, more }
    }

    /// Leaves a last chunk that is only the start of a character to the next page, which has the
    /// rest of the character. A command that has ended writes no rest.
    fn hold_back(&mut self) {
        let Some(last) = self.chunks.last().filter(|last| last.seq == self.after) else { return };
        let is_start = incomplete_tail(&last.bytes) == last.bytes.len();
        let is_expected = if self.more { self.chunks.len() > 1 } else { self.status == ExecStatus::Running };
        if is_start && is_expected {
            self.after -= 1;
            self.chunks.pop();
        }
    }
}

/// Moves the start of a character at the end of a chunk to the next chunk of its stream, if that
/// begins with the rest and no chunk is missed between them.
fn join(chunks: &mut [RawChunk]) {
    for at in 0..chunks.len() {
        let (before, after) = chunks.split_at_mut(at + 1);
        let Some(chunk) = before.last_mut() else { continue };
        let contiguous = after.iter_mut().zip(chunk.seq + 1..).take_while(|(next, seq)| next.seq == *seq);
        let Some((next, _)) = contiguous.into_iter().find(|(next, _)| next.stream == chunk.stream) else { continue };
        if next.bytes.first().is_some_and(|byte| (0x80..0xc0).contains(byte)) {
            let start = chunk.bytes.split_off(chunk.bytes.len() - incomplete_tail(&chunk.bytes));
            next.bytes.splice(..0, start);
        }
    }
}

/// Number of chunks that the box has counted; 0 if it does not know the exec.
async fn in_box(session: &OpenSession, exec: ExecId) -> u64 {
    let Some(workspace) = session.workspace() else { return 0 };
    let known = at_work(&*workspace).await.map(|at_work| at_work.execs).unwrap_or_default();
    known.into_iter().find(|known| known.exec == exec).map_or(0, |known| known.chunks)
}

fn stream_of(stream: BoxStream) -> OutputStream {
    match stream {
        BoxStream::Stdout => OutputStream::Stdout,
        BoxStream::Stderr => OutputStream::Stderr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(chunks: Vec<RawChunk>, status: ExecStatus, more: bool) -> RawPage {
        let (after, missed) = (chunks.last().map_or(0, |last| last.seq), Vec::new());
        RawPage { id: ExecId::from_bits(1), status, exit_code: None, chunks, missed, after, more }
    }

    fn texts(page: RawPage) -> (Vec<String>, u64) {
        let encode = |RawChunk { seq, stream, bytes }| Chunk::new(seq, stream, bytes);
        let page = page.encoded(encode);
        (page.chunks.into_iter().map(|chunk| chunk.data).collect(), page.after)
    }

    fn chunks(pieces: &[(u64, OutputStream, &[u8])]) -> Vec<RawChunk> {
        pieces
            .iter()
            .map(|(seq, stream, bytes)| RawChunk { seq: *seq, stream: *stream, bytes: bytes.to_vec() })
            .collect()
    }

    use OutputStream::{Stderr, Stdout};

    #[test]
    fn a_split_character_comes_with_its_last_byte() {
        let split =
            chunks(&[(1, Stdout, b"a\xf0"), (2, Stdout, b"\x9f"), (3, Stderr, b"oh"), (4, Stdout, b"\x98\x80b")]);
        let expected: Vec<String> = ["a", "", "oh", "😀b"].map(str::to_owned).into();
        assert_eq!(texts(page(split, ExecStatus::Running, false)), (expected, 4));
    }

    #[test]
    fn nothing_is_joined_across_missed_chunks() {
        let split = chunks(&[(1, Stdout, b"\xc3"), (3, Stdout, b"\xa9")]);
        assert_eq!(texts(page(split, ExecStatus::Running, false)).0, ["ww==", "qQ=="]);
    }

    #[test]
    fn the_start_of_a_character_waits_for_the_next_page_while_the_command_runs() {
        let split = chunks(&[(1, Stdout, b"a"), (2, Stdout, b"\xc3")]);
        assert_eq!(texts(page(split.clone(), ExecStatus::Running, false)), (vec!["a".to_owned()], 1));
        assert_eq!(texts(page(split.clone(), ExecStatus::Running, true)), (vec!["a".to_owned()], 1));
        assert_eq!(texts(page(split[1..].to_vec(), ExecStatus::Running, false)), (vec![], 1));
        assert_eq!(texts(page(split, ExecStatus::Finished, false)), (vec!["a".to_owned(), "ww==".to_owned()], 2));
    }
}
