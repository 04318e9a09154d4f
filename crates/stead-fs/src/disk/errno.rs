//! Converts kernel error numbers to this crate's errors.

use rustix::io::Errno;

use crate::error::FsError;
use crate::path::{NAME_MAX, PathError, WorkspacePath};

pub(super) fn error(action: &'static str, path: &WorkspacePath, errno: Errno) -> FsError {
    let path = path.clone();
    match errno {
        Errno::NOENT => FsError::NotFound { path },
        Errno::EXIST => FsError::Exists { path },
        Errno::ISDIR => FsError::IsDirectory { path },
        Errno::NOTDIR => FsError::NotDirectory { path },
        Errno::NOTEMPTY => FsError::DirectoryNotEmpty { path },
        // Here only a resolution that left the root returns this error.
        Errno::XDEV => FsError::Escapes { path },
        Errno::LOOP => FsError::LinkLoop { path },
        Errno::NAMETOOLONG => FsError::Path(PathError::NameTooLong { limit: NAME_MAX }),
        Errno::ACCESS | Errno::PERM => FsError::Denied { action, path },
        Errno::ROFS => FsError::ReadOnly { action, path },
        Errno::NOSPC | Errno::DQUOT => FsError::NoSpace { action, path },
        other => FsError::Io { action, path, source: other.into() },
    }
}

pub(super) fn io(action: &'static str, path: &WorkspacePath, source: std::io::Error) -> FsError {
    match Errno::from_io_error(&source) {
        Some(errno) => error(action, path, errno),
        None => FsError::Io { action, path: path.clone(), source },
    }
}
