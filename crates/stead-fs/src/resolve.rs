//! Where a path leads once its links are followed. One algorithm for both backends, so that both agree on every link.
//!
//! The answer holds no link, and `..` in a link's target never climbs above the root. On disk the answer is only a wish: the
//! kernel is asked again, with links forbidden, when the answer is used.

use std::collections::VecDeque;

use crate::error::FsError;
use crate::path::WorkspacePath;

/// As many as Linux follows.
const MAX_LINKS: usize = 40;

/// What one entry is to somebody who passes through.
pub(crate) enum Step {
    Missing,
    Directory,
    Other,
    Link(Vec<u8>),
}

/// What to do when the path's own last segment is a link.
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
