//! Whether a session's journal still folds to the state it is in.

use serde::Serialize;
use stead_core::SessionId;
use stead_engine::ops::{Difference, ReplayReport};
use utoipa::ToSchema;

use crate::schema;

#[derive(Serialize, ToSchema)]
pub(crate) struct Replay {
    #[schema(value_type = schema::SessionId)]
    session: SessionId,
    seq: u64,
    state_hash: String,
    /// The fold and the live state are byte for byte the same.
    identical: bool,
    #[schema(required = true)]
    difference: Option<FirstDifference>,
}

#[derive(Serialize, ToSchema)]
struct FirstDifference {
    seq: u64,
    what: String,
}

impl From<Difference> for FirstDifference {
    fn from(difference: Difference) -> Self {
        Self { seq: difference.seq, what: difference.what }
    }
}

impl From<ReplayReport> for Replay {
    fn from(report: ReplayReport) -> Self {
        Self {
            session: report.session,
            seq: report.seq,
            state_hash: report.state_hash,
            identical: report.difference.is_none(),
            difference: report.difference.map(FirstDifference::from),
        }
    }
}
