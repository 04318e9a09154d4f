//! The changed lines of one file with three lines around them.

use std::fmt::Write;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

use super::change::LineCounts;

const CONTEXT: usize = 3;
/// Time limit. After it the diff is coarser: correct, but longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Appends the headers and hunks; nothing for equal texts. Returns the number of changed lines.
pub(super) fn write(out: &mut String, (from, old): (&str, &str), (to, new): (&str, &str)) -> LineCounts {
    // Only \n ends a line, as in git; lines include their ends.
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + PATIENCE));
    let mut groups = group_diff_ops(ops, CONTEXT).into_iter().filter(|group| group.iter().any(changes)).peekable();
    if groups.peek().is_some() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "--- {from}\n+++ {to}");
    }
    let mut counts = LineCounts::default();
    for group in groups {
        hunk(out, &group, &old, &new);
        for op in group.iter().filter(|op| changes(op)) {
            counts.removed += op.old_range().len() as u64;
            counts.added += op.new_range().len() as u64;
        }
    }
    counts
}

/// Returns the hunks between two texts, without headers.
pub(crate) fn unified(old: &str, new: &str, context: usize) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + PATIENCE));
    let mut out = String::new();
    for group in group_diff_ops(ops, context).into_iter().filter(|group| group.iter().any(changes)) {
        hunk(&mut out, &group, &old, &new);
    }
    out
}

fn changes(op: &DiffOp) -> bool {
    op.tag() != DiffTag::Equal
}

fn hunk(out: &mut String, group: &[DiffOp], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let range = |start: usize, end: usize| {
        let count = end - start;
        format!("{},{count}", if count == 0 { start } else { start + 1 })
    };
    let from = range(first.old_range().start, last.old_range().end);
    let to = range(first.new_range().start, last.new_range().end);
    let _ = writeln!(out, "@@ -{from} +{to} @@");
    for op in group {
        match op.tag() {
            DiffTag::Equal => lines(out, ' ', &old[op.old_range()]),
            DiffTag::Delete => lines(out, '-', &old[op.old_range()]),
            DiffTag::Insert => lines(out, '+', &new[op.new_range()]),
            DiffTag::Replace => {
                lines(out, '-', &old[op.old_range()]);
                lines(out, '+', &new[op.new_range()]);
            }
        }
    }
}

fn lines(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}
