//! Locates the lines of a patch in a file, and computes the new content.
//!
//! Lines are compared exactly, then without trailing blanks, then without any surrounding blanks,
//! because models copy text imprecisely. Unchanged lines keep the file's own text.

use super::super::ToolError;
use super::parse::{Hunk, HunkLine};

/// Comparisons of two lines, the strictest first.
const ALIKE: [fn(&str, &str) -> bool; 3] =
    [|a, b| a == b, |a, b| a.trim_end() == b.trim_end(), |a, b| a.trim() == b.trim()];

pub(super) fn apply(content: &[u8], hunks: &[Hunk<'_>]) -> Result<String, ToolError> {
    // The caller has checked that the content is text.
    let text = String::from_utf8_lossy(content);
    let whole: Vec<&str> = text.split_inclusive('\n').collect();
    let lines: Vec<&str> = whole.iter().map(|line| without_end(line)).collect();
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut made = Made { text: String::with_capacity(text.len()), end };
    let mut next = 0;
    for hunk in hunks {
        let (from, old) = locate(&lines, next, hunk)?;
        whole[next..from].iter().for_each(|line| made.keep(line));
        let mut kept = whole[from..from + old].iter();
        for line in &hunk.lines {
            match line {
                HunkLine::Comes(text) => made.add(text),
                HunkLine::Goes(_) => drop(kept.next()),
                HunkLine::Stays(_) => kept.next().into_iter().for_each(|line| made.keep(line)),
            }
        }
        next = from + old;
    }
    whole[next..].iter().for_each(|line| made.keep(line));
    Ok(made.text)
}

struct Made {
    text: String,
    end: &'static str,
}

impl Made {
    /// Copies a line of the file. If the file's last line has no end, adding another line adds one.
    fn keep(&mut self, line: &str) {
        self.close();
        self.text.push_str(line);
    }

    fn add(&mut self, line: &str) {
        self.close();
        self.text.push_str(line);
        self.text.push_str(self.end);
    }

    fn close(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str(self.end);
        }
    }
}

fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Finds the first of a hunk's old lines, and returns how many there are.
fn locate(lines: &[&str], mut from: usize, hunk: &Hunk<'_>) -> Result<(usize, usize), ToolError> {
    for above in &hunk.above {
        from = find(lines, from, &[above], From::Next).ok_or_else(|| missing("the line", &[above]))? + 1;
    }
    let old: Vec<&str> = hunk.lines.iter().filter_map(HunkLine::old).collect();
    if old.is_empty() {
        // The hunk has no old lines: insert below the named line, or at the end.
        let at = if hunk.above.is_empty() || hunk.at_end { lines.len() } else { from };
        return Ok((at, 0));
    }
    let order = if hunk.at_end { From::End } else { From::Next };
    if let Some(at) = find(lines, from, &old, order) {
        return Ok((at, old.len()));
    }
    Err(missing("the lines", &old))
}

enum From {
    Next,
    /// Try the end of the file first.
    End,
}

fn find(lines: &[&str], from: usize, wanted: &[&str], order: From) -> Option<usize> {
    let last = lines.len().checked_sub(wanted.len()).filter(|last| *last >= from)?;
    for alike in ALIKE {
        let here = |at: &usize| wanted.iter().zip(&lines[*at..]).all(|(one, other)| alike(one, other));
        let found = match order {
            From::Next => (from..=last).find(here),
            From::End => Some(last).filter(here).or_else(|| (from..=last).find(here)),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn missing(what: &str, lines: &[&str]) -> ToolError {
    let shown: String = lines.join("\n").chars().take(500).collect();
    ToolError::new("not_found", format!("the file does not hold {what} of the patch, in this order:\n{shown}"))
        .hinting("read the file again; lines must be copied as they are, with what stays before and after a change")
}

impl<'a> HunkLine<'a> {
    /// The line, if the file must contain it.
    const fn old(&self) -> Option<&'a str> {
        match self {
            Self::Stays(line) | Self::Goes(line) => Some(line),
            Self::Comes(_) => None,
        }
    }
}
