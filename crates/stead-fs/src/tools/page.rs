//! Reads one page of a text from a stream in one pass: its lines, and the totals of the whole file.
//!
//! It needs memory for one page and one buffer, whatever the file's size.

use std::io::{self, Read};

use crate::digest::{Digest, Hasher};

pub(super) struct Page {
    /// The page's bytes, unchanged, with line ends.
    pub(super) content: Vec<u8>,
    /// Number of lines in the page, and in the file. A last line without an end counts.
    pub(super) lines: usize,
    pub(super) total_lines: usize,
    /// True if the page was cut because of its size, not its number of lines.
    pub(super) cut: bool,
    /// True if the file contains a NUL or is not UTF-8.
    pub(super) binary: bool,
    pub(super) hash: Digest,
}

/// The requested lines, and the maximum number of bytes.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) offset: usize,
    pub(super) limit: usize,
    pub(super) bytes: usize,
}

pub(super) fn read_page(mut reader: impl Read, window: Window) -> io::Result<Page> {
    let mut buffer = vec![0; 64 * 1024];
    let mut hasher = Hasher::default();
    let mut scan = Scan::new(window);
    let mut text = TextCheck::default();
    loop {
        let count = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let chunk = &buffer[..count];
        hasher.update(chunk);
        text.add(chunk);
        scan.add(chunk);
    }
    Ok(scan.finish(&text, hasher.finish()))
}

/// Like [`read_page`], for bytes in memory with a known hash.
pub(super) fn page_of(bytes: &[u8], window: Window, hash: Digest) -> Page {
    let mut scan = Scan::new(window);
    let mut text = TextCheck::default();
    text.add(bytes);
    scan.add(bytes);
    scan.finish(&text, hash)
}

struct Scan {
    window: Window,
    /// Number of line ends so far.
    line: usize,
    content: Vec<u8>,
    cut: bool,
    ends_in_newline: bool,
}

impl Scan {
    fn new(window: Window) -> Self {
        Self { window, line: 0, content: Vec::new(), cut: false, ends_in_newline: true }
    }

    fn finish(mut self, text: &TextCheck, hash: Digest) -> Page {
        let total_lines = self.line + usize::from(!self.ends_in_newline);
        self.trim_cut();
        let newlines = memchr::memchr_iter(b'\n', &self.content).count();
        let lines = newlines + usize::from(self.content.last().is_some_and(|last| *last != b'\n'));
        Page { lines, total_lines, cut: self.cut, binary: text.is_binary(), hash, content: self.content }
    }

    fn add(&mut self, chunk: &[u8]) {
        let end = self.window.offset.saturating_add(self.window.limit);
        let mut rest = chunk;
        while self.line < end && !rest.is_empty() {
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (piece, after) = rest.split_at(length);
            if self.line >= self.window.offset {
                self.take(piece);
            }
            self.line += usize::from(piece.ends_with(b"\n"));
            rest = after;
        }
        self.line += memchr::memchr_iter(b'\n', rest).count();
        if let Some(last) = chunk.last() {
            self.ends_in_newline = *last == b'\n';
        }
    }

    fn take(&mut self, piece: &[u8]) {
        let room = self.window.bytes - self.content.len();
        self.cut |= piece.len() > room;
        if !self.cut || room > 0 {
            self.content.extend_from_slice(&piece[..piece.len().min(room)]);
        }
    }

    /// Ends a cut page with a whole line, or, if it is one long line, with a whole character.
    fn trim_cut(&mut self) {
        if !self.cut {
            return;
        }
        let keep = match memchr::memrchr(b'\n', &self.content) {
            Some(at) => at + 1,
            None => match std::str::from_utf8(&self.content) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            },
        };
        self.content.truncate(keep);
    }
}

/// Checks whether a stream is text, chunk by chunk.
#[derive(Default)]
struct TextCheck {
    binary: bool,
    /// The start of a character that continues in the next chunk.
    begun: Vec<u8>,
}

impl TextCheck {
    fn add(&mut self, mut chunk: &[u8]) {
        if self.binary || memchr::memchr(0, chunk).is_some() {
            self.binary = true;
            return;
        }
        while !self.begun.is_empty() {
            let Some((first, rest)) = chunk.split_first() else { return };
            self.begun.push(*first);
            chunk = rest;
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) if error.error_len().is_some() => {
                    self.binary = true;
                    return;
                }
                Err(_) => {}
            }
        }
        if let Err(error) = std::str::from_utf8(chunk) {
            self.binary = error.error_len().is_some();
            self.begun.extend_from_slice(&chunk[error.valid_up_to()..]);
        }
    }

    fn is_binary(&self) -> bool {
        self.binary || !self.begun.is_empty()
    }
}
