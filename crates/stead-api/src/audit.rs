//! A row of the audit log.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::{SessionId, Timestamp};
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    pub id: i64,
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    #[serde(rename = "type")]
    pub kind: String,
    pub actor: String,
    #[schema(value_type = Option<schema::SessionId>, required = true)]
    pub session: Option<SessionId>,
    #[schema(value_type = schema::ToolResult)]
    pub detail: Value,
}
