//! Moments that can be gone back to, and who last wrote a file.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::parse::{Fields, Place, Read};
use stead_core::rewind::Points;
use stead_core::{SessionId, SnapshotId, Timestamp};
use utoipa::ToSchema;

use crate::schema;

pub struct RewindRequest {
    pub to: u64,
}

impl Read for RewindRequest {
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let to = fields.required::<u64>("to");
        if to == Some(0) {
            fields.fail("to", "events are counted from 1");
        }
        fields.done();
        to.map(|to| Self { to })
    }
}

/// The files are again as they were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rewound {
    /// The event whose files they are.
    #[schema(minimum = 1)]
    pub to: u64,
    /// The event that tells of it.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Going back to this undoes it.
    #[schema(minimum = 1)]
    pub undo: u64,
    #[schema(required = true)]
    pub tree_hash: Option<String>,
}

/// What a session keeps on its way, and what it can go back to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Moments {
    #[schema(value_type = schema::Points)]
    pub points: Points,
    /// How many of the latest are kept.
    #[schema(minimum = 1)]
    pub keep: u64,
    /// Oldest first. From each event on, until the next, the files were like this.
    pub items: Vec<Moment>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Moment {
    #[schema(minimum = 1)]
    pub seq: u64,
    /// The snapshot that has the files; without one there is no going back here.
    #[schema(value_type = Option<schema::SnapshotId>, required = true)]
    pub snapshot: Option<SnapshotId>,
    /// Why there is none.
    #[schema(required = true)]
    pub reason: Option<String>,
    #[schema(required = true)]
    pub by: Option<Deed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeedKind {
    Start,
    Tool,
    Exec,
    Operation,
}

/// What changed files: a tool call, an exec, an operation on files, or the session's start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Deed {
    pub kind: DeedKind,
    /// The tool, the operation, or the command.
    pub name: String,
    /// The call or the exec.
    #[schema(required = true)]
    pub id: Option<String>,
    pub actor: String,
}

/// The last that happened to a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Blame {
    pub path: String,
    /// Without one, nobody touched it since the session began.
    #[schema(required = true)]
    pub last: Option<Wrote>,
    /// Later events that touched more files than they name.
    pub uncertain: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileDeed {
    Wrote,
    Removed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Wrote {
    /// Another one's for a clone, or for one of several in a workspace.
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    #[schema(minimum = 1)]
    pub seq: u64,
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    pub what: FileDeed,
    pub by: Deed,
}
