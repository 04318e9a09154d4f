//! Requests and responses for snapshots and clones.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::config::Bounded;
use stead_core::parse::{FieldPath, Fields, Read};
use stead_core::{SnapshotId, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// The files of a workspace at one moment, kept on request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// Id of the snapshot.
    #[schema(value_type = schema::SnapshotId)]
    pub id: SnapshotId,
    /// Name that the request gave; `null` if it gave none.
    #[schema(required = true)]
    pub name: Option<String>,
    /// Sequence number of the event that recorded the snapshot.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Hash of all files; `null` if the provider computes none.
    #[schema(required = true)]
    pub tree_hash: Option<String>,
    /// Time of the creation.
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
}

impl From<(SnapshotId, stead_core::session::Snapshot)> for Snapshot {
    fn from((id, kept): (SnapshotId, stead_core::session::Snapshot)) -> Self {
        let stead_core::session::Snapshot { name, seq, tree_hash, created_at } = kept;
        Self { id, name, seq, tree_hash, created_at }
    }
}

/// Result of restoring a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    /// Restored snapshot.
    #[schema(value_type = schema::SnapshotId)]
    pub id: SnapshotId,
    /// Sequence number of the event that recorded the restore.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Hash of all files after the restore; `null` if the provider computes none.
    #[schema(required = true)]
    pub tree_hash: Option<String>,
}

pub struct SnapshotRequest {
    pub name: Option<String>,
}

impl Read for SnapshotRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let name = fields.optional::<Bounded<1, 256>>("name").map(|text| text.0);
        fields.done();
        Some(Self { name })
    }
}

/// Isolation of a clone: `none` shares the workspace of its source, `full` has its own copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    None,
    Full,
}

/// Maximum number of clones in one request.
pub const MAX_CLONES: u64 = 64;

pub struct CloneRequest {
    pub isolation: Isolation,
    pub count: u32,
    pub at: Option<u64>,
}

impl Read for CloneRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let isolation = match fields.required::<String>("isolation").as_deref() {
            Some("none") => Some(Isolation::None),
            Some("full") => Some(Isolation::Full),
            Some(_) => {
                fields.fail("isolation", "must be one of none, full");
                None
            }
            None => None,
        };
        let count = fields.number_or("count", 1..=MAX_CLONES, 1);
        let at = fields.optional::<u64>("at");
        match (at, isolation) {
            (Some(0), _) => fields.fail("at", "events are counted from 1"),
            (Some(_), Some(Isolation::None)) => {
                fields.fail("at", "goes with isolation 'full': a workspace that is shared has no past of its own");
            }
            _ => {}
        }
        fields.done();
        Some(Self { isolation: isolation?, count: u32::try_from(count).ok()?, at })
    }
}
