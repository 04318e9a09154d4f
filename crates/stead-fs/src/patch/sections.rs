//! Parses the text of a patch in the form of [`Patch::text`](super::Patch).
//!
//! A patch may come from an agent, so every count is checked and every name must be a
//! [`WorkspacePath`].

use super::apply::ApplyError;
use super::apply_hunks::Hunk;
use super::binary::{Literal, MAX_CONTENT};
use super::quote;
use crate::path::WorkspacePath;

/// The part of a patch about one path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section<'a> {
    /// The path before a rename.
    pub(super) from: Option<WorkspacePath>,
    pub(super) path: WorkspacePath,
    pub(super) step: Step,
    pub(super) content: ContentChange<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ContentChange<'a> {
    /// Possibly none, if only the mode or the path changes.
    Hunks(Vec<Hunk<'a>>),
    Literal(Literal<'a>),
    /// The section says only that the contents differ.
    Omitted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Create(Mode),
    Delete,
    /// The new mode, if the patch changes it.
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

/// The sections of a patch, in its order. Comments may stand between them.
pub(super) fn read(text: &str) -> Result<Vec<Section<'_>>, ApplyError> {
    let mut lines = Lines { rest: text, number: 0, next: None };
    let mut sections = Vec::new();
    while let Some(line) = lines.peek() {
        if line.starts_with('#') {
            lines.advance();
            continue;
        }
        let header = line.strip_prefix("diff --git ").ok_or_else(|| lines.malformed())?;
        lines.advance();
        sections.push(section(header.trim_end_matches('\n'), &mut lines)?);
    }
    Ok(sections)
}

/// The header lines of a section that come before the content.
#[derive(Default)]
struct Header<'a> {
    step: Option<Step>,
    rename_from: Option<WorkspacePath>,
    rename_to: Option<WorkspacePath>,
    ids: Option<(&'a str, &'a str)>,
}

fn section<'a>(first: &str, lines: &mut Lines<'a>) -> Result<Section<'a>, ApplyError> {
    let start = lines.malformed();
    let mut header = Header::default();
    let (mut hunks, mut literal, mut is_omitted) = (Vec::new(), None, false);
    while let Some(line) = lines.peek() {
        let text = line.trim_end_matches('\n');
        if text.starts_with("diff --git ") || text.starts_with('#') {
            break;
        } else if text.starts_with("Binary files ") {
            is_omitted = true;
        } else if text == "GIT binary patch" && literal.is_none() {
            lines.advance();
            let ids = header.ids.ok_or_else(|| lines.malformed())?;
            literal = Some(binary(ids, lines)?);
            continue;
        } else if let Some(ranges) = text.strip_prefix("@@ ") {
            hunks.push(hunk(ranges, lines)?);
            continue;
        } else {
            header.read(text).ok_or_else(|| lines.malformed())?;
        }
        lines.advance();
    }
    let (from, path) = match (header.rename_from, header.rename_to) {
        (Some(from), Some(to)) if from != to => (Some(from), to),
        (None, None) => (None, header_path(first).ok_or(start)?),
        _ => return Err(start),
    };
    let step = header.step.unwrap_or(Step::Modify(None));
    let content = match literal {
        Some(_) if is_omitted || !hunks.is_empty() => return Err(lines.malformed()),
        Some(literal) => ContentChange::Literal(literal),
        None if is_omitted => ContentChange::Omitted,
        None => ContentChange::Hunks(hunks),
    };
    if from.is_some() && !matches!(step, Step::Modify(_)) {
        return Err(lines.malformed());
    }
    Ok(Section { from, path, step, content })
}

impl<'a> Header<'a> {
    /// Reads one line; `None` if it is unknown or malformed.
    fn read(&mut self, line: &'a str) -> Option<()> {
        if let Some(mode) = line.strip_prefix("new file mode ") {
            self.step = Some(Step::Create(Mode::read(mode)?));
        } else if let Some(mode) = line.strip_prefix("deleted file mode ") {
            Mode::read(mode)?;
            self.step = Some(Step::Delete);
        } else if let Some(mode) = line.strip_prefix("new mode ") {
            self.step = Some(Step::Modify(Some(Mode::read(mode)?)));
        } else if let Some(name) = line.strip_prefix("rename from ") {
            self.rename_from = Some(workspace_path(&quote::unquoted(name)?)?);
        } else if let Some(name) = line.strip_prefix("rename to ") {
            self.rename_to = Some(workspace_path(&quote::unquoted(name)?)?);
        } else if let Some(ids) = line.strip_prefix("index ") {
            let (before, after) = ids.split(' ').next()?.split_once("..")?;
            self.ids = Some((before, after));
        } else if !["old mode ", "similarity index ", "--- ", "+++ "].iter().any(|known| line.starts_with(known)) {
            return None;
        }
        Some(())
    }
}

/// Reads the new content, and skips the old one that may follow it.
fn binary<'a>(ids: (&'a str, &'a str), lines: &mut Lines<'a>) -> Result<Literal<'a>, ApplyError> {
    let (size, data) = literal(lines)?;
    if lines.peek().is_some_and(|line| line.starts_with("literal ")) {
        literal(lines)?;
    }
    Ok(Literal { before: ids.0, after: ids.1, size, data })
}

/// Reads `literal SIZE` and its lines up to an empty one.
fn literal<'a>(lines: &mut Lines<'a>) -> Result<(usize, &'a str), ApplyError> {
    let line = lines.peek().unwrap_or_default();
    let size = line.strip_prefix("literal ").and_then(|size| size.trim_end_matches('\n').parse::<usize>().ok());
    let size = size.filter(|size| *size <= MAX_CONTENT).ok_or_else(|| lines.malformed())?;
    lines.advance();
    let all = lines.rest;
    let mut length = 0;
    loop {
        let line = lines.peek().ok_or_else(|| lines.malformed())?;
        lines.advance();
        if line == "\n" {
            break;
        }
        length += line.len();
    }
    Ok((size, all.get(..length).unwrap_or_default()))
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
    workspace_path(&from)
}

fn workspace_path(name: &[u8]) -> Option<WorkspacePath> {
    let path = WorkspacePath::from_segments(name.split(|byte| *byte == b'/')).ok()?;
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
