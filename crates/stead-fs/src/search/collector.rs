//! Collects the matches of one file, with the lines around them.

use std::collections::VecDeque;
use std::io;

use grep_matcher::Matcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::file_searcher::FileFound;
use super::grep::{GrepMatch, GrepMode};
use super::matcher::LineMatcher;
use crate::encoding::Encoding;
use crate::path::WorkspacePath;

/// Maximum number of characters shown of a line, and how many of them precede the match.
const SHOWN_CHARS: usize = 1_000;
const CONTEXT_CHARS: usize = 200;

/// Maximum size of the collected lines around matches, in bytes. The lines of several matches
/// overlap, so they can take much more memory than the searched files.
pub(super) const MAX_CONTEXT_BYTES: usize = 16 << 20;

pub(super) struct Collector<'a> {
    matcher: &'a LineMatcher,
    path: &'a WorkspacePath,
    mode: GrepMode,
    limit: usize,
    encoding: Encoding,
    found: Vec<GrepMatch>,
    count: u64,
    /// The last lines, as many as are shown before a match.
    recent: VecDeque<(u64, String)>,
    /// Size of the lines around the matches so far.
    context_bytes: usize,
    /// The line after which the search ends, because there are too many lines around matches.
    ends_at: Option<u64>,
    binary: bool,
    other_bytes: bool,
}

impl<'a> Collector<'a> {
    pub(super) fn new(
        matcher: &'a LineMatcher,
        path: &'a WorkspacePath,
        mode: GrepMode,
        limit: usize,
        encoding: Encoding,
    ) -> Self {
        let (found, recent) = (Vec::new(), VecDeque::new());
        Self {
            matcher,
            path,
            mode,
            limit,
            encoding,
            found,
            count: 0,
            recent,
            context_bytes: 0,
            ends_at: None,
            binary: false,
            other_bytes: false,
        }
    }

    /// Returns true if a line with a match is not UTF-8.
    pub(super) fn has_other_bytes(&self) -> bool {
        self.other_bytes && !self.binary
    }

    pub(super) fn into_found(self, searched: &io::Result<()>) -> FileFound {
        if self.binary {
            return FileFound::default();
        }
        FileFound { matches: self.found, count: self.count, unfinished: searched.is_err() }
    }

    /// Adds a line to the context of the matches around it.
    fn see(&mut self, number: u64, text: &str) {
        let GrepMode::Content { before, after } = self.mode else { return };
        let near = |found: &&mut GrepMatch| number <= found.last_line.saturating_add(after as u64);
        for found in self.found.iter_mut().rev().take_while(near) {
            if number > found.last_line {
                self.context_bytes += line_bytes(text);
                found.after.push(text.to_owned());
            }
        }
        if before > 0 {
            self.recent.push_back((number, text.to_owned()));
            if self.recent.len() > before {
                self.recent.pop_front();
            }
        }
    }

    fn context_before(&self, line: u64) -> Vec<String> {
        let GrepMode::Content { before, .. } = self.mode else { return Vec::new() };
        let first = line.saturating_sub(before as u64);
        self.recent.iter().filter(|(number, _)| *number >= first).map(|(_, text)| text.clone()).collect()
    }
}

impl Sink for Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        self.other_bytes |= std::str::from_utf8(matched.bytes()).is_err();
        match self.mode {
            GrepMode::Files => return Ok(false),
            GrepMode::Count => return Ok(true),
            GrepMode::Content { .. } => {}
        }
        let lines = without_end(matched.bytes());
        let start = self.matcher.find(lines).ok().flatten().map_or(0, |found| found.start());
        let column = String::from_utf8_lossy(&lines[..start]).chars().count();
        let line = matched.line_number().unwrap_or(0);
        let is_over = self.context_bytes > MAX_CONTEXT_BYTES;
        let before = if is_over { Vec::new() } else { self.context_before(line) };
        self.context_bytes += before.iter().map(|text| line_bytes(text)).sum::<usize>();
        let last_line = line + memchr::memchr_iter(b'\n', lines).count() as u64;
        if !matches!(self.mode, GrepMode::Content { before: 0, after: 0 }) {
            // The lines of a match are also context of the matches around it.
            for (number, text) in (line..).zip(lines.split(|byte| *byte == b'\n')) {
                self.see(number, &shown(without_end(text), 0));
            }
        }
        if let Some(end) = self.ends_at {
            return Ok(line < end);
        }
        if is_over {
            // This match is only kept as a sign of more. The earlier ones still get the lines after
            // them.
            let after = if let GrepMode::Content { after, .. } = self.mode { after as u64 } else { 0 };
            self.ends_at = self.found.last().map(|last| last.last_line.saturating_add(after));
        }
        self.found.push(GrepMatch {
            path: self.path.clone(),
            line,
            last_line,
            column: column as u64 + 1,
            text: shown(lines, column),
            before,
            after: Vec::new(),
            encoding: self.encoding,
        });
        Ok(self.found.len() < self.limit && self.ends_at.is_none_or(|end| line < end))
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let text = shown(without_end(context.bytes()), 0);
        self.see(context.line_number().unwrap_or(0), &text);
        Ok(true)
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

/// Memory that a line of context takes.
pub(super) const fn line_bytes(text: &str) -> usize {
    text.len() + size_of::<String>()
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
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
