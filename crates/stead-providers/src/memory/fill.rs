//! Filling a tree from outside, off the async threads.

use std::fs::File;

use stead_core::Timestamp;
use stead_core::config::HostMount;
use stead_core::event::StepReport;
use stead_fs::MemoryFs;

use crate::error::ProviderError;
use crate::fill;

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

async fn off_thread(work: impl FnOnce() -> Filled + Send + 'static) -> Filled {
    match tokio::task::spawn_blocking(work).await {
        Ok(filled) => filled,
        // The work panicked or the server is going down: the step has no outcome to report but this.
        Err(_) => Err(ProviderError::Interrupted),
    }
}
