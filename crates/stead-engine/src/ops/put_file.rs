//! Put bytes of any size into a workspace: first into the blob store, then, as one change, where they belong.
//!
//! Whether the caller may is asked before the first byte is taken, and again when the change is decided: the answer may be another by then.

use stead_core::event::{Existing, FileOperation, Parents};
use stead_core::tool::ToolName;
use stead_core::{Actor, SessionId};
use stead_store::Digest;
use tokio::io::AsyncRead;

use super::operate_files::{Operated, operate_files};
use super::put_blob;
use super::read_files::allowed;
use crate::engine::Engine;
use crate::error::OpError;

/// Where bytes are to go, and under which conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub path: String,
    /// Only if the file there has this hash; `*` for any file.
    pub if_match: Option<String>,
    pub existing: Existing,
    pub parents: Parents,
}

/// A file that was put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutFile {
    pub hash: Digest,
    pub bytes: u64,
    pub operated: Operated,
}

pub async fn put_file(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    place: Place,
    content: impl AsyncRead + Unpin,
) -> Result<PutFile, OpError> {
    allowed(engine, actor, id, &[ToolName::Write]).await?;
    let (hash, bytes) = put_blob(engine, content).await?;
    let Place { path, if_match, existing, parents } = place;
    let operation = FileOperation::Put { path, blob: hash.to_string(), bytes, if_match, existing, parents };
    let operated = operate_files(engine, actor, id, operation).await?;
    Ok(PutFile { hash, bytes, operated })
}

/// Unpacks an archive (tar, tar.gz, tar.zst, zip) into a directory: all of it, or nothing.
pub async fn unpack_archive(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    path: String,
    content: impl AsyncRead + Unpin,
) -> Result<Operated, OpError> {
    allowed(engine, actor, id, &[ToolName::Write]).await?;
    let (blob, _) = put_blob(engine, content).await?;
    operate_files(engine, actor, id, FileOperation::Unpack { path, blob: blob.to_string() }).await
}
