//! Stores and reads blobs, which bundles and uploads consist of.

use stead_core::{ContentHash, Resource};
use stead_store::OpenBlob;
use tokio::io::AsyncRead;

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;

/// Stores a stream of any size in constant memory. Returns its hash and length.
pub async fn put_blob(engine: &Engine, content: impl AsyncRead + Unpin) -> Result<(ContentHash, u64), OpError> {
    let upload = engine.store().blobs().put_stream(content).await?;
    Ok((upload.hash, upload.len))
}

#[boxed]
pub async fn open_blob(engine: &Engine, hash: &ContentHash) -> Result<OpenBlob, OpError> {
    let found = engine.store().blobs().open(hash).await?;
    found.ok_or_else(|| OpError::NotFound { what: Resource::Blob, id: hash.to_string() })
}
