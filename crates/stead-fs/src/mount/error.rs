//! Errors of mounts. Clients see the messages.

use std::io;

use crate::error::FsError;
use crate::path::{PathError, WorkspacePath};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    #[error("No allowed host roots configured for mounts.")]
    NoRoots,
    #[error("Allowed host root does not exist: {root}")]
    RootMissing {
        root: String,
        #[source]
        source: io::Error,
    },
    #[error("Host mount path must not be empty.")]
    EmptyHostPath,
    #[error("Host path does not exist: {host_path}")]
    Missing { host_path: String },
    #[error("Host path '{host_path}' is outside allowed roots: {roots:?}")]
    OutsideRoots { host_path: String, roots: Vec<String> },
    #[error("Host path '{host_path}' is a symbolic link; set follow_symlinks to mount what it leads to.")]
    Symlink { host_path: String },
    #[error(
        "Host path '{host_path}' belongs to root, and so would every file a box leaves there: mount a directory of an ordinary \
         user, use mode overlay or ro, or name it in the platform's allowed_root_owned_mounts."
    )]
    RootOwned { host_path: String },
    #[error(
        "Host path '{host_path}' holds the socket '{file}', through which a box could talk to a program of the host; mount a directory without sockets, or use the mode 'overlay'."
    )]
    Socket { host_path: String, file: String },
    #[error(
        "Host path '{host_path}' holds a set-user-id or set-group-id file that a box could change: remove the bit from {file}, \
         or use mode overlay or ro."
    )]
    SetId { host_path: String, file: String },
    #[error("Host path '{host_path}' is neither a file nor a directory.")]
    Special { host_path: String },
    #[error("Link '{link}' in host path '{host_path}' leads outside allowed roots.")]
    LinkOutside { host_path: String, link: String },
    #[error("Mount path '{mount_path}' escapes workspace directory")]
    MountPath {
        mount_path: String,
        #[source]
        source: PathError,
    },
    #[error("Mount path '{mount_path}' names no file; a file cannot be mounted at the root.")]
    FileAtRoot { mount_path: String },
    #[error("Invalid glob pattern in {field}: {pattern:?}")]
    Glob {
        field: &'static str,
        pattern: String,
        #[source]
        source: FsError,
    },
    #[error("Mount exceeds byte budget: {bytes} > {limit}")]
    OverBudget { bytes: u64, limit: u64 },
    #[error("Host path '{host_path}' holds more than {limit} files and directories.")]
    TooMany { host_path: String, limit: usize },
    #[error("cannot read host path '{host_path}'")]
    Read {
        host_path: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot look at host path '{host_path}'")]
    Walk {
        host_path: String,
        #[source]
        source: FsError,
    },
    #[error("cannot mount '{host_path}' at {target}")]
    Copy {
        host_path: String,
        target: WorkspacePath,
        #[source]
        source: FsError,
    },
    #[error("cannot describe the mounts")]
    Describe(#[source] serde_json::Error),
}

impl MountError {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoRoots | Self::OutsideRoots { .. } | Self::LinkOutside { .. } => "mount_outside_roots",
            Self::RootMissing { .. } => "mount_root_missing",
            Self::Missing { .. } => "mount_not_found",
            Self::Symlink { .. } => "mount_symlink",
            Self::RootOwned { .. } => "mount_root_owned",
            Self::SetId { .. } => "mount_set_id",
            Self::Socket { .. } => "mount_socket",
            Self::OverBudget { .. } | Self::TooMany { .. } => "mount_too_large",
            Self::EmptyHostPath
            | Self::Special { .. }
            | Self::MountPath { .. }
            | Self::FileAtRoot { .. }
            | Self::Glob { .. } => "mount_invalid",
            Self::Copy { .. } => "mount_conflict",
            Self::Read { .. } | Self::Walk { .. } | Self::Describe(_) => "mount_failed",
        }
    }
}
