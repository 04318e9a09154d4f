//! Runs, steps, and calls on a run's behalf.

use serde::Serialize;
use serde_json::Value;
use stead_core::content::SnapshotRef;
use stead_core::content::materialize::{Sizes, neutral};
use stead_core::content::run::RunStatus;
use stead_core::content::{anthropic, openai};
use stead_core::{RunId, Timestamp};
use stead_engine::ops::{BoundReply, RunView, StepReply};
use utoipa::ToSchema;

use crate::schema;
use crate::wire::tool::ToolError;

#[derive(Serialize, ToSchema)]
pub(crate) struct Run {
    #[schema(value_type = schema::RunId)]
    pub(crate) id: RunId,
    #[schema(value_type = schema::RunStatus)]
    status: RunStatus,
    provider: String,
    model: String,
    /// How many were taken.
    steps: u64,
    #[schema(value_type = schema::Timestamp)]
    started_at: Timestamp,
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    ended_at: Option<Timestamp>,
    #[schema(required = true)]
    code: Option<String>,
    #[schema(required = true)]
    detail: Option<String>,
    /// What an active run works with.
    #[schema(value_type = Option<schema::SnapshotRef>, required = true)]
    snapshot: Option<SnapshotRef>,
}

impl From<RunView> for Run {
    fn from(view: RunView) -> Self {
        let RunView { id, summary, snapshot } = view;
        Self {
            id,
            status: summary.status,
            provider: summary.provider,
            model: summary.model,
            steps: summary.steps,
            started_at: summary.started_at,
            ended_at: summary.ended_at,
            code: summary.code,
            detail: summary.detail,
            snapshot,
        }
    }
}

/// The shape of a model request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Neutral,
    Anthropic,
    Openai,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Step {
    #[schema(value_type = schema::RunId)]
    run: RunId,
    #[schema(minimum = 1)]
    step: u64,
    /// What it was made from.
    #[schema(value_type = Option<schema::SnapshotRef>, required = true)]
    snapshot: Option<SnapshotRef>,
    /// Equal hashes, equal requests.
    inputs_hash: String,
    #[schema(value_type = schema::Sizes)]
    sizes: Sizes,
    format: &'static str,
    /// What to send to the model.
    #[schema(value_type = Object)]
    request: Value,
}

impl Step {
    pub(crate) fn of(reply: StepReply, format: Format) -> Self {
        let StepReply { run, step, snapshot, inputs_hash, sizes, materials } = reply;
        let (format, request) = match format {
            Format::Neutral => ("neutral", neutral(materials)),
            Format::Anthropic => ("anthropic", anthropic::request(materials)),
            Format::Openai => ("openai", openai::request(materials)),
        };
        Self { run, step, snapshot, inputs_hash, sizes, format, request }
    }
}

/// The answer of a call that was let through.
#[derive(Serialize, ToSchema)]
pub(crate) struct BoundAnswer {
    /// The model's own id of the call, or Stead's if it gave none.
    call_id: String,
    /// Stead's id of the call.
    call: String,
    /// The number of the event that recorded the answer.
    #[schema(minimum = 1)]
    seq: u64,
    tool: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ToolResult, required = false)]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<ToolError>,
    message: String,
}

impl BoundAnswer {
    pub(crate) fn of(reply: BoundReply, tool: String, call_id: Option<String>) -> Self {
        let BoundReply { call, seq, answer, .. } = reply;
        Self {
            call_id: call_id.unwrap_or_else(|| call.to_string()),
            call: call.to_string(),
            seq,
            tool,
            ok: answer.error.is_none(),
            result: answer.result,
            error: answer.error.map(ToolError::from),
            message: answer.message,
        }
    }
}

/// Where an event that was asked for stands.
#[derive(Serialize, ToSchema)]
pub(crate) struct Accepted {
    #[schema(minimum = 1)]
    pub(crate) seq: u64,
}
