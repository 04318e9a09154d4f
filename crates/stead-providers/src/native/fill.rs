//! Filling a workspace from outside: host mounts and bundles.
//!
//! They are read and judged on the host, into a directory of the server's own that no box can see, and then sent into the box as one tar.

use std::fs::File;
use std::io::{Read, Seek};

use stead_box::RunningBox;
use stead_box::protocol::FileAsk;
use stead_core::config::HostMount;
use stead_core::event::{BundleReport, MountReport, StepReport};
use stead_fs::archive::{self, ArchiveError, ArchiveFormat, ArchiveLimits};
use stead_fs::mount::{self, AllowedRoots, MountPreview};
use stead_fs::{DiskFs, WorkspacePath};

use super::place::Place;
use crate::error::ProviderError;

pub(super) fn mounts(
    place: &Place,
    running: &RunningBox,
    mounts: Vec<HostMount>,
    roots: &[String],
) -> Result<StepReport, ProviderError> {
    let refused = |source| ProviderError::Mount { source };
    let mounts: Vec<mount::HostMount> = mounts.into_iter().map(order).collect();
    let roots = AllowedRoots::open(roots).map_err(refused)?;
    let scratch = place.scratch_directory().map_err(spool)?;
    let mut files = DiskFs::open(scratch.path()).map_err(spool)?;
    let hydrated = mount::hydrate(&mounts, &roots, &mut files, 0).map_err(refused)?;
    send(place, running, &files)?;
    Ok(StepReport {
        mounts: hydrated.previews.iter().map(report).collect(),
        mount_fingerprint: Some(hydrated.fingerprint.to_string()),
        bundle: None,
    })
}

pub(super) fn bundle(
    place: &Place,
    running: &RunningBox,
    mut bundle: File,
    digest: Option<String>,
) -> Result<StepReport, ProviderError> {
    let refused = |source| ProviderError::Bundle { source };
    let mut start = Vec::new();
    let read = bundle.rewind().and_then(|()| (&mut bundle).take(512).read_to_end(&mut start));
    read.map_err(|source| refused(source.into()))?;
    let format = ArchiveFormat::of_content(&start).ok_or(ProviderError::BundleFormat)?;
    let expected = digest.map(|digest| digest.parse()).transpose().map_err(|_| ProviderError::BundleFormat)?;
    let scratch = place.scratch_directory().map_err(spool)?;
    let mut files = DiskFs::open(scratch.path()).map_err(spool)?;
    let (limits, root) = (ArchiveLimits::default(), WorkspacePath::root());
    let unpacked = archive::unpack(&mut bundle, format, expected, &limits, &mut files, &root, 0).map_err(refused)?;
    send(place, running, &files)?;
    let report =
        BundleReport { digest: unpacked.digest.to_string(), files: unpacked.files as u64, bytes: unpacked.bytes };
    Ok(StepReport { bundle: Some(report), ..StepReport::default() })
}

fn send(place: &Place, running: &RunningBox, files: &DiskFs) -> Result<(), ProviderError> {
    let mut tar = place.scratch_file().map_err(spool)?;
    archive::export_tar(files, &WorkspacePath::root(), &mut tar).map_err(|source| ProviderError::Bundle { source })?;
    running.connect()?.files(FileAsk::Unpack { path: String::new() }, Some(&tar))?;
    Ok(())
}

fn spool(source: std::io::Error) -> ProviderError {
    ProviderError::Bundle { source: ArchiveError::Io(source) }
}

fn order(mount: HostMount) -> mount::HostMount {
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
