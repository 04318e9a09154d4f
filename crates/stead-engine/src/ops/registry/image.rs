//! Imports, reads and removes images from local files. They belong to a project or to the platform.
//!
//! Their bytes are in the layer store of this host, and their names are files beside it. After a
//! crash a name refers either to the old or to the new image.

use std::fs::File;
use std::sync::Arc;

use serde_json::{Value, json};
use stead_core::identity::Tenant;
use stead_core::image::ImageName;
use stead_core::{Actor, Name, Resource};
use stead_providers::{ImageError, ImageRecord, Images, Naming};
use stead_store::StorageKind;

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint;
use crate::journal::audit;
use crate::limits::storage;
use crate::ops::boxed;
use crate::ops::registry::agent_type::writable;

fn kept(engine: &Engine) -> Result<Arc<Images>, OpError> {
    engine.settings().images.clone().ok_or(OpError::NoImages)
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, OpError> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(|_| OpError::ShuttingDown)??)
}

/// Imports an archive under a name of a tenant: a tar of a root directory, or an OCI archive. All
/// of it is imported, or nothing changes.
#[boxed]
pub async fn import_image(
    engine: &Engine,
    actor: &Actor,
    tenant: &Tenant,
    name: ImageName,
    archive: File,
) -> Result<(ImageRecord, Naming), OpError> {
    let (work, actor, tenant) = (engine.clone(), actor.clone(), tenant.clone());
    engine.to_its_end(async move { import(&work, &actor, tenant, name, archive).await }).await
}

async fn import(
    engine: &Engine,
    actor: &Actor,
    tenant: Tenant,
    name: ImageName,
    archive: File,
) -> Result<(ImageRecord, Naming), OpError> {
    let (images, at) = (kept(engine)?, clock::now());
    writable(engine, &tenant).await?;
    let _turn = engine.imports().acquire_owned().await.map_err(|_| OpError::ShuttingDown)?;
    let spool = images.spool().map_err(|source| OpError::Spool { source })?;
    let owner = tenant.clone();
    let record = off_thread(move || images.unpack(&owner, &name, archive, spool, at)).await?;
    let naming = give_name(engine, &record).await?;
    failpoint::pause("image.named").await;
    match writable(engine, &tenant).await {
        // The deletion of the project may have removed its images before this one had its name.
        Err(deleted) if deleted.is_deleted_project() => {
            remove_of_project(engine, &record).await?;
            return Err(deleted);
        }
        checked => checked?,
    }
    let after = json!({"digest": record.digest, "bytes": record.bytes});
    engine.store().record_audit(vec![audit::image_change(actor, &record, &after, at)]).await?;
    // Warm boxes of the previous image are no longer useful.
    engine.pool().look();
    Ok((record, naming))
}

/// Counts an unpacked image for the disk quota of its project, then names it. While a name moves to
/// another image, both count.
async fn give_name(engine: &Engine, record: &ImageRecord) -> Result<Naming, OpError> {
    let _changing = engine.storage().lock().await;
    if let Some(project) = &record.project {
        let counted = storage::add(engine, StorageKind::Image, project, record.digest.to_string(), record.bytes).await;
        if let Err(refused) = counted {
            let (images, record) = (kept(engine)?, record.clone());
            off_thread(move || Ok(images.abandon(&record)?)).await?;
            return Err(refused);
        }
        failpoint::pause("image.counted").await;
    }
    let (images, unnamed) = (kept(engine)?, record.clone());
    let named = off_thread(move || images.give_name(&unnamed)).await;
    if let Some(project) = &record.project {
        storage::count_images(engine, project).await?;
    }
    named
}

/// Returns the tenant's own image of this name, else the platform's.
#[boxed]
pub async fn image(engine: &Engine, tenant: &Tenant, name: ImageName) -> Result<ImageRecord, OpError> {
    let (images, tenant) = (kept(engine)?, tenant.clone());
    off_thread(move || images.find(&tenant, &name)?.ok_or(ImageError::Missing { name })).await
}

/// The images that a tenant can use, sorted by name: its own, and those of the platform whose names
/// it has not taken.
#[boxed]
pub async fn images(engine: &Engine, tenant: &Tenant) -> Result<Vec<ImageRecord>, OpError> {
    let (images, tenant) = (kept(engine)?, tenant.clone());
    off_thread(move || images.list(&tenant)).await
}

/// Removes a tenant's own name, if no box uses it.
#[boxed]
pub async fn remove_image(engine: &Engine, actor: &Actor, tenant: &Tenant, name: ImageName) -> Result<(), OpError> {
    let (work, actor, tenant) = (engine.clone(), actor.clone(), tenant.clone());
    engine.to_its_end(async move { remove(&work, &actor, tenant, name).await }).await
}

async fn remove(engine: &Engine, actor: &Actor, tenant: Tenant, name: ImageName) -> Result<(), OpError> {
    let found = image(engine, &tenant, name.clone()).await?;
    if found.tenant() != tenant {
        return Err(OpError::OfPlatform { what: Resource::Image, id: name.to_string() });
    }
    let images = kept(engine)?;
    let record = {
        let _changing = engine.storage().lock().await;
        let record = off_thread(move || images.remove(&tenant, &name)).await?;
        if let Some(project) = &record.project {
            storage::count_images(engine, project).await?;
        }
        record
    };
    let entry = audit::image_change(actor, &record, &Value::Null, clock::now());
    engine.store().record_audit(vec![entry]).await?;
    forget_copies(engine, &record).await
}

/// Removes the image names of a project that is being deleted. Boxes that still use one of the
/// images keep its files.
pub(crate) async fn remove_images_of(engine: &Engine, project: &Name) -> Result<(), OpError> {
    for record in images_of(engine, project).await? {
        remove_of_project(engine, &record).await?;
        let entry = audit::image_change(&Actor::System, &record, &Value::Null, clock::now());
        engine.store().record_audit(vec![entry]).await?;
    }
    Ok(())
}

/// Returns a project's own images. Empty if this server has no image store.
pub(crate) async fn images_of(engine: &Engine, project: &Name) -> Result<Vec<ImageRecord>, OpError> {
    let Ok(images) = kept(engine) else { return Ok(Vec::new()) };
    let project = project.clone();
    off_thread(move || images.list_own(&project)).await
}

/// Returns the images of all tenants. `None` if this server has no image store.
pub(crate) async fn all_images(engine: &Engine) -> Result<Option<Vec<ImageRecord>>, OpError> {
    let Ok(images) = kept(engine) else { return Ok(None) };
    off_thread(move || images.list_all()).await.map(Some)
}

async fn remove_of_project(engine: &Engine, record: &ImageRecord) -> Result<(), OpError> {
    let (images, gone) = (kept(engine)?, record.clone());
    {
        let _changing = engine.storage().lock().await;
        off_thread(move || images.remove_record(&gone)).await?;
        if let Some(project) = &record.project {
            storage::count_images(engine, project).await?;
        }
    }
    forget_copies(engine, record).await
}

/// Removes the copies that providers keep of an image whose last name is gone.
async fn forget_copies(engine: &Engine, record: &ImageRecord) -> Result<(), OpError> {
    let (images, digest) = (kept(engine)?, record.digest);
    let still_named = off_thread(move || Ok(images.has(&digest))).await?;
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
