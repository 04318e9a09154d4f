//! Whether a session's journal still folds to the state it is in.

use serde::{Deserialize, Serialize};
use stead_core::SessionId;
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Replay {
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    pub seq: u64,
    pub state_hash: String,
    /// The fold and the live state are byte for byte the same.
    pub identical: bool,
    #[schema(required = true)]
    pub difference: Option<FirstDifference>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FirstDifference {
    pub seq: u64,
    pub what: String,
}

/// What would have been decided otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReplayAgainst {
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    pub seq: u64,
    /// How many decisions were made again.
    pub compared: u64,
    /// None of them would be another.
    pub identical: bool,
    #[schema(required = true)]
    pub first_divergence: Option<u64>,
    /// Every decision that would be another, in the order of the journal.
    pub changed: Vec<ChangedDecision>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangedDecision {
    pub seq: u64,
    /// `step` or `tool_call`.
    pub what: String,
    pub recorded: String,
    pub now: String,
}
