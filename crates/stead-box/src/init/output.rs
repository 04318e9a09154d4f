//! The kept output of a command: the start and end of each stream for the result, and the latest
//! output of both for followers.
//!
//! The invariant: the limits bound the memory, whatever the command writes, and everything that is
//! dropped is counted.

use std::collections::VecDeque;

use stead_fs::incomplete_tail;

use crate::protocol::{FullBuffer, Kept, OutputLimits, Stream};

/// Maximum number of bytes of a chunk. A byte takes at most six bytes of JSON, so that a chunk fits
/// into an answer of the default size, whatever it contains.
const CHUNK: usize = 8 << 10;
/// Cost of a chunk in addition to its bytes, so that many tiny chunks stay within the limit.
const OVERHEAD: usize = 64;
/// Upper bounds for the limits in a request.
const MOST_KEPT: u64 = 3 << 20;
const MOST_RING: u64 = 8 << 20;

pub(super) struct Output {
    stdout: Ends,
    stderr: Ends,
    splitter: [Splitter; 2],
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
            splitter: <[Splitter; 2]>::default(),
            ring: VecDeque::new(),
            first: 0,
            ring_bytes: 0,
            ring_limit,
            unread: limits.unread,
            undelivered: 0,
        }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let (ends, splitter) = match stream {
            Stream::Stdout => (&mut self.stdout, &mut self.splitter[0]),
            Stream::Stderr => (&mut self.stderr, &mut self.splitter[1]),
        };
        ends.push(bytes);
        for chunk in splitter.split(bytes) {
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

/// Splits the output of a stream into chunks between characters of UTF-8.
///
/// A command may write a character in two parts. Each part is then a chunk of its own, so that the
/// chunks around them are text. No byte waits for the next one: a reader of a binary protocol gets
/// all output at once.
#[derive(Default)]
struct Splitter {
    /// Number of bytes that complete the character at the end of the last chunk.
    expected: usize,
}

impl Splitter {
    fn split<'a>(&mut self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let rest_of_character = bytes.iter().take(self.expected).take_while(|byte| (0x80..0xc0).contains(*byte));
        let (rest, mut text) = bytes.split_at(rest_of_character.count());
        self.expected = if text.is_empty() { self.expected - rest.len() } else { 0 };
        let mut chunks = vec![rest];
        while text.len() > CHUNK {
            let (chunk, more) = text.split_at(CHUNK - incomplete_tail(&text[..CHUNK]));
            chunks.push(chunk);
            text = more;
        }
        let (whole, start) = text.split_at(text.len() - incomplete_tail(text));
        if let Some(first) = start.first() {
            self.expected = first.leading_ones() as usize - start.len();
        }
        chunks.extend([whole, start]);
        chunks.retain(|chunk| !chunk.is_empty());
        chunks
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
    fn only_the_parts_of_a_split_character_are_not_text() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.split("né".as_bytes()), ["né".as_bytes()]);
        assert_eq!(splitter.split(b"caf\xf0\x9f"), [&b"caf"[..], b"\xf0\x9f"]);
        assert_eq!(splitter.split(b"\x98"), [b"\x98"]);
        assert_eq!(splitter.split(b"\x80 end \xc3"), [&b"\x80"[..], b" end ", b"\xc3"]);
        // The command goes on with something else than the end of the character.
        assert_eq!(splitter.split(b"abc"), [b"abc"]);
        assert_eq!(splitter.split(b"\xa9"), [b"\xa9"]);
        let long = "é".repeat(CHUNK);
        let text = format!("a{long}");
        let chunks = splitter.split(text.as_bytes());
        assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK && std::str::from_utf8(chunk).is_ok()));
        assert_eq!(chunks.concat(), text.as_bytes());
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
