//! A tool, and the answer of a tool call.

use serde::Serialize;
use serde_json::Value;
use stead_core::event::ToolFailure;
use stead_core::tool::ToolName;
use stead_engine::ops::ToolReply;
use utoipa::ToSchema;

use crate::schema;

#[derive(Serialize, ToSchema)]
pub(crate) struct Tool {
    #[schema(value_type = schema::ToolName)]
    pub(crate) name: ToolName,
    /// Other names it answers to.
    pub(crate) aliases: Vec<&'static str>,
    pub(crate) description: &'static str,
    /// A JSON Schema.
    #[schema(value_type = Object)]
    pub(crate) parameters: Value,
}

/// A tool that ran and failed is an answer like any other, with `ok: false`.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolAnswer {
    call_id: String,
    /// The number of the event that recorded the answer.
    #[schema(minimum = 1)]
    seq: u64,
    #[schema(value_type = schema::ToolName)]
    tool: ToolName,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ToolResult, required = false)]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<ToolError>,
    message: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ToolError {
    code: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hint: Option<String>,
}

impl From<ToolFailure> for ToolError {
    fn from(failure: ToolFailure) -> Self {
        Self { code: failure.code, message: failure.message, hint: failure.hint }
    }
}

impl From<ToolReply> for ToolAnswer {
    fn from(reply: ToolReply) -> Self {
        let ToolReply { call, seq, tool, answer } = reply;
        let ok = answer.error.is_none();
        Self {
            call_id: call.to_string(),
            seq,
            tool,
            ok,
            result: answer.result,
            error: answer.error.map(ToolError::from),
            message: answer.message,
        }
    }
}
