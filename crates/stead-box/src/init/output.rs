//! The kept output of a command: the start and end of each stream for the result, and the latest
//! output of both for followers.
//!
//! The invariant: the limits bound the memory, whatever the command writes, and everything that is
//! dropped is counted.

use std::collections::VecDeque;

use crate::protocol::{CHUNK, FullBuffer, Kept, OutputLimits, Stream};

/// Cost of a chunk in addition to its bytes, so that many tiny chunks stay within the limit.
const OVERHEAD: usize = 64;
/// Upper bounds for the limits in a request.
const MOST_KEPT: u64 = 3 << 20;
const MOST_RING: u64 = 8 << 20;

pub(super) struct Output {
    stdout: Ends,
    stderr: Ends,
    ring: VecDeque<(Stream, Vec<u8>)>,
    /// Number of the first chunk in the ring.
    first: u64,
    ring_bytes: usize,
    ring_limit: usize,
    unread: FullBuffer,
    /// Number of the first chunk that was sent to no follower.
    undelivered: u64,
}

impl Output {
    pub(super) fn new(limits: OutputLimits) -> Self {
        let half = limits.kept_bytes.min(MOST_KEPT) as usize / 2;
        let ring_limit = limits.ring_bytes.min(MOST_RING) as usize;
        let ends = || Ends { limit: half, total: 0, head: Vec::new(), tail: VecDeque::new() };
        Self {
            stdout: ends(),
            stderr: ends(),
            ring: VecDeque::new(),
            first: 0,
            ring_bytes: 0,
            ring_limit,
            unread: limits.unread,
            undelivered: 0,
        }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.push(bytes),
            Stream::Stderr => self.stderr.push(bytes),
        }
        for chunk in bytes.chunks(CHUNK) {
            self.ring_bytes += chunk.len() + OVERHEAD;
            self.ring.push_back((stream, chunk.to_vec()));
        }
        while self.ring_bytes > self.ring_limit && (self.unread == FullBuffer::Drop || self.first < self.undelivered) {
            let Some((_, dropped)) = self.ring.pop_front() else { break };
            self.ring_bytes -= dropped.len() + OVERHEAD;
            self.first += 1;
        }
    }

    /// Records that a follower has all chunks before `next`.
    pub(super) fn delivered(&mut self, next: u64) {
        self.undelivered = self.undelivered.max(next);
    }

    /// Returns true if the command must wait for a reader.
    pub(super) fn waits(&self) -> bool {
        self.unread == FullBuffer::Wait && self.ring_bytes >= self.ring_limit && self.first >= self.undelivered
    }

    pub(super) fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    pub(super) fn empty_ring(&mut self) {
        self.first = self.chunks();
        self.ring = VecDeque::new();
        self.ring_bytes = 0;
    }

    /// Returns the number of chunks so far.
    pub(super) fn chunks(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Returns chunk `number`, or the oldest later one that is still kept.
    pub(super) fn chunk(&self, number: u64) -> Option<(u64, Stream, &[u8])> {
        let number = number.max(self.first);
        let index = usize::try_from(number - self.first).ok()?;
        self.ring.get(index).map(|(stream, bytes)| (number, *stream, bytes.as_slice()))
    }

    /// Returns the kept lengths of both streams and their bytes. Later output is not part of the
    /// result and only goes to the ring buffer.
    pub(super) fn take_ends(&mut self) -> (Kept, Kept, Vec<u8>) {
        let mut bytes = Vec::new();
        let mut take = |ends: &mut Ends| {
            let kept = ends.kept();
            bytes.append(&mut ends.head);
            bytes.extend(std::mem::take(&mut ends.tail));
            ends.limit = 0;
            kept
        };
        let (stdout, stderr) = (take(&mut self.stdout), take(&mut self.stderr));
        (stdout, stderr, bytes)
    }
}

/// The start and the end of a stream.
struct Ends {
    /// Maximum size of each part.
    limit: usize,
    total: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
}

impl Ends {
    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.limit - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.limit)..];
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.limit);
        self.tail.drain(..excess);
    }

    fn kept(&self) -> Kept {
        Kept { total: self.total, head: self.head.len() as u64, tail: self.tail.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_kept_and_everything_is_counted() {
        for pieces in [1, 3, 7, 1000] {
            let text: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
            let mut output = Output::new(OutputLimits { kept_bytes: 20, ring_bytes: 0, unread: FullBuffer::Drop });
            text.chunks(pieces).for_each(|piece| output.push(Stream::Stdout, piece));
            let (stdout, stderr, bytes) = output.take_ends();
            assert_eq!(stdout, Kept { total: 1000, head: 10, tail: 10 });
            assert_eq!(stderr, Kept::default());
            assert_eq!(bytes, [&text[..10], &text[990..]].concat());
        }
    }

    #[test]
    fn short_output_is_whole() {
        let mut output = Output::new(OutputLimits { kept_bytes: 20, ring_bytes: 1000, unread: FullBuffer::Drop });
        output.push(Stream::Stdout, b"hello ");
        output.push(Stream::Stderr, b"oh");
        output.push(Stream::Stdout, b"there you");
        let (stdout, _, bytes) = output.take_ends();
        assert!(!stdout.truncated());
        assert_eq!(bytes, b"hello there youoh");
        assert_eq!(output.chunk(1), Some((1, Stream::Stderr, b"oh".as_slice())));
    }

    #[test]
    fn the_ring_forgets_the_oldest_and_says_where_it_begins() {
        let mut output = Output::new(OutputLimits {
            kept_bytes: 0,
            ring_bytes: 10 * (OVERHEAD as u64 + 1),
            unread: FullBuffer::Drop,
        });
        (0..100u8).for_each(|n| output.push(Stream::Stdout, &[n]));
        assert_eq!(output.chunks(), 100);
        assert_eq!(output.chunk(0), Some((90, Stream::Stdout, [90].as_slice())));
        assert_eq!(output.chunk(99), Some((99, Stream::Stdout, [99].as_slice())));
        assert_eq!(output.chunk(100), None);
    }
}
