//! Output of ended commands whose box has been stopped.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use stead_core::ExecId;

use crate::contract::execs::{ExecError, Followed, Following, OutputStream};

/// Maximum bytes for all commands of one box; the oldest entries are dropped first.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub(super) seq: u64,
    pub(super) stream: OutputStream,
    pub(super) bytes: Vec<u8>,
}

#[derive(Default)]
pub(super) struct OutputCache(Mutex<VecDeque<(ExecId, Arc<[Chunk]>)>>);

fn size(chunks: &[Chunk]) -> usize {
    chunks.iter().map(|chunk| chunk.bytes.len()).sum()
}

impl OutputCache {
    pub(super) fn keep(&self, exec: ExecId, chunks: Vec<Chunk>) {
        // Entries are pushed and popped whole, so a panic cannot leave the queue inconsistent.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((exec, chunks.into()));
        let mut bytes: usize = kept.iter().map(|(_, chunks)| size(chunks)).sum();
        while bytes > MOST_BYTES
            && let Some((_, oldest)) = kept.pop_front()
        {
            bytes -= size(&oldest);
        }
    }

    pub(super) fn reader(&self, exec: ExecId, after: u64) -> Option<Reader> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let chunks = kept.iter().find(|(known, _)| *known == exec).map(|(_, chunks)| chunks.clone())?;
        let next = chunks.partition_point(|chunk| chunk.seq <= after);
        Some(Reader { chunks, next })
    }
}

pub(super) struct Reader {
    chunks: Arc<[Chunk]>,
    next: usize,
}

#[async_trait]
impl Following for Reader {
    async fn next(&mut self) -> Result<Followed, ExecError> {
        let chunk = self.chunks.get(self.next).cloned();
        self.next += 1;
        Ok(match chunk {
            Some(Chunk { seq, stream, bytes }) => Followed::Output { seq, stream, bytes },
            None => Followed::Ended,
        })
    }
}
