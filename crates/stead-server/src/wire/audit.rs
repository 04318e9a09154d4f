//! A row of the audit log.

use serde::Serialize;
use serde_json::Value;
use stead_core::{SessionId, Timestamp};
use stead_store::AuditRow;
use utoipa::ToSchema;

use crate::schema;

#[derive(Serialize, ToSchema)]
pub(crate) struct AuditRecord {
    id: i64,
    #[schema(value_type = schema::Timestamp)]
    at: Timestamp,
    #[serde(rename = "type")]
    kind: String,
    actor: String,
    #[schema(value_type = Option<schema::SessionId>, required = true)]
    session: Option<SessionId>,
    #[schema(value_type = schema::ToolResult)]
    detail: Value,
}

impl From<AuditRow> for AuditRecord {
    fn from(row: AuditRow) -> Self {
        let AuditRow { id, entry } = row;
        // Written as JSON by the engine; a row that is not is shown as the text it is.
        let detail = serde_json::from_str(&entry.body).unwrap_or(Value::String(entry.body));
        Self { id, at: entry.at, kind: entry.kind, actor: entry.actor, session: entry.session, detail }
    }
}
