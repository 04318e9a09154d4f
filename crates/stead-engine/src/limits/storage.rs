//! Counts what projects keep outside of their sessions for their disk quotas.
//!
//! The files are the truth and the store has the counts. A change of images or of setup results
//! holds [`Engine::storage`] while it changes both. After a crash [`settle`] counts the files
//! again, before the server answers its first request.

use std::collections::BTreeMap;

use stead_core::Name;
use stead_core::admission::Allowed;
use stead_providers::ImageRecord;
use stead_store::{StorageError, StorageKind, StoredItem};

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::{all_images, effective_quotas, images_of, setup_results};

impl From<StorageError> for OpError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Quota(exceeded) => Self::Quota(exceeded),
            StorageError::Store(error) => Self::Store(error),
        }
    }
}

/// Returns the limits of everything in a project together.
pub(crate) async fn allowed(engine: &Engine, project: &Name) -> Result<Allowed, OpError> {
    Ok(effective_quotas(engine, project).await?.amounts.allowed())
}

/// Counts an item of a project, if it fits into the quota. The caller holds [`Engine::storage`].
pub(crate) async fn add(
    engine: &Engine,
    kind: StorageKind,
    project: &Name,
    id: String,
    bytes: u64,
) -> Result<(), OpError> {
    let allowed = allowed(engine, project).await?;
    let item = StoredItem { project: project.to_string(), id, bytes };
    Ok(engine.store().add_storage(kind, item, allowed).await?)
}

/// Counts the images of a project as they are. The caller holds [`Engine::storage`].
pub(crate) async fn count_images(engine: &Engine, project: &Name) -> Result<(), OpError> {
    let items = items(images_of(engine, project).await?);
    Ok(engine.store().replace_storage(StorageKind::Image, Some(project), items).await?)
}

/// An image with several names in a project counts once.
fn items(images: Vec<ImageRecord>) -> Vec<StoredItem> {
    let named = images.into_iter().filter_map(|image| {
        let project = image.project?.to_string();
        Some(((project, image.digest.to_string()), image.bytes))
    });
    let distinct: BTreeMap<(String, String), u64> = named.collect();
    distinct.into_iter().map(|((project, id), bytes)| StoredItem { project, id, bytes }).collect()
}

/// Counts all images and setup results as they are.
pub(crate) async fn settle(engine: &Engine) -> Result<(), OpError> {
    {
        let _changing = engine.storage().lock().await;
        if let Some(images) = all_images(engine).await? {
            engine.store().replace_storage(StorageKind::Image, None, items(images)).await?;
        }
    }
    count_setup_results(engine).await
}

/// Counts the setup results as they are, also after their provider has collected some. A provider
/// that cannot list them now leaves the counts as they are.
pub(crate) async fn count_setup_results(engine: &Engine) -> Result<(), OpError> {
    let _changing = engine.storage().lock().await;
    let kept = match setup_results(engine).await {
        Ok(kept) => kept,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot count the setup results");
            return Ok(());
        }
    };
    let of_projects = kept.into_iter().filter_map(|kept| {
        let project = kept.entry.about.project?.to_string();
        Some(StoredItem { project, id: kept.entry.id, bytes: kept.entry.bytes })
    });
    Ok(engine.store().replace_storage(StorageKind::SetupResult, None, of_projects.collect()).await?)
}
