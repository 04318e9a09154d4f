//! Fills a file tree from host mounts and bundles, for every provider, and reports on them.

use std::fs::File;
use std::io::{Read, Seek};

use stead_core::config::HostMount;
use stead_core::event::{BundleReport, MountReport, StepReport};
use stead_fs::archive::{self, ArchiveFormat, ArchiveLimits};
use stead_fs::mount::{self, AllowedRoots, MountPreview};
use stead_fs::{DiskFs, Filesystem, WorkspacePath};

use crate::contract::error::ProviderError;
use crate::overlay::layer_store::{Layer, LayerDraft, LayerKey, LayerReport};

/// Copies all mounts in, or none.
pub(crate) fn mounts(
    files: &mut dyn Filesystem,
    mounts: Vec<HostMount>,
    roots: &[String],
    at_millis: i64,
) -> Result<StepReport, ProviderError> {
    let refused = |source| ProviderError::Mount { source };
    let mounts: Vec<mount::HostMount> = mounts.into_iter().map(order).collect();
    let roots = AllowedRoots::open(roots).map_err(refused)?;
    let hydrated = mount::hydrate(&mounts, &roots, files, at_millis).map_err(refused)?;
    Ok(StepReport {
        mounts: hydrated.previews.iter().map(report).collect(),
        mount_fingerprint: Some(hydrated.fingerprint.to_string()),
        ..StepReport::default()
    })
}

pub(crate) fn order(mount: HostMount) -> mount::HostMount {
    let HostMount { host_path, mount_path, include_glob, exclude_glob, max_bytes, follow_symlinks } = mount;
    mount::HostMount { host_path, mount_path, include_glob, exclude_glob, max_bytes, follow_symlinks }
}

fn report(preview: &MountPreview) -> MountReport {
    MountReport {
        host_path: preview.host_path.clone(),
        mount_path: preview.mount_path.to_string(),
        entries: preview.entries.clone(),
        total_entries: preview.total_entries as u64,
        files: preview.files as u64,
        bytes_copied: preview.bytes_copied,
        skipped: preview.skipped as u64,
    }
}

/// Unpacks the whole bundle, or nothing.
pub(crate) fn bundle(
    files: &mut dyn Filesystem,
    mut bundle: File,
    digest: Option<String>,
    at_millis: i64,
) -> Result<BundleReport, ProviderError> {
    let refused = |source| ProviderError::Bundle { source };
    let mut start = Vec::new();
    let read = bundle.rewind().and_then(|()| (&mut bundle).take(512).read_to_end(&mut start));
    read.map_err(|source| refused(source.into()))?;
    let format = ArchiveFormat::of_content(&start).ok_or(ProviderError::BundleFormat)?;
    let expected = digest.map(|digest| digest.parse()).transpose().map_err(|_| ProviderError::BundleFormat)?;
    let (limits, root) = (ArchiveLimits::default(), WorkspacePath::root());
    let unpacked = archive::unpack(&mut bundle, format, expected, &limits, files, &root, at_millis).map_err(refused)?;
    let (digest, bytes) = (unpacked.digest.to_string(), unpacked.bytes);
    Ok(BundleReport { digest, files: unpacked.files as u64, bytes })
}

/// Returns the key of a bundle's layer. An expected digest is part of the key, because it is
/// checked when the archive is read.
pub(crate) fn bundle_key(bundle: &mut File, digest: Option<&str>) -> Result<LayerKey, ProviderError> {
    let refused = |source: std::io::Error| ProviderError::Bundle { source: source.into() };
    bundle.rewind().map_err(refused)?;
    let found = stead_fs::hash_reader(bundle).map_err(refused)?;
    Ok(LayerKey::of("bundle", &[found.as_bytes(), digest.unwrap_or_default().as_bytes()]))
}

/// Unpacks a bundle into the directory of a layer.
pub(crate) fn bundle_layer(bundle: File, digest: Option<String>, draft: LayerDraft) -> Result<Layer, ProviderError> {
    let tree = DiskFs::open(draft.tree());
    let mut files = tree.map_err(|source| ProviderError::Bundle { source: source.into() })?;
    let bundle = self::bundle(&mut files, bundle, digest, 0)?;
    draft.complete(LayerReport::Bundle { bundle })
}
