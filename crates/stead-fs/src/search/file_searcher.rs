//! Searches one file: collects and shortens its matching lines.

use std::io::{self, Read};

use grep_matcher::{LineTerminator, Matcher};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};

use super::grep::GrepMatch;
use super::matcher::LineMatcher;
use crate::filesystem::Content;
use crate::path::WorkspacePath;

/// Files up to this size are read into memory; larger ones are streamed.
const SLURPED: u64 = 4 << 20;
/// Maximum length of a line in a streamed file.
const HEAP: usize = 16 << 20;
/// Maximum number of characters shown of a line, and how many of them precede the match.
const SHOWN_CHARS: usize = 1_000;
const CONTEXT_CHARS: usize = 200;

/// Searches files one after the other with the same buffers.
pub(super) struct FileSearcher<'a> {
    matcher: &'a LineMatcher,
    searcher: Searcher,
    buffer: Vec<u8>,
    limit: usize,
}

/// The lines found. A binary file has none.
pub(super) struct Lines {
    pub(super) found: Vec<GrepMatch>,
    /// True if the search stopped before the end: a line was too long, or reading failed.
    pub(super) unfinished: bool,
}

impl<'a> FileSearcher<'a> {
    pub(super) fn new(matcher: &'a LineMatcher, limit: usize) -> Self {
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP))
            .line_number(true)
            .build();
        Self { matcher, searcher, buffer: Vec::new(), limit }
    }

    pub(super) fn search(&mut self, path: &WorkspacePath, content: Content) -> Lines {
        let mut lines = Collector { matcher: self.matcher, path, limit: self.limit, found: Vec::new(), binary: false };
        let searched = match content {
            Content::Bytes(bytes) => self.searcher.search_slice(self.matcher, &bytes, &mut lines),
            Content::Stream { mut reader, size } if size <= SLURPED => slurp(&mut reader, size, &mut self.buffer)
                .and_then(|()| self.searcher.search_slice(self.matcher, &self.buffer, &mut lines)),
            Content::Stream { reader, .. } => self.searcher.search_reader(self.matcher, reader, &mut lines),
        };
        if lines.binary {
            return Lines { found: Vec::new(), unfinished: false };
        }
        Lines { found: lines.found, unfinished: searched.is_err() }
    }
}

/// Reads as many bytes as the file had when it was opened, which saves a final read call.
fn slurp(reader: &mut dyn Read, size: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
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

struct Collector<'a> {
    matcher: &'a LineMatcher,
    path: &'a WorkspacePath,
    limit: usize,
    found: Vec<GrepMatch>,
    binary: bool,
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        let line = matched.bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let start = self.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        let before = String::from_utf8_lossy(&line[..start]).chars().count();
        self.found.push(GrepMatch {
            path: self.path.clone(),
            line: matched.line_number().unwrap_or(0),
            column: before as u64 + 1,
            text: shown(line, before),
        });
        Ok(self.found.len() < self.limit)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// The line, or for a long line the part around its match.
fn shown(line: &[u8], before: usize) -> String {
    let text = String::from_utf8_lossy(line);
    if line.len() <= SHOWN_CHARS || text.chars().nth(SHOWN_CHARS).is_none() {
        return text.into_owned();
    }
    let from = before.saturating_sub(CONTEXT_CHARS);
    let mut part: String = if from > 0 { "…".to_owned() } else { String::new() };
    part.extend(text.chars().skip(from).take(SHOWN_CHARS));
    if text.chars().nth(from + SHOWN_CHARS).is_some() {
        part.push('…');
    }
    part
}
