//! Reports of replaying a session's journal.

use serde::{Deserialize, Serialize};
use stead_core::SessionId;
use utoipa::ToSchema;

use crate::schema;

/// Result of folding a journal from its first event and comparing it with the live session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Replay {
    /// Replayed session.
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    /// Sequence number of the last replayed event.
    pub seq: u64,
    /// Hash of the replayed state. Empty if an event cannot be read.
    pub state_hash: String,
    /// True if the replayed state, the rebuilt files and the hash chain match the records.
    pub identical: bool,
    /// First difference; `null` if `identical` is true.
    #[schema(required = true)]
    pub difference: Option<FirstDifference>,
}

/// The first event at which a replay and the records differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FirstDifference {
    /// Sequence number of the event.
    pub seq: u64,
    /// Description of the difference.
    pub what: String,
}

/// Result of repeating a session's recorded decisions with other content or another agent type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayAgainst {
    /// Replayed session.
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    /// Sequence number of the last replayed event.
    pub seq: u64,
    /// Number of decisions that were repeated.
    pub compared: u64,
    /// True if every decision has the same result as before.
    pub identical: bool,
    /// Sequence number of the first decision that changes; `null` if none does.
    #[schema(required = true)]
    pub first_divergence: Option<u64>,
    /// Every decision that changes, in the order of the journal.
    pub changed: Vec<ChangedDecision>,
}

/// A decision that would have another result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangedDecision {
    /// Sequence number of the recorded decision.
    pub seq: u64,
    /// Kind of the decision: `step` or `tool_call`.
    pub what: String,
    /// Recorded result.
    pub recorded: String,
    /// Result with the other content or agent type.
    pub now: String,
}
