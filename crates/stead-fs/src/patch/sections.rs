//! Reads the text of a patch, as [`Patch::text`](super::Patch) has it.
//!
//! A patch may come from an agent, so every count is checked and every name must be a
//! [`WorkspacePath`].

use super::apply::ApplyError;
use super::apply_hunks::Hunk;
use super::quote;
use crate::path::WorkspacePath;

/// The part of a patch about one path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section<'a> {
    pub(super) path: WorkspacePath,
    pub(super) step: Step,
    /// True if the section says only that the contents differ.
    pub(super) is_binary: bool,
    pub(super) hunks: Vec<Hunk<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Create(Mode),
    Delete,
    /// With the mode that the file gets, if the patch changes it.
    Modify(Option<Mode>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Plain,
    Executable,
    Link,
}

impl Mode {
    fn read(text: &str) -> Option<Self> {
        match text {
            "100644" => Some(Self::Plain),
            "100755" => Some(Self::Executable),
            "120000" => Some(Self::Link),
            _ => None,
        }
    }
}

/// The sections of a patch, in its order.
pub(super) fn read(text: &str) -> Result<Vec<Section<'_>>, ApplyError> {
    let mut lines = Lines { rest: text, number: 0, next: None };
    let mut sections = Vec::new();
    while let Some(line) = lines.peek() {
        let header = line.strip_prefix("diff --git ").ok_or_else(|| lines.malformed())?;
        let path = header_path(header.trim_end_matches('\n')).ok_or_else(|| lines.malformed())?;
        lines.advance();
        sections.push(section(path, &mut lines)?);
    }
    Ok(sections)
}

fn section<'a>(path: WorkspacePath, lines: &mut Lines<'a>) -> Result<Section<'a>, ApplyError> {
    let mut section = Section { path, step: Step::Modify(None), is_binary: false, hunks: Vec::new() };
    while let Some(line) = lines.peek() {
        let text = line.trim_end_matches('\n');
        let mode = |text: &str| Mode::read(text).ok_or_else(|| lines.malformed());
        if text.starts_with("diff --git ") {
            break;
        } else if let Some(text) = text.strip_prefix("new file mode ") {
            section.step = Step::Create(mode(text)?);
        } else if let Some(text) = text.strip_prefix("deleted file mode ") {
            mode(text)?;
            section.step = Step::Delete;
        } else if let Some(text) = text.strip_prefix("new mode ") {
            section.step = Step::Modify(Some(mode(text)?));
        } else if text.starts_with("Binary files ") {
            section.is_binary = true;
        } else if let Some(ranges) = text.strip_prefix("@@ ") {
            let hunk = hunk(ranges, lines)?;
            section.hunks.push(hunk);
            continue;
        } else if !["old mode ", "--- ", "+++ "].iter().any(|known| text.starts_with(known)) {
            return Err(lines.malformed());
        }
        lines.advance();
    }
    Ok(section)
}

/// Reads the lines of one hunk, as many as its header says.
fn hunk<'a>(ranges: &str, lines: &mut Lines<'a>) -> Result<Hunk<'a>, ApplyError> {
    let (start, mut old_left, mut new_left) = read_ranges(ranges).ok_or_else(|| lines.malformed())?;
    lines.advance();
    let mut hunk = Hunk { start, old: Vec::new(), new: Vec::new(), leading: 0, trailing: 0 };
    let mut changed = false;
    while old_left > 0 || new_left > 0 {
        let line = lines.peek().ok_or_else(|| lines.malformed())?;
        let (sign, content) = line.split_at_checked(1).ok_or_else(|| lines.malformed())?;
        lines.advance();
        // A marker line follows a last line without a line end.
        let bare = lines.peek().is_some_and(|next| next.starts_with('\\'));
        let content = if bare { content.strip_suffix('\n').unwrap_or(content) } else { content };
        if bare {
            lines.advance();
        }
        let (of_old, of_new) = match sign {
            " " => (true, true),
            "-" => (true, false),
            "+" => (false, true),
            _ => return Err(lines.malformed()),
        };
        if of_old {
            old_left = old_left.checked_sub(1).ok_or_else(|| lines.malformed())?;
            hunk.old.push(content.as_bytes());
        }
        if of_new {
            new_left = new_left.checked_sub(1).ok_or_else(|| lines.malformed())?;
            hunk.new.push(content.as_bytes());
        }
        if of_old && of_new {
            hunk.leading += usize::from(!changed);
            hunk.trailing += 1;
        } else {
            changed = true;
            hunk.trailing = 0;
        }
    }
    Ok(hunk)
}

/// Reads `-START,COUNT +START,COUNT @@`: returns the first start, counted from 1, and both counts.
fn read_ranges(text: &str) -> Option<(usize, usize, usize)> {
    let (old, new) = text.strip_suffix(" @@")?.split_once(' ')?;
    let range = |text: &str, sign: char| {
        let (start, count) = text.strip_prefix(sign)?.split_once(',')?;
        Some((start.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
    };
    let ((start, old), (_, new)) = (range(old, '-')?, range(new, '+')?);
    Some((start, old, new))
}

/// Reads the path of `a/PATH b/PATH`, quoted or not. Both must be the same path.
fn header_path(header: &str) -> Option<WorkspacePath> {
    // Both halves have the same length, with a space between them.
    let middle = header.len().checked_sub(1)? / 2;
    let (from, to) = (header.get(..middle)?, header.get(middle..)?.strip_prefix(' ')?);
    let name = |half: &str, prefix: &[u8]| quote::unquoted(half)?.strip_prefix(prefix).map(<[u8]>::to_vec);
    let (from, to) = (name(from, b"a/")?, name(to, b"b/")?);
    if from != to {
        return None;
    }
    let path = WorkspacePath::from_segments(from.split(|byte| *byte == b'/')).ok()?;
    (!path.is_root()).then_some(path)
}

/// Lines, including their ends. Only `\n` ends a line.
struct Lines<'a> {
    rest: &'a str,
    number: usize,
    next: Option<&'a str>,
}

impl<'a> Lines<'a> {
    fn peek(&mut self) -> Option<&'a str> {
        if self.next.is_none() && !self.rest.is_empty() {
            let end = self.rest.find('\n').map_or(self.rest.len(), |at| at + 1);
            let (line, rest) = self.rest.split_at(end);
            (self.next, self.rest, self.number) = (Some(line), rest, self.number + 1);
        }
        self.next
    }

    fn advance(&mut self) {
        self.next = None;
    }

    fn malformed(&self) -> ApplyError {
        ApplyError::Malformed { line: self.number }
    }
}
