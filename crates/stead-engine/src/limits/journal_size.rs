//! The size of a session's journal, and its limit.
//!
//! The journal records everything an agent does, and no record is ever removed. A journal may
//! therefore grow to a multiple of the disk limit. After that the session refuses calls. Only
//! removing files, restoring and rewinding stay possible.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use stead_core::event::FileOperation;
use stead_core::tool::ToolName;
use stead_core::{Command, Event, SessionId};
use tokio::sync::OnceCell;

use crate::engine::Engine;
use crate::error::OpError;

/// The journal may have this many times the bytes of the disk limit.
const FACTOR: u64 = 4;
const LEAST: u64 = 64 << 20;
const MOST: u64 = 4 << 30;

#[derive(Default)]
pub(crate) struct JournalSize {
    /// Bytes of the events that existed at the first check.
    before: OnceCell<u64>,
    /// Bytes of events since the session was opened.
    added: AtomicU64,
    /// Bytes of the blobs that events name, as last measured.
    blobs: AtomicU64,
    measured: AtomicBool,
}

impl JournalSize {
    /// Counts an event that is about to be appended.
    pub(crate) fn add(&self, event: &Event, bytes: usize) {
        self.added.fetch_add(bytes as u64, Relaxed);
        let files = match event {
            Event::InitStepFinished { files, .. }
            | Event::ToolCallFinished { files, .. }
            | Event::FileOperationFinished { files, .. } => files,
            _ => return,
        };
        if files.blobs().next().is_some() {
            // Only the store knows the length of a blob.
            self.measured.store(false, Relaxed);
        }
    }

    /// Refuses a command if the journal is full.
    pub(crate) async fn check(&self, engine: &Engine, id: SessionId, disk: Option<u64>) -> Result<(), OpError> {
        let limit = disk.unwrap_or(u64::MAX).saturating_mul(FACTOR).clamp(LEAST, MOST);
        let store = engine.store();
        let before = *self.before.get_or_try_init(|| store.event_bytes(id)).await?;
        if !self.measured.swap(true, Relaxed) {
            self.blobs.store(store.blob_bytes(id).await?, Relaxed);
        }
        let size = before + self.added.load(Relaxed) + self.blobs.load(Relaxed);
        if size < limit { Ok(()) } else { Err(OpError::JournalFull { limit }) }
    }
}

/// Returns true if a command adds bytes of the agent's choice to the journal. Removing files,
/// restoring and rewinding do not count, so that they stay possible.
pub(crate) fn grows(command: &Command) -> bool {
    match command {
        Command::CallTool { tool, .. } => *tool != ToolName::Rm,
        Command::OperateFiles { operation, .. } => !matches!(
            operation,
            FileOperation::Delete { .. } | FileOperation::Restore { .. } | FileOperation::Checkpoint
        ),
        Command::Exec { .. } | Command::OpenPort { .. } => true,
        _ => false,
    }
}
