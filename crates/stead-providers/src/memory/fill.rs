//! Filling a tree from outside: host mounts and bundles, off the async threads.

use std::fs::File;
use std::io::{Read, Seek};

use stead_core::Timestamp;
use stead_core::config::HostMount;
use stead_core::event::{BundleReport, MountReport, StepReport};
use stead_fs::archive::{self, ArchiveFormat, ArchiveLimits};
use stead_fs::mount::{self, AllowedRoots, MountPreview};
use stead_fs::{MemoryFs, WorkspacePath};

use crate::error::ProviderError;

type Filled = Result<(MemoryFs, StepReport), ProviderError>;

pub(super) async fn mounts(files: MemoryFs, mounts: Vec<HostMount>, roots: Vec<String>, now: Timestamp) -> Filled {
    off_thread(move || {
        let mut files = files;
        let refused = |source| ProviderError::Mount { source };
        let mounts: Vec<mount::HostMount> = mounts.into_iter().map(order).collect();
        let roots = AllowedRoots::open(&roots).map_err(refused)?;
        let hydrated = mount::hydrate(&mounts, &roots, &mut files, now.millis()).map_err(refused)?;
        let report = StepReport {
            mounts: hydrated.previews.iter().map(report).collect(),
            mount_fingerprint: Some(hydrated.fingerprint.to_string()),
            bundle: None,
        };
        Ok((files, report))
    })
    .await
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

pub(super) async fn bundle(files: MemoryFs, bundle: File, digest: Option<String>, now: Timestamp) -> Filled {
    off_thread(move || {
        let (mut files, mut bundle) = (files, bundle);
        let refused = |source| ProviderError::Bundle { source };
        let mut start = Vec::new();
        let read = bundle.rewind().and_then(|()| (&mut bundle).take(512).read_to_end(&mut start));
        read.map_err(|source| refused(source.into()))?;
        let format = ArchiveFormat::of_content(&start).ok_or(ProviderError::BundleFormat)?;
        let expected = digest.map(|digest| digest.parse()).transpose().map_err(|_| ProviderError::BundleFormat)?;
        let limits = ArchiveLimits::default();
        let root = WorkspacePath::root();
        let unpacked = archive::unpack(&mut bundle, format, expected, &limits, &mut files, &root, now.millis())
            .map_err(refused)?;
        let (digest, bytes) = (unpacked.digest.to_string(), unpacked.bytes);
        let report = BundleReport { digest, files: unpacked.files as u64, bytes };
        Ok((files, StepReport { bundle: Some(report), ..StepReport::default() }))
    })
    .await
}

async fn off_thread(work: impl FnOnce() -> Filled + Send + 'static) -> Filled {
    match tokio::task::spawn_blocking(work).await {
        Ok(filled) => filled,
        // The work panicked or the server is going down: the step has no outcome to report but this.
        Err(_) => Err(ProviderError::Interrupted),
    }
}
