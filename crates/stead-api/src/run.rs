//! Runs, steps, and calls on a run's behalf.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::content::SnapshotRef;
use stead_core::content::materialize::Sizes;
use stead_core::content::run::RunStatus;
use stead_core::{RunId, Timestamp};
use utoipa::ToSchema;

use crate::schema;
use crate::tool::ToolError;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    #[schema(value_type = schema::RunId)]
    pub id: RunId,
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
    pub provider: String,
    pub model: String,
    /// How many were taken.
    pub steps: u64,
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    pub ended_at: Option<Timestamp>,
    #[schema(required = true)]
    pub code: Option<String>,
    #[schema(required = true)]
    pub detail: Option<String>,
    /// What an active run works with.
    #[schema(value_type = Option<schema::SnapshotRef>, required = true)]
    pub snapshot: Option<SnapshotRef>,
}

/// The shape of a model request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RequestFormat)]
pub enum Format {
    #[default]
    Neutral,
    Anthropic,
    Openai,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    #[schema(minimum = 1)]
    pub step: u64,
    /// What it was made from.
    #[schema(value_type = Option<schema::SnapshotRef>, required = true)]
    pub snapshot: Option<SnapshotRef>,
    /// Equal hashes, equal requests.
    pub inputs_hash: String,
    #[schema(value_type = schema::Sizes)]
    pub sizes: Sizes,
    pub format: Format,
    /// What to send to the model.
    #[schema(value_type = Object)]
    pub request: Value,
}

/// The answer of a call that was let through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoundAnswer {
    /// The model's own id of the call, or Stead's if it gave none.
    pub call_id: String,
    /// Stead's id of the call.
    pub call: String,
    /// The number of the event that recorded the answer.
    #[schema(minimum = 1)]
    pub seq: u64,
    pub tool: String,
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ToolResult, required = false)]
    pub result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<ToolError>,
    pub message: String,
}
