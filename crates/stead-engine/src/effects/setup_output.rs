//! Records the output of a running setup command in the session's journal, so that clients can
//! follow it.
//!
//! The amount is bounded whatever the command writes: a batch has at most [`MOST_BYTES`], batches
//! come at growing intervals, and a command has at most [`MOST_BATCHES`] of them. The result of the
//! command has the start and the end of each stream in any case.

use std::collections::VecDeque;
use std::time::Duration;

use stead_core::event::{SetupChunk, SetupStream};
use stead_core::{Outcome, SessionId};
use stead_providers::OutputSink;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::effects::repository::tell;
use crate::engine::Engine;

/// Maximum number of bytes in one batch. The oldest are left out.
const MOST_BYTES: usize = 4 << 10;
/// Interval of the first batches. It doubles after each [`SAME_INTERVAL`] batches.
const INTERVAL: Duration = Duration::from_millis(250);
const SAME_INTERVAL: u32 = 64;
const MOST_BATCHES: u32 = 8 * SAME_INTERVAL;
/// Maximum number of chunks in one batch.
const MOST_CHUNKS: usize = 256;
/// How long the end of a command waits until its last output is recorded.
const LAST_BATCH: Duration = Duration::from_secs(10);

/// The task that records the output of one setup command.
pub(crate) struct Recorder(JoinHandle<()>);

impl Recorder {
    /// Starts the task. It ends when all clones of the sink are dropped.
    pub(crate) fn start(engine: &Engine, session: SessionId) -> (OutputSink, Self) {
        let (send, receive) = unbounded_channel();
        let engine_of_task = engine.clone();
        let task = engine.spawn(async move { record(&engine_of_task, session, receive).await });
        let sink = OutputSink::new(move |stream, bytes| {
            // The receiver is gone only if the server stops.
            let _ = send.send((stream, String::from_utf8_lossy(bytes).into_owned()));
        });
        (sink, Self(task))
    }

    /// Waits until everything that was received is recorded. The sink must be dropped before.
    pub(crate) async fn finish(self) {
        let _ = timeout(LAST_BATCH, self.0).await;
    }
}

type Piece = (SetupStream, String);

async fn record(engine: &Engine, session: SessionId, mut receive: UnboundedReceiver<Piece>) {
    for number in 0..MOST_BATCHES {
        let Some(first) = receive.recv().await else { return };
        let mut batch = Batch::default();
        batch.add(first);
        let until = Instant::now() + INTERVAL * 2u32.pow(number / SAME_INTERVAL);
        while let Ok(Some(piece)) = timeout_at(until, receive.recv()).await {
            batch.add(piece);
        }
        // Output that cannot be recorded now is dropped, because nothing depends on it.
        let _ = tell(engine, session, batch.into_outcome()).await;
    }
    // Empty the channel to the end, so that it does not grow.
    while receive.recv().await.is_some() {}
}

#[derive(Default)]
struct Batch {
    chunks: VecDeque<SetupChunk>,
    bytes: usize,
    omitted: u64,
}

impl Batch {
    fn add(&mut self, (stream, text): Piece) {
        self.bytes += text.len();
        match self.chunks.back_mut().filter(|last| last.stream == stream) {
            Some(last) => last.text.push_str(&text),
            None => self.chunks.push_back(SetupChunk { stream, text }),
        }
        while self.bytes > MOST_BYTES || self.chunks.len() > MOST_CHUNKS {
            self.leave_out_oldest();
        }
    }

    /// Leaves out as much of the oldest chunk as is too much, or all of it.
    fn leave_out_oldest(&mut self) {
        let Some(oldest) = self.chunks.front_mut() else { return };
        let excess = match self.bytes.saturating_sub(MOST_BYTES) {
            0 => oldest.text.len(),
            excess => {
                (excess..oldest.text.len()).find(|at| oldest.text.is_char_boundary(*at)).unwrap_or(oldest.text.len())
            }
        };
        self.bytes -= excess;
        self.omitted += excess as u64;
        if excess >= oldest.text.len() {
            self.chunks.pop_front();
        } else {
            oldest.text.drain(..excess);
        }
    }

    fn into_outcome(self) -> Outcome {
        Outcome::SetupOutput { chunks: self.chunks.into(), omitted: self.omitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_keeps_the_newest_output_and_counts_the_rest() {
        let mut batch = Batch::default();
        batch.add((SetupStream::Stdout, "x".repeat(3_000)));
        batch.add((SetupStream::Stderr, "é".repeat(1_000)));
        let (kept, omitted) = (batch.bytes, batch.omitted);
        assert!(kept <= MOST_BYTES && kept as u64 + omitted == 5_000, "{kept} {omitted}");
        assert_eq!(batch.chunks[1].text, "é".repeat(1_000));
        batch.add((SetupStream::Stderr, "z".repeat(9_000)));
        assert_eq!(batch.chunks.len(), 1);
        assert_eq!(batch.chunks[0].text, "z".repeat(MOST_BYTES));
        assert_eq!(batch.omitted, 5_000 + 9_000 - MOST_BYTES as u64);
    }
}
