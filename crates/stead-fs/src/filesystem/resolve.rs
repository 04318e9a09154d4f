//! Resolves the links of a path. Both backends use this algorithm, so they agree on every link.
//!
//! The result has no link, and `..` in a link's target never leads above the root. On disk the
//! result is only a candidate: its user asks the kernel again, with links forbidden.

use std::collections::VecDeque;

use crate::error::FsError;
use crate::path::WorkspacePath;

/// Maximum number of links to follow, the same as in Linux.
const MAX_LINKS: usize = 40;

/// The kind of an entry, as far as resolution needs it.
pub(crate) enum Step {
    Missing,
    Directory,
    Other,
    Link(Vec<u8>),
}

/// The treatment of a link as the path's last segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLink {
    Followed,
    Kept,
}

pub(crate) fn resolve(
    path: &WorkspacePath,
    last: LastLink,
    mut look: impl FnMut(&WorkspacePath) -> Result<Step, FsError>,
) -> Result<WorkspacePath, FsError> {
    let mut ahead: VecDeque<Vec<u8>> = path.segments().map(<[u8]>::to_vec).collect();
    let mut at = WorkspacePath::root();
    let mut links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == b".." {
            at = at.parent().ok_or_else(|| FsError::Escapes { path: path.clone() })?;
            continue;
        }
        let next = at.join(&name)?;
        match look(&next)? {
            Step::Directory => at = next,
            Step::Other if ahead.is_empty() => at = next,
            Step::Other => return Err(FsError::NotDirectory { path: next }),
            Step::Link(_) if ahead.is_empty() && last == LastLink::Kept => at = next,
            Step::Link(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(FsError::LinkLoop { path: path.clone() });
                }
                if target.first() == Some(&b'/') {
                    return Err(FsError::Escapes { path: path.clone() });
                }
                let segments = target.split(|byte| *byte == b'/').filter(|segment| !matches!(*segment, b"" | b"."));
                for segment in segments.rev() {
                    ahead.push_front(segment.to_vec());
                }
            }
            Step::Missing => {
                if ahead.iter().any(|segment| segment == b"..") {
                    return Err(FsError::NotFound { path: path.clone() });
                }
                at = next;
                for segment in ahead.drain(..) {
                    at = at.join(&segment)?;
                }
            }
        }
    }
    Ok(at)
}
