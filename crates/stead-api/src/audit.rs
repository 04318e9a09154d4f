//! Records of the audit log.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::{SessionId, Timestamp, TokenId};
use utoipa::ToSchema;

use crate::schema;

/// One record of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Number of the record. Later records have larger numbers.
    pub id: i64,
    /// Time of the record.
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    /// Type of the record.
    #[serde(rename = "type")]
    pub kind: String,
    /// Caller whose request caused the record.
    pub actor: String,
    /// Token that the caller used. Absent for tokens without an id (those of the server's
    /// configuration and of sessions), for the server itself, and in records of versions that did
    /// not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TokenId>)]
    pub token: Option<TokenId>,
    /// Session that the record is about; `null` if it concerns no session.
    #[schema(value_type = Option<schema::SessionId>, required = true)]
    pub session: Option<SessionId>,
    /// Project that the record is about; `null` if it concerns no project.
    #[serde(default)]
    #[schema(required = true)]
    pub project: Option<String>,
    /// Further data. Its form depends on `type`.
    #[schema(value_type = schema::ToolResult)]
    pub detail: Value,
}
