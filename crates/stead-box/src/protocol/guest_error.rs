//! Errors of the guest.

use std::io;

use serde::{Deserialize, Serialize};
use stead_fs::archive::ArchiveError;
use stead_fs::{ContentHash, FsError};

/// An error of the guest. The server only evaluates `kind`. `message` is for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Received")]
pub struct GuestError {
    #[serde(flatten)]
    pub kind: GuestErrorKind,
    pub message: String,
}

/// All kinds of errors. Variants are only added: a box outlives an upgrade of the server, and its
/// guest keeps sending the variants of its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum GuestErrorKind {
    /// Something runs in the box, or its files cannot be synced to the disk.
    Busy,
    NoSuchExec,
    ExecExists,
    InvalidExec,
    ExecRunning,
    ExecFinished,
    NotATerminal,
    InvalidSignal,
    InvalidCwd,
    CannotExecute,
    /// The limit of processes, open files or execs is reached.
    ResourceExhausted,
    UnknownTool,
    /// The process of the tool ended without a response.
    ToolEnded,
    TimedOut,
    /// No program in the box listens on the port.
    NothingListens,
    NoWorkspace,
    /// The box has no trees to compare with.
    NoBase,
    NotFound,
    Exists,
    IsDirectory,
    NotDirectory,
    NotEmpty,
    Escapes,
    LinkLoop,
    SpecialFile,
    PermissionDenied,
    ReadOnly,
    NoSpace,
    Changed,
    InvalidArgument,
    Io,
    /// More bytes than the request allows. `size` is the size of the requested file or tree.
    TooLarge {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    /// The file has changed. `current` is its hash now; `None` if it is gone.
    Stale {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current: Option<ContentHash>,
    },
    /// The request creates a file that exists.
    Present {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        current: Option<ContentHash>,
    },
    DigestMismatch,
    ArchiveAmbiguous,
    ArchiveDamaged,
    ArchiveEscapes,
    ArchiveConflict,
    ArchiveUnsupported,
    ArchiveTooLarge,
    /// An error that this version does not know.
    #[serde(other)]
    Unrecognized,
}

impl GuestErrorKind {
    /// Returns the name in the protocol. Tool results and the journal use it too.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::NoSuchExec => "no_such_exec",
            Self::ExecExists => "exec_exists",
            Self::InvalidExec => "invalid_exec",
            Self::ExecRunning => "exec_running",
            Self::ExecFinished => "exec_finished",
            Self::NotATerminal => "not_a_terminal",
            Self::InvalidSignal => "invalid_signal",
            Self::InvalidCwd => "invalid_cwd",
            Self::CannotExecute => "cannot_execute",
            Self::ResourceExhausted => "resource_exhausted",
            Self::UnknownTool => "unknown_tool",
            Self::ToolEnded => "tool_ended",
            Self::TimedOut => "timed_out",
            Self::NothingListens => "nothing_listens",
            Self::NoWorkspace => "no_workspace",
            Self::NoBase => "no_base",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::IsDirectory => "is_directory",
            Self::NotDirectory => "not_directory",
            Self::NotEmpty => "not_empty",
            Self::Escapes => "escapes",
            Self::LinkLoop => "link_loop",
            Self::SpecialFile => "special_file",
            Self::PermissionDenied => "permission_denied",
            Self::ReadOnly => "read_only",
            Self::NoSpace => "no_space",
            Self::Changed => "changed",
            Self::InvalidArgument => "invalid_argument",
            Self::Io => "io",
            Self::TooLarge { .. } => "too_large",
            Self::Stale { .. } => "stale",
            Self::Present { .. } => "present",
            Self::DigestMismatch => "digest_mismatch",
            Self::ArchiveAmbiguous => "archive_ambiguous",
            Self::ArchiveDamaged => "archive_damaged",
            Self::ArchiveEscapes => "archive_escapes",
            Self::ArchiveConflict => "archive_conflict",
            Self::ArchiveUnsupported => "archive_unsupported",
            Self::ArchiveTooLarge => "archive_too_large",
            Self::Unrecognized => "unrecognized",
        }
    }
}

impl GuestError {
    pub fn new(kind: GuestErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn stale(current: Option<ContentHash>) -> Self {
        let message = match &current {
            Some(hash) => format!("the hash of the file is {hash} now"),
            None => "the file is gone".to_owned(),
        };
        Self::new(GuestErrorKind::Stale { current }, message)
    }

    pub(crate) fn present(current: ContentHash) -> Self {
        let message = format!("the file exists, its hash is {current}");
        Self::new(GuestErrorKind::Present { current: Some(current) }, message)
    }

    pub(crate) fn too_large(size: u64) -> Self {
        Self::new(GuestErrorKind::TooLarge { size: Some(size) }, format!("{size} bytes are too many"))
    }
}

/// An error as received.
#[derive(Deserialize)]
struct Received {
    #[serde(flatten)]
    kind: GuestErrorKind,
    message: String,
}

impl From<Received> for GuestError {
    /// Older guests do not send these fields. They send the value as the whole message.
    fn from(Received { mut kind, message }: Received) -> Self {
        match &mut kind {
            GuestErrorKind::Stale { current: current @ None } | GuestErrorKind::Present { current: current @ None } => {
                *current = message.parse().ok();
            }
            GuestErrorKind::TooLarge { size: size @ None } => *size = message.parse().ok(),
            _ => {}
        }
        Self { kind, message }
    }
}

impl From<FsError> for GuestError {
    fn from(error: FsError) -> Self {
        use GuestErrorKind as Kind;
        let kind = match &error {
            FsError::NotFound { .. } => Kind::NotFound,
            FsError::Exists { .. } => Kind::Exists,
            FsError::IsDirectory { .. } => Kind::IsDirectory,
            FsError::NotDirectory { .. } => Kind::NotDirectory,
            FsError::DirectoryNotEmpty { .. } => Kind::NotEmpty,
            FsError::Escapes { .. } => Kind::Escapes,
            FsError::LinkLoop { .. } => Kind::LinkLoop,
            FsError::Special { .. } => Kind::SpecialFile,
            // The size belongs to an intermediate step, not to the requested file.
            FsError::TooLarge { .. } => Kind::TooLarge { size: None },
            FsError::Denied { .. } => Kind::PermissionDenied,
            FsError::ReadOnly { .. } => Kind::ReadOnly,
            FsError::NoSpace { .. } => Kind::NoSpace,
            FsError::Changed { .. } => Kind::Changed,
            FsError::Root
            | FsError::NotLink { .. }
            | FsError::IntoItself { .. }
            | FsError::TooDeep { .. }
            | FsError::Glob { .. }
            | FsError::Regex { .. }
            | FsError::ForeignSnapshot
            | FsError::Path(_) => Kind::InvalidArgument,
            _ => Kind::Io,
        };
        Self::new(kind, error.sentence())
    }
}

impl From<ArchiveError> for GuestError {
    fn from(error: ArchiveError) -> Self {
        use GuestErrorKind as Kind;
        let kind = match error {
            ArchiveError::Fs(error) => return error.into(),
            ArchiveError::Io(error) => return error.into(),
            ArchiveError::Digest { .. } => Kind::DigestMismatch,
            ArchiveError::Ambiguous { .. } => Kind::ArchiveAmbiguous,
            ArchiveError::Damaged { .. } | ArchiveError::Truncated | ArchiveError::Trailing => Kind::ArchiveDamaged,
            ArchiveError::Name { .. } | ArchiveError::LinkOutside { .. } => Kind::ArchiveEscapes,
            ArchiveError::Duplicate { .. } | ArchiveError::Conflict { .. } => Kind::ArchiveConflict,
            ArchiveError::TooMany { .. } | ArchiveError::TooLarge { .. } | ArchiveError::Ratio { .. } => {
                Kind::ArchiveTooLarge
            }
            _ => Kind::ArchiveUnsupported,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<io::Error> for GuestError {
    fn from(error: io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => GuestErrorKind::NoSpace,
            io::ErrorKind::PermissionDenied => GuestErrorKind::PermissionDenied,
            io::ErrorKind::ReadOnlyFilesystem => GuestErrorKind::ReadOnly,
            _ => GuestErrorKind::Io,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Answer, Reply};
    use serde_json::json;

    fn received(answer: serde_json::Value) -> GuestError {
        match serde_json::from_value(json!({"id": 7, "answer": answer})).unwrap() {
            Reply { answer: Answer::Failed(error) | Answer::Unplaced { error, .. }, .. } => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_hash_of_a_stale_file_travels_as_a_field() {
        let hash = ContentHash::of(b"now");
        let sent = serde_json::to_value(Answer::Failed(GuestError::stale(Some(hash)))).unwrap();
        assert_eq!((&sent["is"], &sent["code"], &sent["current"]), (&json!("failed"), &json!("stale"), &json!(hash)));
        assert_eq!(received(sent).kind, GuestErrorKind::Stale { current: Some(hash) });
        let gone = serde_json::to_value(Answer::Failed(GuestError::stale(None))).unwrap();
        assert_eq!(received(gone).kind, GuestErrorKind::Stale { current: None });
    }

    #[test]
    fn refusals_of_a_guest_from_before_an_upgrade_are_understood() {
        let hash = ContentHash::of(b"now");
        let old =
            |code: &str, message: String| received(json!({"is": "failed", "code": code, "message": message})).kind;
        assert_eq!(old("stale", hash.to_string()), GuestErrorKind::Stale { current: Some(hash) });
        assert_eq!(old("stale", String::new()), GuestErrorKind::Stale { current: None });
        assert_eq!(old("present", hash.to_string()), GuestErrorKind::Present { current: Some(hash) });
        assert_eq!(old("too_large", "68719476737".to_owned()), GuestErrorKind::TooLarge { size: Some(68_719_476_737) });
        assert_eq!(old("too_large", "larger than a frame".to_owned()), GuestErrorKind::TooLarge { size: None });
        assert_eq!(old("busy", "something runs".to_owned()), GuestErrorKind::Busy);
        assert_eq!(old("of_a_later_version", "?".to_owned()), GuestErrorKind::Unrecognized);
        let unplaced = json!({"is": "unplaced", "path": "a", "code": "stale", "message": hash.to_string()});
        assert_eq!(received(unplaced).kind, GuestErrorKind::Stale { current: Some(hash) });
    }

    #[test]
    fn codes_are_the_names_on_the_wire() {
        for kind in [
            GuestErrorKind::Busy,
            GuestErrorKind::NotATerminal,
            GuestErrorKind::InvalidCwd,
            GuestErrorKind::ArchiveTooLarge,
            GuestErrorKind::TooLarge { size: None },
            GuestErrorKind::Stale { current: None },
        ] {
            assert_eq!(serde_json::to_value(&kind).unwrap()["code"], kind.code());
        }
    }
}
