//! Schema of `stead_core::env`.

use serde_json::{Value, json};

use super::free_text;

pub(super) fn env() -> Value {
    json!({
        "type": "object", "maxProperties": 128, "description": "Values of environment variables by name.",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"},
        "additionalProperties": free_text(0, Some(8192)),
    })
}
