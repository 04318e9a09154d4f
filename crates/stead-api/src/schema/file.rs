//! Schema of `stead_fs::WorkspacePath`.

use serde_json::{Value, json};

/// Rejects NUL characters and the segments `.` and `..`.
const PATH: &str = r"^(?!([\s\S]*/)?\.{1,2}(/|$))[^\u0000]+$";

pub(super) fn path() -> Value {
    json!({
        "type": "string", "pattern": PATH, "minLength": 1,
        "description": "Path below the workspace's root. Slashes need no percent-encoding. The segments `.` and `..` and the character NUL are refused.",
    })
}
