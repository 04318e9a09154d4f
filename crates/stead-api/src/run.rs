//! Runs of a session, their steps and their tool calls.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use stead_core::content::SnapshotRef;
use stead_core::content::materialize::Sizes;
use stead_core::content::run::{self, RunStatus};
use stead_core::parse::{FieldPath, Fields, Read};
use stead_core::{RunId, Timestamp};
use utoipa::ToSchema;

use crate::request::{Kind, Rules, Text, request};
use crate::schema;
use crate::tool::ToolError;

/// A run: one conversation with a model in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Id of the run.
    #[schema(value_type = schema::RunId)]
    pub id: RunId,
    /// `running`, `completed`, `failed` or `cancelled`.
    #[schema(value_type = schema::RunStatus)]
    pub status: RunStatus,
    /// Model provider of the run.
    pub provider: String,
    /// Model of the run.
    pub model: String,
    /// Number of steps so far.
    pub steps: u64,
    /// Time of the start.
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    /// Time of the end; `null` while the run is active.
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    pub ended_at: Option<Timestamp>,
    /// Code that the client gave when it ended the run; `null` if it gave none.
    #[schema(required = true)]
    pub code: Option<String>,
    /// Explanation that the client gave when it ended the run; `null` if it gave none.
    #[schema(required = true)]
    pub detail: Option<String>,
    /// Content version that an active run uses; `null` without content or after the end.
    #[schema(value_type = Option<schema::SnapshotRef>, required = true)]
    pub snapshot: Option<SnapshotRef>,
}

request! {
    /// Body of `POST /sessions/{id}/runs/{run}/complete`, `/fail` and `/cancel`.
    EndRequest {
        /// Code for programs.
        optional code: Text<1, 128>,
        /// Explanation for people.
        optional detail: Text<0, 65_536>,
        /// Other name of `detail`. Give one of them.
        optional reason: Text<0, 65_536>,
    }
}

impl Rules for EndRequest {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.detail.is_some() && self.reason.is_some() {
            fields.fail("reason", "is another name of detail; give only one of them");
        }
    }

    fn restrict(schema: &mut Value) {
        schema["if"] = json!({"properties": {"detail": {"type": "null"}}});
        schema["else"] = json!({"properties": {"reason": {"type": "null"}}});
    }
}

request! {
    /// Body of `POST /sessions/{id}/runs/{run}/tool-calls`: a tool call of the model.
    CallRequest {
        /// Name of the tool as the model called it.
        required name: Text<1, 128>,
        /// Arguments of the call. Absent for none.
        optional arguments: Arguments,
        /// The model's id of the call.
        optional call_id: Text<1, 256>,
    }
}

impl Rules for CallRequest {}

impl From<CallRequest> for run::CallRequest {
    fn from(request: CallRequest) -> Self {
        let arguments = Value::Object(request.arguments.unwrap_or_default().0);
        Self { name: request.name.0, arguments, call_id: request.call_id.map(|id| id.0) }
    }
}

/// Arguments of a tool call. The tool validates them.
#[derive(Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Arguments(pub Map<String, Value>);

impl Read for Arguments {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::Object(fields) => Some(Self(fields)),
            _ => at.fail("expected an object"),
        }
    }
}

impl Kind for Arguments {
    fn schema() -> Value {
        json!({"type": "object"})
    }
}

/// Format of a model request: Stead's own (`neutral`, the default), Anthropic Messages
/// (`anthropic`) or OpenAI Chat Completions (`openai`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RequestFormat)]
pub enum Format {
    #[default]
    Neutral,
    Anthropic,
    Openai,
}

/// One step of a run: a request to send to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Run that the step belongs to.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Number of the step, counted from 1 for each run.
    #[schema(minimum = 1)]
    pub step: u64,
    /// Content version that the request was built from; `null` without content.
    #[schema(value_type = Option<schema::SnapshotRef>, required = true)]
    pub snapshot: Option<SnapshotRef>,
    /// Hash of the request's inputs. Equal hashes mean equal requests.
    pub inputs_hash: String,
    /// Size of the request.
    #[schema(value_type = schema::Sizes)]
    pub sizes: Sizes,
    /// Format of `request`.
    pub format: Format,
    /// Request body to send to the model.
    #[schema(value_type = schema::ModelRequest)]
    pub request: Value,
    /// Parameters and parts that the format cannot express. They are not in `request`.
    #[serde(default)]
    pub warnings: Vec<StepWarning>,
}

/// Something that a vendor's format cannot express.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepWarning {
    /// `parameter_dropped`, `part_dropped` or `system_sent_as_user`.
    pub code: String,
    /// Explanation for people.
    pub message: String,
}

/// Result of a tool call that was made for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BoundAnswer {
    /// The model's id of the call, or Stead's id if the request gave none.
    pub call_id: String,
    /// Stead's id of the call.
    pub call: String,
    /// Sequence number of the event that recorded the result.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Name of the tool as the model called it.
    pub tool: String,
    /// True if the tool succeeded.
    pub ok: bool,
    /// Result of the tool. Absent if it returned none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ToolResult, required = false)]
    pub result: Option<Value>,
    /// Reason of the failure. Absent if `ok` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<ToolError>,
    /// The result or the failure as text.
    pub message: String,
}
