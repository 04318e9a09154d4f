//! Schema of `stead_core::env`.

use serde_json::{Value, json};

use super::{free_text, named};

pub(super) fn env() -> Value {
    json!({
        "type": "object", "maxProperties": 128,
        "description": "Environment variables by name. A text is configuration: journals, exports and everyone who \
                        may read the session have it. Use `{\"secret\": \"NAME\"}` for a value that nobody may see.",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"},
        "additionalProperties": {"anyOf": [free_text(0, Some(8192)), named("SecretReference")]},
    })
}

pub(super) fn secret_reference() -> Value {
    json!({
        "type": "object", "required": ["secret"], "additionalProperties": false,
        "description": "A reference to a secret. The box gets a placeholder, which the server replaces by the value \
                        in requests to the hosts of the secret.",
        "properties": {"secret": {"$ref": "#/components/schemas/Name", "description": "Name of the secret."}},
    })
}
