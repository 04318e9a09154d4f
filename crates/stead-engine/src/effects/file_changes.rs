//! Converts file changes between the file layer and the journal.
//!
//! Small text is stored in the journal. Everything else goes to the blob store first, and the
//! journal names it. An event therefore never refers to bytes that are not durable yet.

use bytes::Bytes;
use stead_core::event::{Content, FileChange, FileEffect};
use stead_fs::{Change, Permission, WorkspacePath};
use stead_providers::Done;

use crate::engine::Engine;
use crate::error::OpError;

/// Text up to this size is stored in the journal.
const INLINE_BYTES: usize = 64 * 1024;

/// Returns the effect for the journal, and the staged change to publish once the effect is
/// recorded.
pub(crate) async fn to_effect(engine: &Engine, done: Done) -> Result<(FileEffect, stead_providers::Staged), OpError> {
    let Done { changes, tree_hash, snapshot_hash, revision, touched, point, staged, .. } = done;
    let changes = to_journal(engine, changes).await?;
    let (snapshot_hash, snapshot_hash_absent) = match snapshot_hash {
        Some(Ok(hash)) => (Some(hash), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    Ok((FileEffect { changes, tree_hash, snapshot_hash, snapshot_hash_absent, revision, touched, point }, staged))
}

async fn to_journal(engine: &Engine, changes: Vec<Change>) -> Result<Vec<FileChange>, OpError> {
    let mut recorded = Vec::with_capacity(changes.len());
    for change in changes {
        recorded.push(match change {
            Change::Wrote { path, content } => {
                FileChange::Wrote { path: path.to_string(), content: content_to_journal(engine, &content).await? }
            }
            Change::Appended { path, content } => {
                FileChange::Appended { path: path.to_string(), content: content_to_journal(engine, &content).await? }
            }
            Change::Linked { path, target } => {
                FileChange::Linked { path: path.to_string(), target: content_to_journal(engine, &target).await? }
            }
            Change::MadeDirectory { path } => FileChange::MadeDirectory { path: path.to_string() },
            Change::SetPermission { path, permission: Permission::Executable } => {
                FileChange::MadeExecutable { path: path.to_string() }
            }
            Change::SetPermission { path, permission: Permission::Plain } => {
                FileChange::MadePlain { path: path.to_string() }
            }
            Change::Removed { path } => FileChange::Removed { path: path.to_string() },
            Change::Renamed { from, to } => FileChange::Renamed { from: from.to_string(), to: to.to_string() },
            Change::Copied { from, to } => FileChange::Copied { from: from.to_string(), to: to.to_string() },
        });
    }
    Ok(recorded)
}

async fn content_to_journal(engine: &Engine, content: &Bytes) -> Result<Content, OpError> {
    match std::str::from_utf8(content) {
        Ok(text) if text.len() <= INLINE_BYTES => Ok(Content::Text(text.to_owned())),
        _ => Ok(Content::Blob(engine.store().blobs().put(content.clone()).await?.to_string())),
    }
}

pub(crate) async fn from_journal(engine: &Engine, change: FileChange) -> Result<Change, OpError> {
    Ok(match change {
        FileChange::Wrote { path, content } => {
            Change::Wrote { path: recorded_path(&path), content: content_from_journal(engine, content).await?.into() }
        }
        FileChange::Appended { path, content } => Change::Appended {
            path: recorded_path(&path),
            content: content_from_journal(engine, content).await?.into(),
        },
        FileChange::Linked { path, target } => {
            Change::Linked { path: recorded_path(&path), target: content_from_journal(engine, target).await?.into() }
        }
        FileChange::MadeDirectory { path } => Change::MadeDirectory { path: recorded_path(&path) },
        FileChange::MadeExecutable { path } => {
            Change::SetPermission { path: recorded_path(&path), permission: Permission::Executable }
        }
        FileChange::MadePlain { path } => {
            Change::SetPermission { path: recorded_path(&path), permission: Permission::Plain }
        }
        FileChange::Removed { path } => Change::Removed { path: recorded_path(&path) },
        FileChange::Renamed { from, to } => Change::Renamed { from: recorded_path(&from), to: recorded_path(&to) },
        FileChange::Copied { from, to } => Change::Copied { from: recorded_path(&from), to: recorded_path(&to) },
    })
}

/// Parses a path that was valid when it was recorded. A path that does not parse becomes the root,
/// where every file change is refused.
fn recorded_path(text: &str) -> WorkspacePath {
    text.parse().unwrap_or_else(|_| WorkspacePath::root())
}

async fn content_from_journal(engine: &Engine, content: Content) -> Result<Vec<u8>, OpError> {
    match content {
        Content::Text(text) => Ok(text.into_bytes()),
        Content::Blob(digest) => {
            let missing = || OpError::MissingBlob { digest: digest.clone() };
            let parsed = digest.parse().map_err(|_| missing())?;
            let bytes = engine.store().blobs().get(&parsed).await?.ok_or_else(missing)?;
            Ok(bytes.to_vec())
        }
    }
}
