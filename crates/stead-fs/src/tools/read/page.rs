//! Reads one page of a text from a stream in one pass: its lines, and the totals of the whole file.
//!
//! It needs memory for one page and one buffer, whatever the file's size.

use std::collections::VecDeque;
use std::io::{self, Read};
use stead_core::ContentHash;
use stead_core::content_hash::Hasher;

use super::encoded_size;
use super::feed::{Fed, Feed};
use crate::budget::{Budget, Shown};
use crate::encoding::Encoding;

pub(super) struct Page {
    /// The page's lines with line ends, as UTF-8. Empty for a binary file.
    pub(super) content: String,
    /// Number of lines in the page, and in the file. A last line without an end counts.
    pub(super) lines: usize,
    pub(super) total_lines: usize,
    /// True if the page ends inside its first line.
    pub(super) cut_line: bool,
    /// Position of the page's first byte in the file. Not known for UTF-16, see [`Self::cut_at`].
    pub(super) start: u64,
    /// Number of bytes of the page's first line, also if the page has only a part of it.
    pub(super) first_line: u64,
    /// `None` if the file is binary.
    pub(super) encoding: Option<Encoding>,
    pub(super) hash: ContentHash,
}

impl Page {
    /// The page of a binary file, whose content is not shown.
    pub(super) fn binary(hash: ContentHash) -> Self {
        let (content, encoding, cut_line) = (String::new(), None, false);
        Self { content, lines: 0, total_lines: 0, cut_line, start: 0, first_line: 0, encoding, hash }
    }

    /// Cuts the page to the budget.
    pub(super) fn fit(&mut self, budget: &mut Budget) {
        match budget.lines(&self.content) {
            Shown::Whole => return,
            Shown::Inside(end) => {
                self.content.truncate(end);
                self.cut_line = true;
            }
            Shown::Lines(end) => {
                self.content.truncate(end);
                self.cut_line = false;
            }
        }
        self.lines = count_lines(&self.content);
    }

    /// Drops the lines before a position in the content. Returns their number.
    pub(super) fn keep_end(&mut self, from: usize) -> usize {
        let dropped = count_lines(&self.content[..from]);
        if dropped > 0 {
            let encoded = |text: &str| self.encoding.map_or(0, |encoding| encoded_size(encoding, text));
            self.start += encoded(&self.content[..from]);
            self.content.drain(..from);
            let first = memchr::memchr(b'\n', self.content.as_bytes()).map_or(self.content.len(), |at| at + 1);
            self.first_line = self.encoding.map_or(0, |encoding| encoded_size(encoding, &self.content[..first]));
            self.lines -= dropped;
        }
        dropped
    }

    /// Position in the file where a cut first line goes on. `None` for UTF-16, whose positions are
    /// not counted.
    pub(super) fn cut_at(&self) -> Option<u64> {
        match self.encoding {
            Some(encoding @ (Encoding::Utf8 | Encoding::Latin1)) => {
                Some(self.start + encoded_size(encoding, &self.content))
            }
            _ => None,
        }
    }
}

/// Number of lines of a text. A last line without an end counts.
pub(super) fn count_lines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// The requested lines, and the maximum number of bytes.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) offset: usize,
    pub(super) limit: usize,
    pub(super) bytes: usize,
}

pub(super) fn read_page(reader: impl Read, window: Window) -> io::Result<Page> {
    let mut hasher = Hasher::default();
    let mut scan = Scan::new(window);
    let mut feed = Feed::default();
    each_chunk(reader, |chunk| {
        hasher.update(chunk);
        feed.add(chunk, &mut |text| scan.add(text));
    })?;
    let fed = feed.finish(&mut |text| scan.add(text));
    Ok(scan.finish(&fed, hasher.finish()))
}

/// Like [`read_page`], for bytes in memory with a known hash.
pub(super) fn page_of(bytes: &[u8], window: Window, hash: ContentHash) -> Page {
    let mut scan = Scan::new(window);
    let mut feed = Feed::default();
    // In pieces, because UTF-16 is copied.
    bytes.chunks(1 << 20).for_each(|chunk| feed.add(chunk, &mut |text| scan.add(text)));
    let fed = feed.finish(&mut |text| scan.add(text));
    scan.finish(&fed, hash)
}

/// Finds the page of the last lines that fit, at most `lines`.
pub(super) fn tail_window(reader: impl Read, lines: usize, bytes: usize) -> io::Result<Window> {
    let mut tail = Tail { lengths: VecDeque::new(), most: lines, open: 0, total: 0 };
    let mut feed = Feed::default();
    each_chunk(reader, |chunk| feed.add(chunk, &mut |text| tail.add(text)))?;
    feed.finish(&mut |text| tail.add(text));
    Ok(tail.window(bytes))
}

pub(super) fn each_chunk(mut reader: impl Read, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => each(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The lengths of the last lines of a stream.
struct Tail {
    lengths: VecDeque<usize>,
    most: usize,
    /// Length of the last line, which has no end yet.
    open: usize,
    total: usize,
}

impl Tail {
    fn add(&mut self, text: &[u8]) {
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', text) {
            self.open += end + 1 - from;
            from = end + 1;
            self.close();
        }
        self.open += text.len() - from;
    }

    fn close(&mut self) {
        self.lengths.push_back(std::mem::take(&mut self.open));
        self.total += 1;
        if self.lengths.len() > self.most {
            self.lengths.pop_front();
        }
    }

    fn window(mut self, bytes: usize) -> Window {
        if self.open > 0 {
            self.close();
        }
        let mut room = bytes;
        let fits = |length: &&usize| {
            let fits = **length <= room;
            room = room.saturating_sub(**length);
            fits
        };
        // A last line that is too long is cut by the page.
        let limit = self.lengths.iter().rev().take_while(fits).count().max(1);
        Window { offset: self.total.saturating_sub(limit), limit, bytes }
    }
}

struct Scan {
    window: Window,
    /// Number of line ends so far.
    line: usize,
    content: Vec<u8>,
    /// True if the page was cut because of its size, not its number of lines.
    cut: bool,
    start: u64,
    first_line: u64,
    ends_in_newline: bool,
}

impl Scan {
    fn new(window: Window) -> Self {
        let (start, first_line) = (0, 0);
        Self { window, line: 0, content: Vec::new(), cut: false, start, first_line, ends_in_newline: true }
    }

    fn finish(mut self, fed: &Fed, hash: ContentHash) -> Page {
        let encoding = fed.encoding;
        let total_lines = self.line + usize::from(!self.ends_in_newline);
        if self.cut {
            self.trim_cut(encoding);
        }
        let content = match encoding {
            // The feed has decoded UTF-16.
            Some(Encoding::Utf8 | Encoding::Utf16Le | Encoding::Utf16Be) => {
                String::from_utf8(self.content).unwrap_or_default()
            }
            Some(Encoding::Latin1) => Encoding::Latin1.decode(&self.content).into_owned(),
            None => String::new(),
        };
        let lines = count_lines(&content);
        let cut_line = self.cut && lines == 1 && !content.ends_with('\n');
        let (start, first_line) = (fed.mark + self.start, self.first_line);
        Page { content, lines, total_lines, cut_line, start, first_line, encoding, hash }
    }

    fn add(&mut self, chunk: &[u8]) {
        let end = self.window.offset.saturating_add(self.window.limit);
        let mut rest = chunk;
        while self.line < end && !rest.is_empty() {
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (piece, after) = rest.split_at(length);
            if self.line >= self.window.offset {
                self.take(piece);
            } else {
                self.start += piece.len() as u64;
            }
            if self.line == self.window.offset {
                self.first_line += piece.len() as u64;
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
    fn trim_cut(&mut self, encoding: Option<Encoding>) {
        let keep = match memchr::memrchr(b'\n', &self.content) {
            Some(at) => at + 1,
            None if encoding == Some(Encoding::Latin1) => self.content.len(),
            None => match std::str::from_utf8(&self.content) {
                Ok(text) => text.len(),
                Err(error) => error.valid_up_to(),
            },
        };
        self.content.truncate(keep);
    }
}
