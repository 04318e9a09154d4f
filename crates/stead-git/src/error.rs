//! Errors of git operations, with git's own messages where available.

use std::io;
use std::path::PathBuf;

use stead_core::remote::RepositoryRefused;

use crate::git_messages::Cause;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error(transparent)]
    Refused(#[from] RepositoryRefused),
    #[error(
        "{host} resolves to {address}, a loopback or private address: it is only used if the platform's allowed_git_hosts names it"
    )]
    PrivateAddress { host: String, address: String },
    #[error("the repository {path} cannot be used: {reason}")]
    LocalRepository { path: String, reason: String },
    #[error(
        "Stead does not push to a repository on this machine, because git would run that repository's hooks as the server's user: \
         push to an https:// or ssh:// URL, or take the changes with stead apply or stead export"
    )]
    LocalPush,
    #[error(
        "{host} answers with something other than git, such as a login page: check the URL, \
         and configure a credential for the host if the repository is private ({reason})"
    )]
    NotGit { host: String, reason: String },
    #[error(
        "{host} offers the repository as plain files (dumb HTTP), and git does not check the objects of such a \
         repository: use a host with git's smart HTTP protocol, or ssh"
    )]
    DumbHttp { host: String },
    #[error("cannot reach {host}: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("{host} refused access: {reason}")]
    Unauthorised { host: String, reason: String },
    #[error("there is no such repository, or it is not visible to this server: {reason}")]
    NotFound { reason: String },
    #[error("the repository has no branch, tag or commit '{reference}'")]
    MissingRef { reference: String },
    #[error(
        "the repository has no pull request {number}: it has neither refs/pull/{number}/head nor \
         refs/merge-requests/{number}/head; give the branch of the pull request"
    )]
    MissingPullRequest { number: u64 },
    #[error("the submodule {path} cannot be fetched: {reason}")]
    Submodule { path: String, reason: String },
    #[error("the repository has no branches yet")]
    Empty,
    #[error("'{reference}' is part of a commit's name; give all of it")]
    ShortCommit { reference: String },
    #[error(
        "the server sends git elsewhere, and redirects are not followed: use the repository's final URL ({reason})"
    )]
    Redirected { reason: String },
    #[error("git took longer than {seconds} s to {doing}")]
    Timeout { doing: &'static str, seconds: u64 },
    #[error("the transfer is larger than the limit of {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the commit has more files than the limit of {limit}")]
    TooManyFiles { limit: u64 },
    #[error("the commit's files are together larger than the limit of {limit} bytes")]
    CheckoutTooLarge { limit: u64 },
    #[error("Git LFS: {reason}")]
    Lfs { reason: String },
    #[error("the Git LFS content of {path} cannot be fetched: {reason}")]
    LfsMissing { path: String, reason: String },
    #[error("the Git LFS content of {path} is not what its pointer names: {reason}")]
    LfsCorrupt { path: String, reason: String },
    #[error(
        "the LFS server refers to {host}, which is not the repository's own host: if you trust it, add it to [git] lfs_hosts"
    )]
    LfsElsewhere { host: String },
    #[error("the server's disk has {free} bytes left, and {needed} are needed: make room there")]
    NoSpace { needed: u64, free: u64 },
    #[error("the push was refused: {reason}")]
    PushRefused { reason: String },
    #[error("the pack that the workspace sent was refused: {reason}")]
    BadPack { reason: String },
    #[error("git could not {doing}: {reason}")]
    Failed { doing: &'static str, reason: String, cause: Option<Cause> },
    #[error("cannot start git")]
    Spawn(#[source] io::Error),
    #[error("cannot use {path}")]
    Disk {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the credential for {host} cannot be used: {reason}")]
    Credential { host: String, reason: String },
    #[error("the use of a credential could not be recorded, so it was not used: {reason}")]
    Unrecorded { reason: String },
}

impl GitError {
    /// Stable, machine-readable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(_) | Self::PrivateAddress { .. } | Self::LocalRepository { .. } => "repository_refused",
            Self::NotGit { .. } => "git_not_git",
            Self::DumbHttp { .. } => "git_dumb_http",
            Self::Unreachable { .. } => "git_unreachable",
            Self::Unauthorised { .. } | Self::Credential { .. } => "git_unauthorised",
            Self::NotFound { .. } => "git_not_found",
            Self::MissingRef { .. } | Self::MissingPullRequest { .. } | Self::Empty | Self::ShortCommit { .. } => {
                "git_ref_missing"
            }
            Self::Submodule { .. } => "git_submodule_failed",
            Self::Redirected { .. } => "git_redirected",
            Self::Timeout { .. } => "git_timeout",
            Self::TooLarge { .. } | Self::TooManyFiles { .. } | Self::CheckoutTooLarge { .. } => "git_too_large",
            Self::Lfs { .. } => "git_lfs_failed",
            Self::LfsMissing { .. } => "git_lfs_missing",
            Self::LfsCorrupt { .. } => "git_lfs_corrupt",
            Self::LfsElsewhere { .. } => "git_lfs_refused",
            Self::NoSpace { .. } => "insufficient_storage",
            Self::PushRefused { .. } | Self::LocalPush => "git_push_refused",
            Self::BadPack { .. } => "git_bad_pack",
            Self::Failed { .. } | Self::Spawn(_) | Self::Disk { .. } | Self::Unrecorded { .. } => "git_failed",
        }
    }

    /// The message with all causes.
    pub fn sentence(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }

    /// Converts an out-of-memory failure: a list that exceeds the memory limit has too many files.
    pub(crate) fn too_many(self, limit: u64) -> Self {
        match self {
            Self::Failed { cause: Some(Cause::OutOfMemory), .. } => Self::TooManyFiles { limit },
            other => other,
        }
    }

    /// Returns true if a retry may succeed.
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

pub(crate) fn disk(path: &std::path::Path) -> impl FnOnce(io::Error) -> GitError {
    let path = path.to_owned();
    move |source| GitError::Disk { path, source }
}

/// Makes untrusted text safe for a terminal: at most `most` characters, without control characters.
pub(crate) fn harmless(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}
