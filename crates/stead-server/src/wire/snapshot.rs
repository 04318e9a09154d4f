//! Snapshots and clones: what is asked for, and what is told of them.

use serde::Serialize;
use serde_json::Value;
use stead_core::config::Bounded;
use stead_core::parse::{Fields, Place, Read};
use stead_core::{SnapshotId, Timestamp};
use stead_engine::ops::{Isolation, Operated};
use utoipa::ToSchema;

use crate::schema;

/// The files of a workspace at one moment.
#[derive(Serialize, ToSchema)]
pub(crate) struct Snapshot {
    #[schema(value_type = schema::SnapshotId)]
    id: SnapshotId,
    #[schema(required = true)]
    name: Option<String>,
    /// The event that made it.
    #[schema(minimum = 1)]
    seq: u64,
    #[schema(required = true)]
    tree_hash: Option<String>,
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
}

impl From<(SnapshotId, stead_core::session::Snapshot)> for Snapshot {
    fn from((id, kept): (SnapshotId, stead_core::session::Snapshot)) -> Self {
        let stead_core::session::Snapshot { name, seq, tree_hash, created_at } = kept;
        Self { id, name, seq, tree_hash, created_at }
    }
}

/// The files are again as they were kept.
#[derive(Serialize, ToSchema)]
pub(crate) struct Restored {
    #[schema(value_type = schema::SnapshotId)]
    id: SnapshotId,
    #[schema(minimum = 1)]
    seq: u64,
    #[schema(required = true)]
    tree_hash: Option<String>,
}

impl Restored {
    pub(crate) fn new(id: SnapshotId, operated: Operated) -> Self {
        Self { id, seq: operated.seq, tree_hash: operated.tree_hash }
    }
}

pub(crate) struct SnapshotRequest {
    pub(crate) name: Option<String>,
}

impl Read for SnapshotRequest {
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let name = fields.optional::<Bounded<1, 256>>("name").map(|text| text.0);
        fields.done();
        Some(Self { name })
    }
}

/// The most clones one request may ask for.
pub(crate) const MAX_CLONES: u64 = 64;

pub(crate) struct CloneRequest {
    pub(crate) isolation: Isolation,
    pub(crate) count: u32,
    pub(crate) at: Option<u64>,
}

impl Read for CloneRequest {
    fn read(value: Value, at: &mut Place<'_>) -> Option<Self> {
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
