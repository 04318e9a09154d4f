//! Fills a tree from outside, on blocking threads.

use std::fs::File;

use stead_core::Timestamp;
use stead_core::config::HostMount;
use stead_core::event::StepReport;
use stead_fs::archive::ArchiveError;
use stead_fs::{DiskFs, MemoryFs};

use crate::contract::error::ProviderError;
use crate::fill;
use crate::guest::Scratch;
use crate::overlay::layer_store::{Layer, LayerDraft, LayerKey, LayerSlot};

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
        let bundle = fill::bundle(&mut files, bundle, digest, now.millis())?;
        Ok((files, StepReport { bundle: Some(bundle), ..StepReport::default() }))
    })
    .await
}

/// Reads a layer into the tree, over the existing files.
pub(super) async fn layer(mut files: MemoryFs, layer: Layer, now: Timestamp) -> Filled {
    off_thread(move || {
        let spool = |source| ProviderError::Bundle { source: ArchiveError::Io(source) };
        let disk = DiskFs::open(&layer.tree).map_err(spool)?;
        stead_fs::lay(&disk, &mut files, now.millis()).map_err(|source| ProviderError::Files { source })?;
        Ok((files, StepReport::default()))
    })
    .await
}

/// Creates a directory for a tree. Memory workspaces share no layers.
pub(super) fn draft(key: LayerKey) -> Result<LayerSlot, ProviderError> {
    let directory = Scratch::new(std::env::temp_dir()).directory();
    let directory = directory.map_err(|source| ProviderError::Bundle { source: ArchiveError::Io(source) })?;
    Ok(LayerSlot::Empty(LayerDraft::scratch(key, directory)))
}

async fn off_thread(work: impl FnOnce() -> Filled + Send + 'static) -> Filled {
    match tokio::task::spawn_blocking(work).await {
        Ok(filled) => filled,
        // The work panicked or the server is stopping: no other outcome is known.
        Err(_) => Err(ProviderError::Interrupted),
    }
}
