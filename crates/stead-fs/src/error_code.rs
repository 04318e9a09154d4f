//! The stable codes of errors about files and archives.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $code:ident = $text:literal,)+) => {
        /// A stable code. Tool answers, problems and the journal have its text, so a text never
        /// changes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])* $code,)+
        }

        impl ErrorCode {
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)+
                }
            }
        }
    };
}

codes! {
    NotFound = "not_found",
    Exists = "exists",
    IsDirectory = "is_directory",
    NotDirectory = "not_directory",
    NotEmpty = "not_empty",
    Escapes = "escapes",
    LinkLoop = "link_loop",
    SpecialFile = "special_file",
    TooLarge = "too_large",
    PermissionDenied = "permission_denied",
    ReadOnly = "read_only",
    NoSpace = "no_space",
    Interrupted = "interrupted",
    Changed = "changed",
    Unreachable = "unreachable",
    InvalidArgument = "invalid_argument",
    Io = "io",
    /// An error inside a box that has no code of its own.
    FileError = "file_error",
    Stale = "stale",
    Present = "present",
    NoSnapshot = "no_snapshot",
    NoRoom = "no_room",
    Unsupported = "unsupported",
    HostDirectory = "host_directory",
    DigestMismatch = "digest_mismatch",
    ArchiveAmbiguous = "archive_ambiguous",
    ArchiveDamaged = "archive_damaged",
    ArchiveEscapes = "archive_escapes",
    ArchiveConflict = "archive_conflict",
    ArchiveUnsupported = "archive_unsupported",
    ArchiveTooLarge = "archive_too_large",
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
