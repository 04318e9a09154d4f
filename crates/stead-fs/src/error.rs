//! Errors of filesystem operations. Each variant has a stable [`FsError::code`], which the tools
//! pass on.

use std::io;

use crate::error_code::ErrorCode;
use crate::path::{PathError, WorkspacePath};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    #[error("no such file or directory: {path}")]
    NotFound { path: WorkspacePath },
    #[error("already exists: {path}")]
    Exists { path: WorkspacePath },
    #[error("is a directory: {path}")]
    IsDirectory { path: WorkspacePath },
    #[error("not a directory: {path}")]
    NotDirectory { path: WorkspacePath },
    #[error("directory not empty: {path}")]
    DirectoryNotEmpty { path: WorkspacePath },
    #[error("the root directory cannot be written, renamed or removed")]
    Root,
    #[error("path escapes the root directory: {path}")]
    Escapes { path: WorkspacePath },
    #[error("too many levels of symbolic links: {path}")]
    LinkLoop { path: WorkspacePath },
    #[error("neither a file nor a directory (a FIFO, socket or device): {path}")]
    Special { path: WorkspacePath },
    #[error("not a symbolic link: {path}")]
    NotLink { path: WorkspacePath },
    #[error("a directory cannot be moved or copied into itself: {from} to {to}")]
    IntoItself { from: WorkspacePath, to: WorkspacePath },
    #[error("deeper than {limit} directories: {path}")]
    TooDeep { path: WorkspacePath, limit: usize },
    #[error("{path} has {size} bytes, more than the {limit} that are read at once; read it as a stream")]
    TooLarge { path: WorkspacePath, size: u64, limit: u64 },
    #[error("Invalid glob pattern: {reason}")]
    Glob { reason: String },
    #[error("Invalid regular expression: {reason}")]
    Regex { reason: String },
    #[error("Unknown file type {name:?}; it is one that `rg --type-list` shows, such as py, rust, js or md.")]
    FileType { name: String },
    #[error("this snapshot is of another kind of filesystem")]
    ForeignSnapshot,
    #[error("permission denied: cannot {action} {path}")]
    Denied { action: &'static str, path: WorkspacePath },
    #[error("read-only file system: cannot {action} {path}")]
    ReadOnly { action: &'static str, path: WorkspacePath },
    #[error("no space left: cannot {action} {path}")]
    NoSpace { action: &'static str, path: WorkspacePath },
    #[error("the work on the files was ended because their workspace is being removed")]
    Stopped,
    #[error("{path} changed while it was read; try again")]
    Changed { path: WorkspacePath },
    /// A failure inside a box, with the box's own message, which names the path.
    #[error("{message}")]
    Reported { code: ErrorCode, message: String },
    #[error("the workspace cannot be reached: {reason}")]
    Unreachable { reason: String },
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("cannot {action} {path}")]
    Io {
        action: &'static str,
        path: WorkspacePath,
        #[source]
        source: io::Error,
    },
}

impl FsError {
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::Exists { .. } => ErrorCode::Exists,
            Self::IsDirectory { .. } => ErrorCode::IsDirectory,
            Self::NotDirectory { .. } => ErrorCode::NotDirectory,
            Self::DirectoryNotEmpty { .. } => ErrorCode::NotEmpty,
            Self::Escapes { .. } => ErrorCode::Escapes,
            Self::LinkLoop { .. } => ErrorCode::LinkLoop,
            Self::Special { .. } => ErrorCode::SpecialFile,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Denied { .. } => ErrorCode::PermissionDenied,
            Self::ReadOnly { .. } => ErrorCode::ReadOnly,
            Self::NoSpace { .. } => ErrorCode::NoSpace,
            Self::Stopped => ErrorCode::Interrupted,
            Self::Changed { .. } => ErrorCode::Changed,
            Self::Reported { code, .. } => *code,
            Self::Unreachable { .. } => ErrorCode::Unreachable,
            Self::Root
            | Self::NotLink { .. }
            | Self::IntoItself { .. }
            | Self::TooDeep { .. }
            | Self::Glob { .. }
            | Self::Regex { .. }
            | Self::FileType { .. }
            | Self::ForeignSnapshot
            | Self::Path(_) => ErrorCode::InvalidArgument,
            Self::Io { .. } => ErrorCode::Io,
        }
    }

    /// The error for a failed write.
    pub fn writing(path: &WorkspacePath, source: io::Error) -> Self {
        let (action, path) = ("write", path.clone());
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { action, path },
            _ => Self::Io { action, path, source },
        }
    }

    /// Returns true if the error means that an entry which a walk reported was removed or replaced
    /// since.
    pub const fn is_vanished(&self) -> bool {
        matches!(
            self,
            Self::NotFound { .. }
                | Self::NotDirectory { .. }
                | Self::IsDirectory { .. }
                | Self::NotLink { .. }
                | Self::LinkLoop { .. }
                | Self::Special { .. }
        )
    }

    /// The message with its cause, on one line.
    pub fn sentence(&self) -> String {
        match self {
            Self::Io { source, .. } => format!("{self}: {source}"),
            other => other.to_string(),
        }
    }
}
