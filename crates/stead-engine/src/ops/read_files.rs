//! Look at files as bytes, as a listing, as a tar, as a patch. Reading changes nothing and leaves no event.

use std::fs::File;

use stead_core::decide::may_use;
use stead_core::tool::ToolName;
use stead_core::{Actor, SessionId};
use stead_fs::Listing;
use stead_fs::patch::Patch;
use stead_providers::{OpenFile, Workspace};

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

pub async fn open_file(engine: &Engine, actor: &Actor, id: SessionId, path: &str) -> Result<OpenFile, OpError> {
    let workspace = readable(engine, actor, id, ToolName::Read).await?;
    Ok(workspace.open(path).await.map_err(stead_providers::OperateError::from)?)
}

pub async fn list_files(engine: &Engine, actor: &Actor, id: SessionId, path: &str) -> Result<Listing, OpError> {
    let workspace = readable(engine, actor, id, ToolName::Ls).await?;
    Ok(workspace.list(path).await.map_err(stead_providers::OperateError::from)?)
}

/// The tree below a path as tar, in a file that is already unlinked.
pub async fn export_tar(engine: &Engine, actor: &Actor, id: SessionId, path: &str) -> Result<File, OpError> {
    let workspace = readable(engine, actor, id, ToolName::Read).await?;
    let spool = tempfile::tempfile().map_err(|source| OpError::Spool { source })?;
    let out = spool.try_clone().map_err(|source| OpError::Spool { source })?;
    workspace.export(path, out).await.map_err(|source| OpError::Export { source })?;
    Ok(spool)
}

/// What changed since the session began.
pub async fn diff(engine: &Engine, actor: &Actor, id: SessionId) -> Result<Patch, OpError> {
    let workspace = readable(engine, actor, id, ToolName::Read).await?;
    Ok(workspace.diff().await.map_err(stead_providers::OperateError::from)?)
}

/// The workspace, for an actor who may look at it with this tool.
async fn readable(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    tool: ToolName,
) -> Result<std::sync::Arc<dyn Workspace>, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let state = session.state().await;
    let missing = || OpError::NotFound { what: "session", id: id.to_string() };
    may_use(state.session.as_ref().ok_or_else(missing)?, tool, actor)?;
    session.workspace().ok_or_else(missing)
}
