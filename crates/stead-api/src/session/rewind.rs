//! Requests and responses for rewind and blame.

use serde::{Deserialize, Serialize};
use stead_core::rewind::CheckpointCost;
use stead_core::{SessionId, SnapshotId, Timestamp};
use utoipa::ToSchema;

use crate::request::{Rules, Sequence, request};
use crate::schema;

request! {
    /// Body of `POST /sessions/{id}/rewind`.
    RewindRequest {
        /// Sequence number of the event whose files are restored, counted from 1.
        required to: Sequence,
    }
}

impl Rules for RewindRequest {}

/// Result of a rewind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rewound {
    /// Sequence number of the event whose files were restored.
    #[schema(minimum = 1)]
    pub to: u64,
    /// Sequence number of the event that recorded the rewind.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Pass this value as `to` to undo the rewind.
    #[schema(minimum = 1)]
    pub undo: u64,
    /// Hash of all files after the rewind; `null` if the provider computes none.
    #[schema(required = true)]
    pub tree_hash: Option<String>,
}

/// Checkpoints of a session: states of its files that it can rewind to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Moments)]
pub struct Checkpoints {
    /// Cost that the server may spend on checkpoints: `off`, `free` (the default), `layers` or
    /// `copies`. Each value includes the ones before it.
    #[schema(value_type = schema::Points)]
    pub points: CheckpointCost,
    /// Number of latest checkpoints that the server keeps. The default is 100.
    #[schema(minimum = 1)]
    pub keep: u64,
    /// Checkpoints, oldest first. Each describes the files from its event until the next item.
    pub items: Vec<Checkpoint>,
}

/// The files of a workspace after one event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Moment)]
pub struct Checkpoint {
    /// Sequence number of the event.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Snapshot that holds the files; `null` if the session cannot rewind to this event.
    #[schema(value_type = Option<schema::SnapshotId>, required = true)]
    pub snapshot: Option<SnapshotId>,
    /// Code of the reason why there is no snapshot; `null` if there is one.
    #[schema(required = true)]
    pub reason: Option<String>,
    /// Call that changed the files; `null` if unknown.
    #[schema(required = true)]
    pub by: Option<Deed>,
}

/// Kind of a change: the session's start, a tool call, an exec or a file operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeedKind {
    Start,
    Tool,
    Exec,
    Operation,
}

/// A call that changed files: a tool call, an exec, a file operation or the session's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Deed {
    /// Kind of the call.
    pub kind: DeedKind,
    /// Name of the tool or of the operation, or the command line.
    pub name: String,
    /// Id of the tool call or of the exec; `null` for other kinds.
    #[schema(required = true)]
    pub id: Option<String>,
    /// Caller who made the change.
    pub actor: String,
}

/// The last change to a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Blame {
    /// Path of the file.
    pub path: String,
    /// Last recorded change; `null` if there is none since the session started.
    #[schema(required = true)]
    pub last: Option<Wrote>,
    /// Sequence numbers of later events that changed more files than they list. Each may have
    /// changed this file.
    pub uncertain: Vec<u64>,
}

/// Kind of the last change: the file was written or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileDeed {
    Wrote,
    Removed,
}

/// A change to one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Wrote {
    /// Session that made the change. It differs from the requested session for a clone, or if
    /// sessions share a workspace.
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    /// Sequence number of the event in that session's journal.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Time of the change.
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    /// Kind of the change.
    pub what: FileDeed,
    /// Call that made the change.
    pub by: Deed,
}
