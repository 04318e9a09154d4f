//! Stores and reads blobs, which bundles and uploads consist of.

use stead_core::Resource;
use stead_store::{Digest, OpenBlob};
use tokio::io::AsyncRead;

use crate::engine::Engine;
use crate::error::OpError;

/// Stores a stream of any size in constant memory. Returns its hash and length.
pub async fn put_blob(engine: &Engine, content: impl AsyncRead + Unpin) -> Result<(Digest, u64), OpError> {
    let upload = engine.store().blobs().put_stream(content).await?;
    Ok((upload.digest, upload.len))
}

pub async fn open_blob(engine: &Engine, digest: &Digest) -> Result<OpenBlob, OpError> {
    let found = engine.store().blobs().open(digest).await?;
    found.ok_or_else(|| OpError::NotFound { what: Resource::Blob, id: digest.to_string() })
}
