//! Finds symbolic links of a patch that lead out of the directory.

use super::apply::{Entry, View};
use crate::error::FsError;
use crate::path::WorkspacePath;

/// Maximum number of links to follow, the same as in Linux.
const MOST_LINKS: usize = 40;

/// Returns true if following a link leads out of the directory: by an absolute target, by `..`, or
/// through another link. `view` is the directory after the patch.
///
/// A target with `..` after a name also counts: it stays inside only until the name becomes a link,
/// which a later patch could make.
pub(super) fn leads_out(path: &WorkspacePath, target: &[u8], view: &View<'_>) -> Result<bool, FsError> {
    let mut at: Vec<Vec<u8>> = path.segments().map(<[u8]>::to_vec).collect();
    at.pop();
    let mut ahead = parts(target);
    let mut followed = 0;
    if target.starts_with(b"/") || climbs_from_a_name(target) {
        return Ok(true);
    }
    while let Some(part) = ahead.pop() {
        match part.as_slice() {
            b"" | b"." => continue,
            b".." => {
                if at.pop().is_none() {
                    return Ok(true);
                }
                continue;
            }
            _ => at.push(part),
        }
        let Ok(here) = WorkspacePath::from_segments(at.iter().map(Vec::as_slice)) else { return Ok(true) };
        if let Entry::Link(next) = view.entry(&here)? {
            followed += 1;
            if followed > MOST_LINKS || next.starts_with(b"/") {
                return Ok(true);
            }
            at.pop();
            ahead.extend(parts(&next));
        }
    }
    Ok(false)
}

/// Returns true if `..` follows a name, as in `a/../b`.
pub(crate) fn climbs_from_a_name(target: &[u8]) -> bool {
    let names = target.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    names.skip_while(|part| *part == b"..").any(|part| part == b"..")
}

/// The names of a path in reverse order.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect()
}
