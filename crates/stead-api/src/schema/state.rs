//! Values from the journal, which `docs/reference/journal.md` defines. The schemas only cover the
//! fields that all of them have.

use serde_json::{Value, json};

use super::{named, properties};

/// Returns the schema of a server-sent event. `data` is an `Event` as JSON text.
pub(super) fn streamed_event() -> Value {
    json!({
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]{1,16}$", "description": "The sequence number."},
            "event": {"type": "string", "description": "The type."},
            "data": {
                "type": "string", "contentMediaType": "application/json", "contentSchema": named("Event"),
                "description": "The event as JSON text.",
            },
        },
    })
}

pub(super) fn session_state() -> Value {
    json!({
        "type": "object",
        "description": "The state that the fold of the journal gives.",
        "required": ["id", "spec", "status"],
        "properties": properties! {
            "id": "Id of the session.", named("SessionId");
            "status": "Status of the session.", json!({"type": "string"});
            "spec": "Resolved configuration of the session.", json!({"type": "object"});
        },
    })
}
