//! Errors of providers.

use stead_core::WorkspaceId;
use stead_core::config::ProviderName;
use stead_core::event::{Failure, SetupReport, StepReport};
use stead_fs::{ContentHash, ErrorCode};

#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("provider '{provider}' is not part of this server")]
    Absent { provider: ProviderName },
    #[error("provider '{provider}' is unhealthy: {reason}")]
    Unhealthy { provider: ProviderName, reason: String },
    #[error("provider '{provider}' cannot perform '{action}'")]
    Unsupported { provider: ProviderName, action: &'static str },
    #[error("the workspace is a directory of the host, and its files are not replaced")]
    HostDirectory,
    #[error(
        "the directory has more than {entries} entries or {bytes} bytes, without .git and the files that .gitignore \
         matches, so it is not copied"
    )]
    TreeTooLarge { entries: u64, bytes: u64 },
    #[error("workspace {workspace} is not there")]
    Gone { workspace: WorkspaceId },
    #[error("workspace {workspace} could not be rebuilt from its journal")]
    Rebuild {
        workspace: WorkspaceId,
        #[source]
        source: crate::memory::RebuildError,
    },
    #[error("a host mount was refused")]
    Mount {
        #[source]
        source: stead_fs::mount::MountError,
    },
    #[error("the bundle was refused")]
    Bundle {
        #[source]
        source: stead_fs::archive::ArchiveError,
    },
    #[error("the bundle is not a tar, tar.gz, tar.zst or zip archive")]
    BundleFormat,
    #[error("the snapshot {snapshot} is not there")]
    NoSnapshot { snapshot: stead_core::SnapshotId },
    #[error("the work was interrupted")]
    Interrupted,
    #[error("the session is paused")]
    Paused,
    #[error("the box failed (stead doctor tries what this host can do)")]
    Box {
        #[from]
        source: stead_box::BoxError,
    },
    #[error("{reason}")]
    BaseImage { reason: String },
    #[error("cannot reach Podman at {address}: {reason}; is `podman system service` running there?")]
    PodmanUnreachable { address: String, reason: String },
    #[error("Podman refused: {reason}")]
    Podman { reason: String },
    #[error("the image '{image}' is not there: {reason}; import it with stead image import, or name another")]
    NoImage { image: String, reason: String },
    #[error("the image '{image}' could not be fetched: {reason}")]
    Pull { image: String, reason: String },
    #[error("Podman ran the box with '{got}' where '{asked}' was asked for")]
    Runtime { asked: String, got: String },
    #[error("the runtime '{runtime}' cannot run boxes here: {reason}")]
    RuntimeUnusable { runtime: String, reason: String },
    #[error("{}", setup_failed(.report, *.timeout_seconds))]
    Setup { report: Box<SetupReport>, timeout_seconds: u64 },
    #[error("this host cannot enforce the limit of {limit}; `stead doctor` reports what it can enforce")]
    Unenforced { limit: stead_core::capability::LimitKind },
    /// The content for the workspace could not be fetched, for example because a clone failed.
    /// Carries the code and message of that failure.
    #[error("{}", .0.message)]
    Source(Failure),
    #[error(
        "something runs in the box, so its files have to be copied, and copies may take no more than its disk limit of {limit} bytes; \
         end what runs, or remove files"
    )]
    NoRoom { limit: u64 },
    #[error(
        "the workspace's disk is full: after a snapshot there would be no room to start its box again; nothing was changed; \
         remove files, or restore an older snapshot, and try again"
    )]
    VolumeFull,
    #[error("the layer {key} is not there")]
    NoLayer { key: crate::LayerKey },
    #[error("the layer {key} was made for something else: its label has another kind of report")]
    LayerReport { key: crate::LayerKey },
    #[error("cannot write the workspace's files")]
    Files {
        #[source]
        source: stead_fs::FsError,
    },
}

/// The failure of a setup command, with the end of its output.
fn setup_failed(report: &SetupReport, timeout_seconds: u64) -> String {
    let SetupReport { number, exit_code, .. } = report;
    let output = [&report.stderr, &report.stdout].into_iter().map(|text| text.trim()).find(|text| !text.is_empty());
    let output = output.unwrap_or("it wrote no output");
    let tail: String = output.chars().rev().take(OUTPUT_CHARS).collect::<Vec<_>>().into_iter().rev().collect();
    let how = if report.timed_out { format!("timed out after {timeout_seconds} s; ") } else { String::new() };
    format!("setup command {number} failed with exit code {exit_code}: {how}{tail}")
}

/// Number of characters of a setup command's output that its failure quotes. The whole tail is in
/// the session.
const OUTPUT_CHARS: usize = 2_048;

/// Errors of file changes, snapshots and restores.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// The file's hash does not match the one that the caller expects.
    #[error("the file has changed: its hash is now {}", .current.map_or_else(|| "(it is gone)".to_owned(), |hash| hash.to_string()))]
    Stale { current: Option<ContentHash> },
    /// The caller asked for a new file, but it already exists.
    #[error("the file is there already: its hash is {current}")]
    Present { current: ContentHash },
    #[error("the snapshot {snapshot} is not there")]
    NoSnapshot { snapshot: stead_core::SnapshotId },
    #[error("{reason}")]
    NoRoom { reason: String },
    #[error("this provider cannot do that")]
    Unsupported,
    #[error(
        "the workspace is a directory of the host, and its files are not replaced: clone the session to work with the \
         files of a snapshot"
    )]
    HostDirectory,
    #[error(transparent)]
    Archive(#[from] stead_fs::archive::ArchiveError),
    #[error("the archive format is unknown; Stead reads tar, tar.gz, tar.zst and zip")]
    ArchiveFormat,
    #[error("the work was interrupted")]
    Interrupted,
    #[error(transparent)]
    Fs(#[from] stead_fs::FsError),
}

impl OperateError {
    /// Stable, machine-readable error code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Stale { .. } => ErrorCode::Stale,
            Self::Present { .. } => ErrorCode::Present,
            Self::NoSnapshot { .. } => ErrorCode::NoSnapshot,
            Self::NoRoom { .. } => ErrorCode::NoRoom,
            Self::Unsupported => ErrorCode::Unsupported,
            Self::HostDirectory => ErrorCode::HostDirectory,
            Self::Archive(error) => error.code(),
            Self::ArchiveFormat => ErrorCode::ArchiveUnsupported,
            Self::Interrupted => ErrorCode::Interrupted,
            Self::Fs(error) => error.code(),
        }
    }
}

impl ProviderError {
    /// Stable, machine-readable error code.
    pub fn code(&self) -> &str {
        match self {
            Self::Absent { .. } => "provider_absent",
            Self::Unhealthy { .. } => "provider_unhealthy",
            Self::Unsupported { .. } => "unsupported",
            Self::HostDirectory => "host_directory",
            Self::Gone { .. } => "workspace_gone",
            Self::Rebuild { .. } => "rebuild_failed",
            Self::Mount { .. } => "mount_refused",
            Self::Bundle { .. } | Self::BundleFormat => "bundle_refused",
            Self::NoSnapshot { .. } => "no_snapshot",
            Self::Interrupted | Self::Paused => "interrupted",
            Self::Box { .. } => "box_failed",
            Self::BaseImage { .. } => "base_image_refused",
            Self::PodmanUnreachable { .. } => "provider_unhealthy",
            Self::Podman { .. } => "podman_refused",
            Self::NoImage { .. } => "image_missing",
            Self::Pull { .. } => "image_pull_failed",
            Self::Runtime { .. } => "runtime_replaced",
            Self::RuntimeUnusable { .. } => "runtime_unusable",
            Self::Setup { .. } => "setup_failed",
            Self::Source(failure) => &failure.code,
            Self::Unenforced { .. } => "limit_not_enforced",
            Self::NoRoom { .. } | Self::VolumeFull | Self::TreeTooLarge { .. } => "no_room",
            Self::NoLayer { .. } | Self::LayerReport { .. } => "no_layer",
            Self::Files { .. } => "files_failed",
        }
    }

    /// Returns the report of a failed init action: the output of a setup command, empty for other
    /// actions.
    pub fn report(&self) -> StepReport {
        let setup = match self {
            Self::Setup { report, .. } => Some(report.clone()),
            _ => None,
        };
        StepReport { setup, ..StepReport::default() }
    }

    /// Converts the error to the journal's form, with the whole chain of causes.
    pub fn to_failure(&self) -> Failure {
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Failure::new(self.code(), message)
    }
}
