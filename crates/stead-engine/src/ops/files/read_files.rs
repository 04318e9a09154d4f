//! Reads files as bytes, as a listing or as a patch. A read records no event, but a refusal does.

use std::sync::Arc;

use stead_core::decide::may_use;
use stead_core::session::Status;
use stead_core::tool::ToolName;
use stead_core::{Actor, Rejection, Resource, SessionId, SnapshotId};
use stead_fs::patch::{IgnoredFiles, Options, Patch};
use stead_fs::{FsError, Listing};
use stead_providers::{OpenFile, OperateError, Workspace};

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::files::operate_files::refuse;

/// The file or directory at a path.
pub enum Opened {
    File(OpenFile),
    Directory(Listing),
}

/// Opens a file for an actor with `read`, or lists a directory for an actor with `ls`.
#[boxed]
pub async fn open_path(engine: &Engine, actor: &Actor, id: SessionId, path: &str) -> Result<Opened, OpError> {
    open_path_within(engine, actor, id, path, u64::MAX).await
}

/// Like [`open_path`], but a file over `most_bytes` is [`FsError::TooLarge`] and costs no copy.
#[boxed]
pub async fn open_path_within(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    path: &str,
    most_bytes: u64,
) -> Result<Opened, OpError> {
    let _slot = engine.enter(id).await?;
    let workspace = allowed(engine, actor, id, &[ToolName::Read, ToolName::Ls]).await?;
    match workspace.open_within(path, most_bytes).await {
        Ok(file) => {
            allowed(engine, actor, id, &[ToolName::Read]).await?;
            Ok(Opened::File(file))
        }
        Err(FsError::IsDirectory { .. }) => {
            allowed(engine, actor, id, &[ToolName::Ls]).await?;
            match workspace.list(path).await {
                Ok(listing) => Ok(Opened::Directory(listing)),
                Err(error) => Err(read_error(engine, id, error).await),
            }
        }
        Err(error) => Err(read_error(engine, id, error).await),
    }
}

/// Returns the error of a failed read. If the session was closed meanwhile, that is the reported
/// reason.
pub(crate) async fn read_error(engine: &Engine, id: SessionId, error: FsError) -> OpError {
    match ended_meanwhile(engine, id).await {
        Some(ended) => ended,
        None => OperateError::from(error).into(),
    }
}

async fn ended_meanwhile(engine: &Engine, id: SessionId) -> Option<OpError> {
    let session = OpenSession::open(engine, id).await.ok()?;
    let status = session.state().await.session?.status;
    (status != Status::Active).then(|| Rejection::NotActive { status }.into())
}

/// The files of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffScope {
    All,
    /// Without files that git ignores, if the workspace is a repository.
    WithoutIgnored,
}

/// The files that a diff compares with those at the start of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffTime {
    Now,
    /// The files after an event, which a checkpoint must hold.
    After(u64),
}

/// Returns the changes since the session began.
#[boxed]
pub async fn diff(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    scope: DiffScope,
    time: DiffTime,
) -> Result<Patch, OpError> {
    let _slot = engine.enter(id).await?;
    let workspace = allowed(engine, actor, id, &[ToolName::Read]).await?;
    let snapshot = match time {
        DiffTime::Now => None,
        DiffTime::After(seq) => Some(checkpoint(engine, id, seq).await?),
    };
    let ignored = match scope {
        DiffScope::All => IgnoredFiles::Included,
        // A workspace in memory has the files of the checkout without its `.git`.
        DiffScope::WithoutIgnored if has_repository(engine, id).await? => IgnoredFiles::LeftOut,
        DiffScope::WithoutIgnored => IgnoredFiles::LeftOutOfRepositories,
    };
    let options = Options { ignored, ..Options::default() };
    let compared = match snapshot {
        None => workspace.diff(options).await,
        Some(snapshot) => workspace.diff_at(snapshot, options).await,
    };
    match compared {
        Ok(patch) => Ok(patch),
        Err(error) => Err(read_error(engine, id, error).await),
    }
}

/// Returns the checkpoint with the files after an event.
async fn checkpoint(engine: &Engine, id: SessionId, seq: u64) -> Result<SnapshotId, OpError> {
    let state = OpenSession::open(engine, id).await?.state().await;
    let missing = || OpError::NotFound { what: Resource::Session, id: id.to_string() };
    let session = state.session.as_ref().ok_or_else(missing)?;
    if seq == 0 || seq > state.seq {
        return Err(Rejection::NoEvent { to: seq, last: state.seq }.into());
    }
    Ok(session.checkpoints.find(seq).map_err(Rejection::NoCheckpoint)?)
}

async fn has_repository(engine: &Engine, id: SessionId) -> Result<bool, OpError> {
    let state = OpenSession::open(engine, id).await?.state().await;
    Ok(state
        .session
        .as_ref()
        .and_then(|session| session.workspace_spec())
        .is_some_and(|spec| spec.repository.is_some()))
}

/// Returns the workspace if the actor may use one of these tools. A refusal names the first tool.
pub(in crate::ops) async fn allowed(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    tools: &[ToolName],
) -> Result<Arc<dyn Workspace>, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let state = session.state().await;
    let missing = || OpError::NotFound { what: Resource::Session, id: id.to_string() };
    let born = state.session.as_ref().ok_or_else(missing)?;
    let mut refused = None;
    for tool in tools {
        match may_use(born, *tool, actor) {
            Ok(()) => return session.workspace().ok_or_else(missing),
            Err(rejection) => {
                refused.get_or_insert((*tool, rejection));
            }
        }
    }
    match refused {
        Some((tool, rejection)) => Err(refuse(&session, tool, rejection, actor).await),
        None => Err(missing()),
    }
}
