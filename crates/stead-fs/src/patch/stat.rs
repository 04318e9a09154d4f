//! A patch as text for people: statistics like those of `git diff --stat`, and remarks about
//! changes that the patch does not carry.

use std::fmt::Write as _;

use super::change::{FileChange, Patch};
use super::quote::quoted_path;

/// Width of a line.
const WIDTH: usize = 80;
/// Longer names are cut at the start.
const MOST_NAME: usize = 50;
/// Number of remarks before the rest is only counted.
const MOST_REMARKS: usize = 100;

impl Patch {
    /// One line per changed file and a sum.
    pub fn stat(&self) -> String {
        if self.files.is_empty() {
            return String::new();
        }
        let names: Vec<String> = self.files.iter().map(shown_name).collect();
        let name_width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let largest = self.files.iter().filter_map(changed_lines).max().unwrap_or(0);
        let has_binary = self.files.iter().any(|file| file.lines.is_none());
        let count_width = largest.to_string().len().max(if has_binary { 3 } else { 1 });
        let graph_width = WIDTH.saturating_sub(name_width + count_width + 6).max(10) as u64;
        let (mut added, mut removed) = (0, 0);
        let mut out = String::new();
        for (file, name) in self.files.iter().zip(&names) {
            // Writing to a String cannot fail.
            let _ = match file.lines {
                None => {
                    let (old, new) = (file.old_bytes, file.new_bytes);
                    writeln!(out, " {name:name_width$} | {:>count_width$} {old} -> {new} bytes", "Bin")
                }
                Some(lines) => {
                    (added, removed) = (added + lines.added, removed + lines.removed);
                    let total = lines.added + lines.removed;
                    let graph = graph((lines.added, lines.removed), largest, graph_width);
                    let line = format!(" {name:name_width$} | {total:>count_width$} {graph}");
                    writeln!(out, "{}", line.trim_end())
                }
            };
        }
        out.push_str(&sum(self.files.len(), added, removed));
        out
    }

    /// The text, after comments that name everything it does not carry. `git apply` skips them.
    pub fn annotated(&self) -> String {
        let mut out = String::new();
        let large = self.unshown.iter().map(|path| (path, "too large"));
        let omitted = self.omitted.iter().map(|omitted| (&omitted.path, omitted.reason.describe()));
        for (path, reason) in large.chain(omitted).take(MOST_REMARKS) {
            let _ = writeln!(out, "# not in this patch: {} ({reason})", quoted_path(path));
        }
        let more = (self.unshown.len() + self.omitted.len()).saturating_sub(MOST_REMARKS);
        if more > 0 {
            let _ = writeln!(out, "# not in this patch: {more} more");
        }
        if self.ignored > 0 {
            let _ = writeln!(out, "# not in this patch: {} that .gitignore matches", plural(self.ignored, "file"));
        }
        out.push_str(&self.text);
        out
    }
}

fn shown_name(file: &FileChange) -> String {
    let name = match &file.from {
        Some(from) => format!("{} => {}", quoted_path(from), quoted_path(&file.path)),
        None => quoted_path(&file.path),
    };
    // A quoted name is ASCII.
    match name.len().checked_sub(MOST_NAME) {
        Some(surplus @ 1..) => format!("...{}", name.get(surplus + 3..).unwrap_or(&name)),
        _ => name,
    }
}

fn changed_lines(file: &FileChange) -> Option<u64> {
    file.lines.map(|lines| lines.added + lines.removed)
}

/// Plus and minus signs, scaled if the largest change does not fit. A change keeps one sign.
fn graph((added, removed): (u64, u64), largest: u64, width: u64) -> String {
    let scaled = |count: u64| match count {
        0 => 0,
        count if largest <= width => count,
        count => (count.saturating_mul(width - 1) / largest).max(1),
    };
    let signs = |sign: &str, count: u64| sign.repeat(usize::try_from(scaled(count)).unwrap_or(0));
    signs("+", added) + &signs("-", removed)
}

fn sum(files: usize, added: u64, removed: u64) -> String {
    let mut out = format!(" {} changed", plural(files as u64, "file"));
    if added > 0 || removed == 0 {
        let _ = write!(out, ", {}(+)", plural(added, "insertion"));
    }
    if removed > 0 || added == 0 {
        let _ = write!(out, ", {}(-)", plural(removed, "deletion"));
    }
    out.push('\n');
    out
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
