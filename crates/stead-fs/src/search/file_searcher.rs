//! Searches one file: collects and shortens its matching lines.
//!
//! UTF-8 is searched as it is. Other text is decoded first. A file has to be checked for that only
//! if the pattern can match other characters than ASCII, or if something was found: ASCII is the
//! same in UTF-8 and in Latin-1.

use std::io::{self, Read};

use grep_matcher::LineTerminator;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::collector::Collector;
use super::grep::{GrepMatch, GrepMode, GrepQuery, LineSpan};
use super::matcher::LineMatcher;
use crate::encoding::{Encoding, TextCheck};
use crate::filesystem::{Content, ReadSeek};
use crate::path::WorkspacePath;

/// Files up to this size are read into memory; larger ones are streamed.
const SLURPED: u64 = 4 << 20;
/// Maximum length of a line in a streamed file, and maximum size of a file that is decoded.
const HEAP: usize = 16 << 20;

/// Searches files one after the other with the same buffers.
pub(super) struct FileSearcher<'a> {
    matcher: &'a LineMatcher,
    mode: GrepMode,
    searcher: Searcher,
    buffer: Vec<u8>,
    limit: usize,
}

/// The findings in one file. A binary file has none.
#[derive(Default)]
pub(super) struct FileFound {
    pub(super) matches: Vec<GrepMatch>,
    /// Number of matches. Only one is counted if the caller asks for files only.
    pub(super) count: u64,
    /// True if the search stopped before the end: a line was too long, or reading failed.
    pub(super) unfinished: bool,
}

impl<'a> FileSearcher<'a> {
    /// `limit` is the maximum number of matches with their lines.
    pub(super) fn new(matcher: &'a LineMatcher, query: &GrepQuery, limit: usize) -> Self {
        let (before, after) = match query.mode {
            GrepMode::Content { before, after } => (before, after),
            GrepMode::Files | GrepMode::Count => (0, 0),
        };
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP))
            .line_number(true)
            .multi_line(query.span == LineSpan::Several)
            .before_context(before)
            .after_context(after)
            // Lines that are not UTF-8 are found below.
            .bom_sniffing(false)
            .build();
        Self { matcher, mode: query.mode, searcher, buffer: Vec::new(), limit }
    }

    pub(super) fn search(&mut self, path: &WorkspacePath, content: Content) -> FileFound {
        match content {
            Content::Bytes(bytes) => self.search_whole(path, &bytes),
            Content::Stream { mut reader, size } if size <= SLURPED => self.slurped(path, &mut *reader, size),
            Content::Stream { reader, size } => self.search_stream(path, reader, size).unwrap_or_else(|_| unfinished()),
        }
    }

    fn slurped(&mut self, path: &WorkspacePath, reader: &mut dyn ReadSeek, size: u64) -> FileFound {
        let mut buffer = std::mem::take(&mut self.buffer);
        let found = match slurp(reader, size, &mut buffer) {
            Ok(()) => self.search_whole(path, &buffer),
            Err(_) => unfinished(),
        };
        self.buffer = buffer;
        found
    }

    fn search_whole(&mut self, path: &WorkspacePath, bytes: &[u8]) -> FileFound {
        match Encoding::of_mark(bytes) {
            Some(Encoding::Utf16Le | Encoding::Utf16Be) => return self.search_decoded(path, bytes),
            Some(Encoding::Utf8 | Encoding::Latin1) | None => {}
        }
        let text = Encoding::Utf8.without_mark(bytes);
        if self.matcher.rules_out(text) {
            return FileFound::default();
        }
        if !self.matcher.is_ascii() {
            return match Encoding::of(text) {
                Some(Encoding::Utf8) => self.search_slice(path, text, Encoding::Utf8),
                _ => self.search_decoded(path, bytes),
            };
        }
        let found = self.search_slice(path, text, Encoding::Utf8);
        match Encoding::of(if found.count > 0 { text } else { b"" }) {
            Some(Encoding::Utf8) => found,
            _ => self.search_decoded(path, bytes),
        }
    }

    /// Searches a content that is not UTF-8.
    fn search_decoded(&mut self, path: &WorkspacePath, bytes: &[u8]) -> FileFound {
        let Some(encoding) = Encoding::of(bytes) else { return FileFound::default() };
        if bytes.len() > HEAP {
            return unfinished();
        }
        let text = encoding.decode(encoding.without_mark(bytes));
        self.search_slice(path, text.as_bytes(), encoding)
    }

    fn search_slice(&mut self, path: &WorkspacePath, text: &[u8], encoding: Encoding) -> FileFound {
        let mut lines = Collector::new(self.matcher, path, self.mode, self.limit, encoding);
        let searched = self.searcher.search_slice(self.matcher, text, &mut lines);
        lines.into_found(&searched)
    }

    fn search_stream(
        &mut self,
        path: &WorkspacePath,
        mut reader: Box<dyn ReadSeek>,
        size: u64,
    ) -> io::Result<FileFound> {
        let mut start = Vec::with_capacity(3);
        reader.by_ref().take(3).read_to_end(&mut start)?;
        let mark = Encoding::of_mark(&start);
        let wide = matches!(mark, Some(Encoding::Utf16Le | Encoding::Utf16Be));
        let skipped = if mark == Some(Encoding::Utf8) { start.len() as u64 } else { 0 };
        let mut is_utf8 = !wide;
        if is_utf8 {
            reader.seek(io::SeekFrom::Start(skipped))?;
            let mut lines = Collector::new(self.matcher, path, self.mode, self.limit, Encoding::Utf8);
            let check = (!self.matcher.is_ascii()).then(TextCheck::default);
            let mut checked = CheckedReader { reader: &mut *reader, check, ended: false };
            let searched = self.searcher.search_reader(self.matcher, &mut checked, &mut lines);
            is_utf8 = checked.finish_as_utf8() && !lines.has_other_bytes();
            let found = lines.into_found(&searched);
            if is_utf8 {
                return Ok(found);
            }
        }
        if size > HEAP as u64 {
            return Ok(unfinished());
        }
        reader.rewind()?;
        let mut bytes = Vec::new();
        slurp(&mut *reader, size, &mut bytes)?;
        Ok(self.search_decoded(path, &bytes))
    }
}

fn unfinished() -> FileFound {
    FileFound { unfinished: true, ..FileFound::default() }
}

/// Reads as many bytes as the file had when it was opened, which saves a final read call.
fn slurp(reader: &mut dyn ReadSeek, size: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(usize::try_from(size).unwrap_or(0), 0);
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(())
}

/// Checks what passes through, if that is wanted.
struct CheckedReader<'a> {
    reader: &'a mut dyn ReadSeek,
    check: Option<TextCheck>,
    ended: bool,
}

impl CheckedReader<'_> {
    /// Returns true if everything was UTF-8. A search that stopped early may have stopped within a
    /// character.
    fn finish_as_utf8(self) -> bool {
        match self.check {
            None => true,
            Some(check) if self.ended => check.finish() != Some(Encoding::Latin1),
            Some(check) => !check.is_not_utf8(),
        }
    }
}

impl Read for CheckedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.ended = count == 0;
        if let Some(check) = &mut self.check {
            check.add(&buffer[..count]);
        }
        Ok(count)
    }
}
