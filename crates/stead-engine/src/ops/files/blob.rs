//! Stores and reads blobs, which bundles and uploads consist of.

use stead_core::identity::Tenant;
use stead_core::{ContentHash, Name, Resource};
use stead_store::OpenBlob;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint;
use crate::limits::storage;
use crate::ops::boxed;
use crate::ops::registry::agent_type::writable;

/// Stores a stream of any size in constant memory. Returns its hash and length.
pub async fn put_blob(
    engine: &Engine,
    tenant: &Tenant,
    content: impl AsyncRead + Unpin,
) -> Result<(ContentHash, u64), OpError> {
    match tenant {
        Tenant::Platform => {
            let upload = engine.store().blobs().put_stream(content).await?;
            Ok((upload.hash, upload.len))
        }
        Tenant::Project(project) => put_in_project(engine, project, content).await,
    }
}

/// Stores a blob that counts for the disk quota of a project. A refused one leaves nothing behind.
async fn put_in_project(
    engine: &Engine,
    project: &Name,
    content: impl AsyncRead + Unpin,
) -> Result<(ContentHash, u64), OpError> {
    let tenant = Tenant::Project(project.clone());
    writable(engine, &tenant).await?;
    let allowed = storage::allowed(engine, project).await?;
    // One byte more than the whole quota is enough to refuse.
    let most = allowed.disk_bytes.map_or(u64::MAX, |most| most.saturating_add(1));
    let upload = engine.store().blobs().put_stream(content.take(most)).await?;
    // A server that is killed here has stored bytes that nothing names. The collector removes them.
    failpoint::pause("blob.stored").await;
    if let Err(refused) = engine.store().record_upload(project, &upload, allowed).await {
        engine.store().discard(&upload).await?;
        return Err(refused.into());
    }
    // The deletion of the project may have forgotten its uploads before this one.
    match writable(engine, &tenant).await {
        Err(deleted) if deleted.is_deleted_project() => {
            engine.store().forget_storage_of(project.as_str()).await?;
            return Err(deleted);
        }
        checked => checked?,
    }
    Ok((upload.hash, upload.len))
}

/// Returns true if the tenant may read a blob by its hash: the platform may read all, a project
/// those that it uploaded. The hash of a blob is no secret, so it proves nothing.
#[boxed]
pub(crate) async fn may_read_blob(engine: &Engine, tenant: &Tenant, hash: &ContentHash) -> Result<bool, OpError> {
    match tenant {
        Tenant::Platform => Ok(true),
        Tenant::Project(project) => Ok(engine.store().uploaded(project, hash).await?),
    }
}

#[boxed]
pub async fn open_blob(engine: &Engine, tenant: &Tenant, hash: &ContentHash) -> Result<OpenBlob, OpError> {
    let found = match may_read_blob(engine, tenant, hash).await? {
        true => engine.store().blobs().open(hash).await?,
        false => None,
    };
    found.ok_or_else(|| OpError::NotFound { what: Resource::Blob, id: hash.to_string() })
}
