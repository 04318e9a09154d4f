//! Filling a tree from outside, off the async threads.

use std::fs::File;

use stead_core::Timestamp;
use stead_core::config::HostMount;
use stead_core::event::StepReport;
use stead_fs::archive::ArchiveError;
use stead_fs::{DiskFs, MemoryFs};

use crate::boxed::Scratch;
use crate::error::ProviderError;
use crate::fill;
use crate::layers::TreeSource;

type Filled = Result<(MemoryFs, StepReport), ProviderError>;

pub(super) async fn mounts(mut files: MemoryFs, mounts: Vec<HostMount>, roots: Vec<String>, now: Timestamp) -> Filled {
    off_thread(move || {
        let report = fill::mounts(&mut files, mounts, &roots, now.millis())?;
        Ok((files, report))
    })
    .await
}

pub(super) async fn bundle(mut files: MemoryFs, bundle: File, digest: Option<String>, now: Timestamp) -> Filled {
    off_thread(move || {
        let report = fill::bundle(&mut files, bundle, digest, now.millis())?;
        Ok((files, report))
    })
    .await
}

/// Reads a tree in, over what is there. It is written to a directory first, whoever writes it.
pub(super) async fn tree(mut files: MemoryFs, source: TreeSource, now: Timestamp) -> Filled {
    off_thread(move || {
        let spool = |source| ProviderError::Bundle { source: ArchiveError::Io(source) };
        let scratch = Scratch::new(std::env::temp_dir()).directory().map_err(spool)?;
        let note = (source.write)(scratch.path())?;
        let disk = DiskFs::open(scratch.path()).map_err(spool)?;
        stead_fs::lay(&disk, &mut files, now.millis()).map_err(|source| ProviderError::Files { source })?;
        Ok((files, serde_json::from_value(note).unwrap_or_default()))
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
