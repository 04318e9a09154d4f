//! Values of the journal, which `docs/spec/journal.md` defines: here only what every one of them has.

use serde_json::{Value, json};

use super::named;

/// The fields of a server-sent event; `data` is an `Event` as JSON text.
pub(super) fn streamed_event() -> Value {
    json!({
        "type": "object",
        "required": ["id", "event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]{1,16}$", "description": "The sequence number."},
            "event": {"type": "string", "description": "The type."},
            "data": {
                "type": "string", "contentMediaType": "application/json", "contentSchema": named("Event"),
            },
        },
    })
}

pub(super) fn session_state() -> Value {
    json!({
        "type": "object",
        "description": "What the journal folds to.",
        "required": ["id", "spec", "status"],
        "properties": {"id": named("SessionId"), "status": {"type": "string"}, "spec": {"type": "object"}},
    })
}
