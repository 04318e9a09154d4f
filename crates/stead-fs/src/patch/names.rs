//! Names that git accepts from no patch on any platform.

use crate::filesystem::entry::Kind;
use crate::path::WorkspacePath;

/// Returns true if `git apply` refuses the whole patch because of this path. Git refuses names that
/// NTFS takes for `.git`, and links that it takes for `.gitmodules`.
pub(super) fn git_refuses(path: &WorkspacePath, kind: Kind) -> bool {
    let repository = |name: &[u8]| [&b".git"[..], b"git~1"].iter().any(|known| is_ntfs_name(name, known));
    let modules = |name: &[u8]| {
        let short = [&b"gitmod~1"[..], b"gitmod~2", b"gitmod~3", b"gitmod~4"];
        is_ntfs_name(name, b".gitmodules") || short.iter().any(|known| is_ntfs_name(name, known))
    };
    path.segments().any(repository) || (kind == Kind::Symlink && path.name().is_some_and(modules))
}

/// Returns the first directory or file of the path that git takes for a repository. Git ignores the
/// case of its name on every platform.
pub(super) fn repository(path: &WorkspacePath) -> Option<WorkspacePath> {
    let depth = path.segments().position(|name| name.eq_ignore_ascii_case(b".git"))?;
    WorkspacePath::from_segments(path.segments().take(depth + 1)).ok()
}

/// NTFS ignores case, trailing dots and spaces, and everything after a colon.
fn is_ntfs_name(name: &[u8], known: &[u8]) -> bool {
    let Some((start, rest)) = name.split_at_checked(known.len()) else { return false };
    let rest = rest.iter().find(|byte| !matches!(byte, b'.' | b' '));
    start.eq_ignore_ascii_case(known) && matches!(rest, None | Some(b':' | b'\\'))
}
