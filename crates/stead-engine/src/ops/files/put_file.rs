//! Uploads a file or an archive to a workspace. The bytes go to the blob store first. Then one
//! change writes them into the workspace.
//!
//! The actor's permission is checked before the first byte is read. It is checked again when the
//! core decides about the change, because it may be different by then.

use stead_core::ContentHash;
use stead_core::event::{Existing, FileOperation, Parents};
use stead_core::tool::ToolName;
use stead_core::{Actor, SessionId};
use stead_store::Upload;
use tokio::io::AsyncRead;

use crate::engine::Engine;
use crate::error::OpError;
use crate::limits::uploads::Charge;
use crate::open_session::{OpenSession, Slack};
use crate::ops::files::operate_files::{Operated, operate_files};
use crate::ops::files::read_files::allowed;

/// The target of an upload and its conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutTarget {
    pub path: String,
    /// Requires that the existing file has this hash. `*` matches any file.
    pub if_match: Option<String>,
    pub existing: Existing,
    pub parents: Parents,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutFile {
    pub hash: ContentHash,
    pub bytes: u64,
    pub operated: Operated,
}

pub async fn put_file(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    target: PutTarget,
    content: impl AsyncRead + Unpin,
) -> Result<PutFile, OpError> {
    allowed(engine, actor, id, &[ToolName::Write]).await?;
    let charge = OpenSession::open(engine, id).await?.charge(Slack::None).await;
    let upload = charge.store(engine, content).await?;
    let PutTarget { path, if_match, existing, parents } = target;
    let (hash, bytes) = (upload.hash, upload.len);
    let operation = FileOperation::Put { path, blob: hash.to_string(), bytes, if_match, existing, parents };
    let operated = operate_with(engine, actor, id, operation, upload, charge).await?;
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
    let charge = OpenSession::open(engine, id).await?.charge(Slack::Archive).await;
    let upload = charge.store(engine, content).await?;
    let operation = FileOperation::Unpack { path, blob: upload.hash.to_string() };
    operate_with(engine, actor, id, operation, upload, charge).await
}

/// Performs an operation with uploaded bytes. Afterwards the bytes stay in the blob store only if
/// the journal refers to them. This holds for every outcome, and also if the client disconnects.
async fn operate_with(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    operation: FileOperation,
    upload: Upload,
    charge: Charge,
) -> Result<Operated, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    let operated = async move {
        let operated = operate_files(&work, &actor, id, operation).await;
        if let Err(error) = work.store().discard(&upload).await {
            // The blob collector removes it later.
            tracing::warn!(session = %id, error = &error as &dyn std::error::Error, "cannot remove an upload");
        }
        drop(charge);
        operated
    };
    engine.to_its_end(operated).await
}
