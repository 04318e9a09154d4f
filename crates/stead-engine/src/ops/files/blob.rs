//! Stores and reads blobs, which bundles and uploads consist of.

use stead_core::identity::Tenant;
use stead_core::{ContentHash, Resource};
use stead_store::OpenBlob;
use tokio::io::AsyncRead;

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;

/// Stores a stream of any size in constant memory. Returns its hash and length.
pub async fn put_blob(
    engine: &Engine,
    tenant: &Tenant,
    content: impl AsyncRead + Unpin,
) -> Result<(ContentHash, u64), OpError> {
    let upload = engine.store().blobs().put_stream(content).await?;
    if let Tenant::Project(project) = tenant {
        engine.store().record_upload(project.clone(), upload.hash).await?;
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
