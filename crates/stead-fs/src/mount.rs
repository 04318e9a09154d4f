//! Host mounts: files of the host, copied into a filesystem before an agent sees it.
//!
//! Invariant: a file is copied only if its real path is in an allowed root, and either all mounts
//! are copied completely or nothing is. Without configured roots nothing is allowed. Links are
//! skipped unless the mount follows them, and then only inside the allowed roots.

mod directory;
mod error;
mod fingerprint;
mod judge;
mod plan;
mod preview;
mod roots;

use serde::{Deserialize, Serialize};

pub use directory::HostDirectory;
pub use error::MountError;
pub use judge::Judged;
pub use preview::MountPreview;
pub use roots::AllowedRoots;

use crate::digest::Digest;
use crate::filesystem::{Content, Filesystem};
use crate::path::WorkspacePath;
use crate::stage::{Stage, StageError};
use fingerprint::ContentDigest;
use plan::{Item, Plan};

/// One configured mount.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostMount {
    /// Absolute, or relative to an allowed root.
    pub host_path: String,
    /// Path in the workspace; the default is the name of the host path.
    #[serde(default)]
    pub mount_path: Option<String>,
    /// Copy only files that match; empty for all. A pattern without `/` matches names at any depth.
    #[serde(default)]
    pub include_glob: Vec<String>,
    /// Do not copy files or directories that match.
    #[serde(default)]
    pub exclude_glob: Vec<String>,
    /// Maximum number of bytes; 0 is a limit of 0.
    #[serde(default)]
    pub max_bytes: Option<u64>,
    #[serde(default)]
    pub follow_symlinks: bool,
}

impl HostMount {
    pub fn new(host_path: impl Into<String>) -> Self {
        Self {
            host_path: host_path.into(),
            mount_path: None,
            include_glob: Vec::new(),
            exclude_glob: Vec::new(),
            max_bytes: None,
            follow_symlinks: false,
        }
    }
}

/// The result of copying the mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hydrated {
    pub previews: Vec<MountPreview>,
    /// Hash of all fields of all mounts and of all copied content; equal for equal mounts.
    pub fingerprint: Digest,
}

/// Copies every mount into the filesystem, or nothing.
pub fn hydrate(
    mounts: &[HostMount],
    roots: &AllowedRoots,
    fs: &mut dyn Filesystem,
    at_millis: i64,
) -> Result<Hydrated, MountError> {
    // Find and measure all mounts before the first byte is copied.
    let plans = mounts.iter().map(|mount| Plan::make(mount, roots)).collect::<Result<Vec<_>, _>>()?;
    let mut stage = Stage::new(fs, at_millis);
    let mut previews = Vec::with_capacity(plans.len());
    let mut contents = Vec::with_capacity(plans.len());
    for (mount, plan) in mounts.iter().zip(plans) {
        let (bytes_copied, digest) = copy(mount, &plan, roots, &mut stage)?;
        previews.push(MountPreview::of(mount, &plan, roots, bytes_copied));
        contents.push(digest);
    }
    let fingerprint = fingerprint::fingerprint(mounts, &contents)?;
    stage.keep();
    Ok(Hydrated { previews, fingerprint })
}

fn copy(
    mount: &HostMount,
    plan: &Plan,
    roots: &AllowedRoots,
    stage: &mut Stage<'_>,
) -> Result<(u64, Digest), MountError> {
    let mut left = mount.max_bytes.unwrap_or(u64::MAX);
    let mut digest = ContentDigest::default();
    for item in &plan.items {
        match item {
            Item::Directory { target } => {
                stage.directory(target).map_err(|source| failed(mount, target, source))?;
                digest.directory(&below(target, plan));
            }
            Item::File { source, target, permission } => {
                let content = roots.fs(source.root).open_walked(&source.path);
                let mut reader: Box<dyn std::io::Read> =
                    match content.map_err(|source| failed(mount, target, source))? {
                        Content::Bytes(bytes) => Box::new(std::io::Cursor::new(bytes)),
                        Content::Stream { reader, .. } => Box::new(reader),
                    };
                let (bytes, hash) =
                    stage.file(target, &mut *reader, left, *permission).map_err(|error| match error {
                        StageError::Fs(source) => failed(mount, target, source),
                        StageError::Source(source) => MountError::Read { host_path: mount.host_path.clone(), source },
                        // The file has grown since it was measured.
                        StageError::TooLong { limit } => {
                            MountError::OverBudget { bytes: limit.saturating_add(1), limit }
                        }
                    })?;
                left -= bytes;
                digest.file(&below(target, plan), *permission, hash);
            }
        }
    }
    let copied = mount.max_bytes.unwrap_or(u64::MAX) - left;
    Ok((copied, digest.finish()))
}

fn failed(mount: &HostMount, target: &WorkspacePath, source: crate::FsError) -> MountError {
    MountError::Copy { host_path: mount.host_path.clone(), target: target.clone(), source }
}

fn below(target: &WorkspacePath, plan: &Plan) -> WorkspacePath {
    target.below(&plan.mount_path).unwrap_or_else(|| target.clone())
}
