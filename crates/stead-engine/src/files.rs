//! Between the file layer's changes and the journal's.
//!
//! Small text goes into the journal as it is; everything else goes to the blob store first and the journal names it, so an event never
//! refers to bytes that are not durable yet.

use std::collections::HashMap;

use bytes::Bytes;
use stead_core::event::{Content, FileChange};
use stead_core::{Event, SessionId};
use stead_fs::{Change, Permission, WorkspacePath};
use stead_providers::RecordedChange;

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::each_event;

/// Text up to this size stays in the journal.
const INLINE_BYTES: usize = 64 * 1024;

pub(crate) async fn to_journal(engine: &Engine, changes: Vec<Change>) -> Result<Vec<FileChange>, OpError> {
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

/// Everything that ever happened to the files of the workspace that is there now, oldest first.
pub(crate) async fn history(engine: &Engine, session: SessionId) -> Result<Vec<RecordedChange>, OpError> {
    let mut changes = Vec::new();
    let mut call_started = HashMap::new();
    let mut step_started = None;
    each_event(engine, session, |recorded| {
        match recorded.event {
            // What an earlier attempt wrote went with it.
            Event::ProvisionStarted { .. } => changes.clear(),
            Event::InitStepStarted { .. } => step_started = Some(recorded.at),
            Event::InitStepFinished { changes: done, .. } => {
                changes.extend(done.into_iter().map(|change| (step_started.unwrap_or(recorded.at), change)));
            }
            Event::ToolCallStarted { call, .. } => {
                call_started.insert(call, recorded.at);
            }
            Event::ToolCallFinished { call, changes: done, .. } => {
                let at = call_started.remove(&call).unwrap_or(recorded.at);
                changes.extend(done.into_iter().map(|change| (at, change)));
            }
            _ => {}
        }
        Ok(())
    })
    .await?;
    let mut history = Vec::with_capacity(changes.len());
    for (at, change) in changes {
        history.push(RecordedChange { at, change: from_journal(engine, change).await? });
    }
    Ok(history)
}

async fn from_journal(engine: &Engine, change: FileChange) -> Result<Change, OpError> {
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
    })
}

/// A path that was valid when it was recorded. Were it ever not to parse, it is the root, on which every file change is refused.
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
