//! Frames. Both lengths come first and are checked, and memory is only allocated as bytes arrive.

use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::Request;

/// Maximum sizes of one kind of frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    /// A head and a body together.
    total: usize,
    /// A head alone. File contents, output, and arguments of tools are in the body.
    head: usize,
}

/// Maximum size of a reply, which the server reads from a box.
pub const MAX_FRAME: usize = 8 << 20;
const REPLY: Sizes = Sizes { total: MAX_FRAME, head: 1 << 20 };
/// A request is larger than a reply: it holds the arguments of a tool call, of which the server
/// accepts 16 MiB, or a command with its environment.
const REQUEST: Sizes = Sizes { total: 24 << 20, head: 8 << 20 };
const PREFIX: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("a frame of {bytes} bytes, where at most {most} are allowed")]
    TooLong { bytes: u64, most: usize },
    #[error("a frame whose head has {head} bytes, of {total} in all")]
    BadHead { head: u64, total: u64 },
    #[error("a head that is not a message")]
    NotAMessage(#[source] serde_json::Error),
    #[error("unexpected answer {what}")]
    Unexpected { what: &'static str },
    #[error("it speaks version {theirs} of the protocol, this is version {ours}")]
    Version { ours: u32, theirs: u32 },
}

/// Encodes a reply of a box.
pub fn encode<T: Serialize>(head: &T, body: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    encode_within(REPLY, head, body)
}

/// Encodes a request to a box.
pub fn encode_request(head: &Request, body: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    encode_within(REQUEST, head, body)
}

fn encode_within<T: Serialize>(sizes: Sizes, head: &T, body: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    let head = serde_json::to_vec(head).map_err(ProtocolError::NotAMessage)?;
    let total = head.len() + body.len();
    check(sizes, head.len() as u64, total as u64)?;
    let mut frame = Vec::with_capacity(PREFIX + total);
    // Both lengths fit into 32 bits, because they are within the sizes.
    frame.extend_from_slice(&(total as u32).to_le_bytes());
    frame.extend_from_slice(&(head.len() as u32).to_le_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(body);
    Ok(frame)
}

fn check(sizes: Sizes, head: u64, total: u64) -> Result<(), ProtocolError> {
    if total > sizes.total as u64 {
        return Err(ProtocolError::TooLong { bytes: total, most: sizes.total });
    }
    if head > total || head > sizes.head as u64 {
        return Err(ProtocolError::BadHead { head, total });
    }
    Ok(())
}

/// Returns the length of the head and the total length.
fn lengths(sizes: Sizes, prefix: [u8; PREFIX]) -> Result<(usize, usize), ProtocolError> {
    let [a, b, c, d, e, f, g, h] = prefix;
    let (total, head) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    check(sizes, head.into(), total.into())?;
    Ok((head as usize, total as usize))
}

/// Error of a blocking read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// Reads one reply, blocking.
pub(crate) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> Result<(T, Vec<u8>), ReadError> {
    let mut prefix = [0; PREFIX];
    from.read_exact(&mut prefix)?;
    let (head, total) = lengths(REPLY, prefix)?;
    // The buffer grows as bytes arrive, so that announcing 8 MiB without sending them costs
    // nothing.
    let mut bytes = Vec::with_capacity(total.min(64 << 10));
    from.take(total as u64).read_to_end(&mut bytes)?;
    if bytes.len() < total {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let body = bytes.split_off(head);
    Ok((serde_json::from_slice(&bytes).map_err(ProtocolError::NotAMessage)?, body))
}

/// Reads one reply from a complete buffer.
pub fn read_frame<T: DeserializeOwned>(bytes: &[u8]) -> Result<Option<(T, Vec<u8>)>, ProtocolError> {
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    decoder.take()
}

/// Collects incoming bytes and returns complete frames: replies by default.
pub struct Decoder {
    buffer: Vec<u8>,
    sizes: Sizes,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { buffer: Vec::new(), sizes: REPLY }
    }
}

impl Decoder {
    pub fn of_requests() -> Self {
        Self { buffer: Vec::new(), sizes: REQUEST }
    }

    /// Returns true if no byte is left that [`Decoder::take`] has not returned.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame. After an error the connection must be closed, because the
    /// frame boundary is lost.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<(T, Vec<u8>)>, ProtocolError> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let (head, total) = lengths(self.sizes, *prefix)?;
        if self.buffer.len() < PREFIX + total {
            return Ok(None);
        }
        let message =
            serde_json::from_slice(&self.buffer[PREFIX..PREFIX + head]).map_err(ProtocolError::NotAMessage)?;
        let body = self.buffer[PREFIX + head..PREFIX + total].to_vec();
        self.buffer.drain(..PREFIX + total);
        if self.buffer.is_empty() && self.buffer.capacity() > 64 << 10 {
            self.buffer = Vec::new();
        }
        Ok(Some((message, body)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut bytes = encode(&"one", b"body").unwrap();
        bytes.extend(encode(&"two", b"").unwrap());
        for step in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
            for piece in bytes.chunks(step) {
                decoder.push(piece);
                while let Some(frame) = decoder.take().unwrap() {
                    seen.push(frame);
                }
            }
            assert_eq!(seen, [("one".to_owned(), b"body".to_vec()), ("two".to_owned(), Vec::new())]);
        }
    }

    #[test]
    fn lengths_that_lie_are_refused_before_anything_is_read() {
        let frame = |total: u32, head: u32| [total.to_le_bytes(), head.to_le_bytes()].concat();
        for (total, head) in [(u32::MAX, 0), (u32::MAX, u32::MAX), (4, 5), (MAX_FRAME as u32, 2 << 20)] {
            assert!(read_frame::<String>(&frame(total, head)).is_err(), "{total} {head}");
            assert!(receive::<String>(&mut frame(total, head).as_slice()).is_err());
        }
        // Announced but not sent: an error, without an allocation of 8 MiB.
        assert!(matches!(receive::<String>(&mut frame(8 << 20, 1).as_slice()), Err(ReadError::Io(_))));
        assert!(read_frame::<String>(&frame(8 << 20, 1)).unwrap().is_none());
    }
}
