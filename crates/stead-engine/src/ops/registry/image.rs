//! Imports, reads and removes images from local files.
//!
//! Their bytes are in the layer store of this host, and their names are files beside it. After a
//! crash a name refers either to the old or to the new image.

use std::fs::File;
use std::sync::Arc;

use serde_json::json;
use stead_core::Actor;
use stead_core::image::ImageName;
use stead_providers::{ImageError, ImageRecord, Images, Naming};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::ops::boxed;

fn kept(engine: &Engine) -> Result<Arc<Images>, OpError> {
    engine.settings().images.clone().ok_or(OpError::NoImages)
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, OpError> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|_| OpError::ShuttingDown)??)
}

/// Imports an archive under a name: a tar of a root directory, or an OCI archive. All of it is
/// imported, or nothing changes.
#[boxed]
pub async fn import_image(
    engine: &Engine,
    actor: &Actor,
    name: ImageName,
    archive: File,
) -> Result<(ImageRecord, Naming), OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { import(&work, &actor, name, archive).await }).await
}

async fn import(
    engine: &Engine,
    actor: &Actor,
    name: ImageName,
    archive: File,
) -> Result<(ImageRecord, Naming), OpError> {
    let (images, at) = (kept(engine)?, clock::now());
    let spool = tempfile::tempfile().map_err(|source| OpError::Spool { source })?;
    let (record, naming) = off_thread(move || images.import(&name, archive, spool, at)).await?;
    let after = json!({"digest": record.digest, "bytes": record.bytes}).to_string();
    let entry = audit::admin_change(actor, "image", record.name.as_str(), &after, at);
    engine.store().record_audit(vec![entry]).await?;
    // Warm boxes of the previous image are no longer useful.
    engine.pool().look();
    Ok((record, naming))
}

#[boxed]
pub async fn image(engine: &Engine, name: ImageName) -> Result<ImageRecord, OpError> {
    let images = kept(engine)?;
    let found = off_thread(move || images.find(&name)?.ok_or(ImageError::Missing { name })).await?;
    Ok(found)
}

/// All images, sorted by name.
#[boxed]
pub async fn images(engine: &Engine) -> Result<Vec<ImageRecord>, OpError> {
    let images = kept(engine)?;
    off_thread(move || images.list()).await
}

/// Removes a name that no box uses.
#[boxed]
pub async fn remove_image(engine: &Engine, actor: &Actor, name: ImageName) -> Result<(), OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { remove(&work, &actor, name).await }).await
}

async fn remove(engine: &Engine, actor: &Actor, name: ImageName) -> Result<(), OpError> {
    let images = kept(engine)?;
    let (record, still_named) = off_thread(move || {
        let record = images.remove(&name)?;
        let still_named = images.has(&record.digest);
        Ok((record, still_named))
    })
    .await?;
    let entry = audit::admin_change(actor, "image", record.name.as_str(), "null", clock::now());
    engine.store().record_audit(vec![entry]).await?;
    for provider in engine.providers().iter().filter(|_| !still_named) {
        let Some(images) = provider.image_cache() else { continue };
        if let Err(error) = images.forget_image(&record.digest).await {
            // The remaining copy is unused and harmless.
            tracing::warn!(provider = %provider.name(), image = %record.digest, error = %error.to_failure().message, "keeps a copy of a removed image");
        }
    }
    engine.pool().look();
    Ok(())
}
