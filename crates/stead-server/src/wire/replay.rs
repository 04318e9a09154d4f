//! Whether a session's journal still folds to the state it is in.

use serde::Serialize;
use stead_core::SessionId;
use stead_engine::ops::{AgainstReport, Changed, Difference, ReplayReport};
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

/// What would have been decided otherwise.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayAgainst {
    #[schema(value_type = schema::SessionId)]
    session: SessionId,
    seq: u64,
    /// How many decisions were made again.
    compared: u64,
    /// None of them would be another.
    identical: bool,
    #[schema(required = true)]
    first_divergence: Option<u64>,
    /// Every decision that would be another, in the order of the journal.
    changed: Vec<ChangedDecision>,
}

#[derive(Serialize, ToSchema)]
struct ChangedDecision {
    seq: u64,
    /// `step` or `tool_call`.
    what: &'static str,
    recorded: String,
    now: String,
}

impl From<AgainstReport> for ReplayAgainst {
    fn from(report: AgainstReport) -> Self {
        let one = |Changed { seq, what, recorded, now }: Changed| ChangedDecision { seq, what, recorded, now };
        Self {
            session: report.session,
            seq: report.seq,
            compared: report.compared,
            identical: report.changed.is_empty(),
            first_divergence: report.changed.first().map(|changed| changed.seq),
            changed: report.changed.into_iter().map(one).collect(),
        }
    }
}
