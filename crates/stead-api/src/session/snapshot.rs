//! Requests and responses for snapshots and clones.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stead_core::parse::{FieldPath, Fields, Read};
use stead_core::session::HashAbsence;
use stead_core::{SnapshotId, Timestamp};
use utoipa::ToSchema;

use crate::request::{Kind, Rules, Sequence, Text, Whole, request};
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
    /// Hash of all files. `null` until it is computed, which follows the snapshot of a large tree
    /// or of a busy box, or if it cannot be computed.
    #[schema(required = true)]
    pub tree_hash: Option<String>,
    /// Reason why there is no `tree_hash`. With `pending`, list the snapshots again later. Absent
    /// if there is a hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::HashAbsence>, nullable = false)]
    pub tree_hash_absent: Option<HashAbsence>,
    /// Time of the creation.
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
}

impl From<(SnapshotId, stead_core::session::Snapshot)> for Snapshot {
    fn from((id, kept): (SnapshotId, stead_core::session::Snapshot)) -> Self {
        let stead_core::session::Snapshot { name, seq, tree_hash, tree_hash_absent, created_at } = kept;
        Self { id, name, seq, tree_hash, tree_hash_absent, created_at }
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

request! {
    /// Body of `POST /sessions/{id}/snapshots`.
    SnapshotRequest {
        /// Name for people; need not be unique.
        optional name: Text<1, 256>,
    }
}

impl Rules for SnapshotRequest {}

/// Isolation of a clone: `none` shares the workspace of its source, `full` has its own copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    None,
    Full,
}

impl Read for Isolation {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match String::read(value, at)?.as_str() {
            "none" => Some(Self::None),
            "full" => Some(Self::Full),
            _ => at.fail("must be one of none, full"),
        }
    }
}

impl Kind for Isolation {
    fn schema() -> Value {
        schema::named("Isolation")
    }
}

/// Maximum number of clones in one request.
pub const MAX_CLONES: u64 = 64;

request! {
    /// Body of `POST /sessions/{id}/clone`.
    CloneRequest {
        /// `none` shares the workspace of the source, `full` gives each clone its own copy.
        required isolation: Isolation,
        /// Number of clones.
        default(Whole(1)) count: Whole<1, MAX_CLONES>,
        /// Sequence number of the event whose files a full clone starts with. Absent for the
        /// current files.
        optional at: Sequence,
    }
}

impl Rules for CloneRequest {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.at.is_some() && self.isolation == Isolation::None {
            fields.fail("at", "goes with isolation 'full': a workspace that is shared has no past of its own");
        }
    }

    fn restrict(schema: &mut Value) {
        schema["if"] = json!({"properties": {"isolation": {"const": "none"}}});
        schema["then"] = json!({"properties": {"at": {"type": "null"}}});
    }
}
