//! A tool, and the answer of a tool call.

pub mod result;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::event::ToolFailure;
use stead_core::tool::ToolName;
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Tool {
    #[schema(value_type = schema::ToolName)]
    pub name: ToolName,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    pub description: String,
    /// A JSON Schema.
    #[schema(value_type = Object)]
    pub parameters: Value,
}

/// A tool that ran and failed is an answer like any other, with `ok: false`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolAnswer {
    pub call_id: String,
    /// The number of the event that recorded the answer.
    #[schema(minimum = 1)]
    pub seq: u64,
    #[schema(value_type = schema::ToolName)]
    pub tool: ToolName,
    pub ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ToolResult, required = false)]
    pub result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<ToolError>,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolError {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hint: Option<String>,
}

impl From<ToolFailure> for ToolError {
    fn from(failure: ToolFailure) -> Self {
        Self { code: failure.code, message: failure.message, hint: failure.hint }
    }
}
