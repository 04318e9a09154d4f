//! Applies the hunks of a patch to a file.
//!
//! The rules are those of `git apply` without fuzz. All lines of a hunk must be in the file; if
//! they are not at the stated line, the nearest match is used. A hunk that begins at the first
//! line, or ends without context, must still do so.

/// Lines to find, and their replacement. Lines include their ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hunk<'a> {
    /// The first line, counted from 1; 0 before an empty file.
    pub(super) start: usize,
    pub(super) old: Vec<&'a [u8]>,
    pub(super) new: Vec<&'a [u8]>,
    /// Number of context lines before the first change, and after the last one.
    pub(super) leading: usize,
    pub(super) trailing: usize,
}

/// Returns the file with all hunks applied; `None` if a hunk does not match.
pub(super) fn apply_hunks(file: &[u8], hunks: &[Hunk<'_>]) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    let mut result: Vec<u8> = Vec::with_capacity(file.len());
    let (mut done, mut offset) = (0, 0_i64);
    for hunk in hunks {
        let stated = i64::try_from(hunk.start.saturating_sub(usize::from(!hunk.old.is_empty()))).ok()?;
        let at = find(&lines, hunk, done, stated.saturating_add(offset))?;
        offset = i64::try_from(at).ok()? - stated;
        lines[done..at].iter().for_each(|line| result.extend_from_slice(line));
        hunk.new.iter().for_each(|line| result.extend_from_slice(line));
        done = at + hunk.old.len();
    }
    lines[done..].iter().for_each(|line| result.extend_from_slice(line));
    Some(result)
}

/// Finds the matching line nearest to the expected one, at `least` or later.
fn find(lines: &[&[u8]], hunk: &Hunk<'_>, least: usize, expected: i64) -> Option<usize> {
    let last = lines.len().checked_sub(hunk.old.len())?;
    let fits = |at: usize| lines[at..at + hunk.old.len()] == hunk.old[..];
    let only = match (hunk.start <= 1, hunk.trailing == 0) {
        (true, true) if last > 0 => return None,
        (true, _) => Some(0),
        (false, true) => Some(last),
        (false, false) => None,
    };
    if let Some(only) = only {
        return (only >= least && only <= last && fits(only)).then_some(only);
    }
    let expected = usize::try_from(expected.max(0)).ok()?.clamp(least.min(last), last);
    let distance = |at: &usize| at.abs_diff(expected);
    (least..=last).filter(|at| fits(*at)).min_by_key(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hunk<'a>(start: usize, old: &[&'a str], new: &[&'a str], leading: usize, trailing: usize) -> Hunk<'a> {
        let bytes = |lines: &[&'a str]| lines.iter().map(|line| line.as_bytes()).collect();
        Hunk { start, old: bytes(old), new: bytes(new), leading, trailing }
    }

    #[test]
    fn a_hunk_goes_to_the_nearest_place_that_has_all_its_lines() {
        let change = [hunk(2, &["b\n", "x\n", "c\n"], &["b\n", "y\n", "c\n"], 1, 1)];
        let placed = |file: &str| apply_hunks(file.as_bytes(), &change).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(placed("a\nb\nx\nc\n").unwrap(), "a\nb\ny\nc\n");
        assert_eq!(placed("0\n0\na\nb\nx\nc\n").unwrap(), "0\n0\na\nb\ny\nc\n", "three lines further");
        assert_eq!(placed("b\nx\nc\n0\nb\nx\nc\n").unwrap(), "b\ny\nc\n0\nb\nx\nc\n", "the nearest");
        assert_eq!(placed("a\nb\nx\nd\n"), None);
        assert_eq!(placed(""), None);
    }

    #[test]
    fn ends_stay_ends() {
        let first = [hunk(1, &["a\n", "b\n"], &["new\n", "a\n", "b\n"], 0, 2)];
        assert_eq!(apply_hunks(b"a\nb\n", &first).unwrap(), b"new\na\nb\n");
        assert_eq!(apply_hunks(b"0\na\nb\n", &first), None);
        let last = [hunk(3, &["c\n"], &["c\n", "new\n"], 1, 0)];
        assert_eq!(apply_hunks(b"a\nb\nc\n", &last).unwrap(), b"a\nb\nc\nnew\n");
        assert_eq!(apply_hunks(b"a\nb\nc\nd\n", &last), None);
        let whole = [hunk(1, &["a\n"], &["b\n"], 0, 0)];
        assert_eq!(apply_hunks(b"a\n", &whole).unwrap(), b"b\n");
        assert_eq!(apply_hunks(b"a\na\n", &whole), None);
        let into_nothing = [hunk(0, &[], &["b\n"], 0, 0)];
        assert_eq!(apply_hunks(b"", &into_nothing).unwrap(), b"b\n");
        assert_eq!(apply_hunks(b"x\n", &into_nothing), None);
    }
}
