//! Moments that can be gone back to, and who last wrote a file.

use serde::Serialize;
use serde_json::Value;
use stead_core::parse::{Fields, Place, Read};
use stead_core::rewind::{Point, Rewind};
use stead_core::{SessionId, SnapshotId, Timestamp};
use stead_engine::ops::{self, Deeds, MomentView, Operated};
use utoipa::ToSchema;

use crate::schema;

pub(crate) struct RewindRequest {
    pub(crate) to: u64,
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
#[derive(Serialize, ToSchema)]
pub(crate) struct Rewound {
    /// The event whose files they are.
    #[schema(minimum = 1)]
    to: u64,
    /// The event that tells of it.
    #[schema(minimum = 1)]
    seq: u64,
    /// Going back to this undoes it.
    #[schema(minimum = 1)]
    undo: u64,
    #[schema(required = true)]
    tree_hash: Option<String>,
}

impl Rewound {
    pub(crate) fn new(to: u64, operated: Operated) -> Self {
        Self { to, seq: operated.seq, undo: operated.seq - 1, tree_hash: operated.tree_hash }
    }
}

/// What a session keeps on its way, and what it can go back to.
#[derive(Serialize, ToSchema)]
pub(crate) struct Moments {
    #[schema(value_type = schema::Points)]
    points: &'static str,
    /// How many of the latest are kept.
    #[schema(minimum = 1)]
    keep: u64,
    /// Oldest first. From each event on, until the next, the files were like this.
    items: Vec<Moment>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Moment {
    #[schema(minimum = 1)]
    seq: u64,
    /// The snapshot that has the files; without one there is no going back here.
    #[schema(value_type = Option<schema::SnapshotId>, required = true)]
    snapshot: Option<SnapshotId>,
    /// Why there is none.
    #[schema(required = true)]
    reason: Option<&'static str>,
    #[schema(required = true)]
    by: Option<Deed>,
}

/// What changed files: a tool call, an exec, an operation on files, or the session's start.
#[derive(Serialize, ToSchema)]
pub(crate) struct Deed {
    #[schema(value_type = schema::DeedKind)]
    kind: &'static str,
    /// The tool, the operation, or the command.
    name: String,
    /// The call or the exec.
    #[schema(required = true)]
    id: Option<String>,
    actor: String,
}

impl From<stead_engine::Deed> for Deed {
    fn from(deed: stead_engine::Deed) -> Self {
        let stead_engine::Deed { kind, name, id, actor } = deed;
        Self { kind: kind.as_str(), name, id, actor: actor.to_string() }
    }
}

impl From<(Rewind, Vec<MomentView>)> for Moments {
    fn from((kept, moments): (Rewind, Vec<MomentView>)) -> Self {
        let moment = |MomentView { moment, deed }: MomentView| {
            let reason = match moment.point {
                Point::Kept(_) => None,
                Point::Unkept(reason) => Some(reason.as_str()),
            };
            Moment { seq: moment.seq, snapshot: moment.snapshot(), reason, by: deed.map(Deed::from) }
        };
        let items = moments.into_iter().map(moment).collect();
        Self { points: kept.points.as_str(), keep: kept.keep, items }
    }
}

/// The last that happened to a file.
#[derive(Serialize, ToSchema)]
pub(crate) struct Blame {
    path: String,
    /// Without one, nobody touched it since the session began.
    #[schema(required = true)]
    last: Option<Wrote>,
    /// Later events that touched more files than they name.
    uncertain: Vec<u64>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Wrote {
    /// Another one's for a clone, or for one of several in a workspace.
    #[schema(value_type = schema::SessionId)]
    session: SessionId,
    #[schema(minimum = 1)]
    seq: u64,
    #[schema(value_type = schema::Timestamp)]
    at: Timestamp,
    #[schema(value_type = schema::Wrote)]
    what: &'static str,
    by: Deed,
}

impl From<ops::Blame> for Blame {
    fn from(blame: ops::Blame) -> Self {
        let ops::Blame { path, last, uncertain } = blame;
        let wrote = |ops::Wrote { session, seq, at, deed, what }: ops::Wrote| {
            let what = match what {
                Deeds::Wrote => "wrote",
                Deeds::Removed => "removed",
            };
            Wrote { session, seq, at, what, by: deed.into() }
        };
        Self { path, last: last.map(wrote), uncertain }
    }
}
