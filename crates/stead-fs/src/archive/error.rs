//! Errors of reading and unpacking archives.

use std::io;

use stead_core::ContentHash;

use crate::error::FsError;
use crate::error_code::ErrorCode;
use crate::path::WorkspacePath;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    #[error("the archive's digest is {actual}, not {expected}")]
    Digest { expected: ContentHash, actual: ContentHash },
    #[error("the archive is damaged: {reason}")]
    Damaged { reason: String },
    /// Another reader may find other files in it.
    #[error("the archive can be read in two ways: {reason}")]
    Ambiguous { reason: String },
    #[error("the archive ends before its end marker")]
    Truncated,
    #[error("there is data after the end of the archive")]
    Trailing,
    #[error("entry {name:?} has a name that leads out of the workspace or is not a valid path")]
    Name { name: String },
    #[error("entry {name:?} is deeper than {limit} directories")]
    TooDeep { name: String, limit: usize },
    #[error("entry {name:?} has a path of more than {limit} bytes")]
    LongPath { name: String, limit: usize },
    #[error("entry {name:?} has a name of more than {limit} bytes")]
    LongName { name: String, limit: usize },
    #[error("entry {path} is there twice")]
    Duplicate { path: WorkspacePath },
    #[error("entry {path} contradicts another entry: one of them is not a directory")]
    Conflict { path: WorkspacePath },
    #[error("link {path} leads out of the archive: {target:?}")]
    LinkOutside { path: WorkspacePath, target: String },
    #[error("entry {name:?} is a device, FIFO or other special file; only files, directories and links are allowed")]
    Special { name: String },
    #[error("entry {name:?} is encrypted")]
    Encrypted { name: String },
    #[error("the archive has more than {limit} entries")]
    TooMany { limit: usize },
    #[error("the archive's files have more than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the archive's files have more than {limit} times the bytes of the archive")]
    Ratio { limit: u64 },
    #[error(transparent)]
    Fs(#[from] FsError),
    #[error("cannot read the archive")]
    Io(#[source] io::Error),
}

impl ArchiveError {
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Digest { .. } => ErrorCode::DigestMismatch,
            Self::Ambiguous { .. } => ErrorCode::ArchiveAmbiguous,
            Self::Damaged { .. } | Self::Truncated | Self::Trailing => ErrorCode::ArchiveDamaged,
            Self::Name { .. } | Self::LinkOutside { .. } => ErrorCode::ArchiveEscapes,
            Self::Duplicate { .. } | Self::Conflict { .. } => ErrorCode::ArchiveConflict,
            Self::Special { .. } | Self::Encrypted { .. } => ErrorCode::ArchiveUnsupported,
            Self::TooMany { .. }
            | Self::TooLarge { .. }
            | Self::Ratio { .. }
            | Self::TooDeep { .. }
            | Self::LongPath { .. }
            | Self::LongName { .. } => ErrorCode::ArchiveTooLarge,
            Self::Fs(source) => source.code(),
            Self::Io(_) => ErrorCode::Io,
        }
    }

    pub(super) fn link(path: &WorkspacePath, target: &[u8]) -> Self {
        let target = String::from_utf8_lossy(target).chars().take(200).collect();
        Self::LinkOutside { path: path.clone(), target }
    }
}

/// Recovers a refusal that passed through a reader as an I/O error.
impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(refusal) => refusal,
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof => Self::Truncated,
                io::ErrorKind::Other | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                    Self::Damaged { reason: error.to_string() }
                }
                _ => Self::Io(error),
            },
        }
    }
}
