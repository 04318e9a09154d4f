//! Schemas of the requests in `crate::session::snapshot`, and of `stead_fs::WorkspacePath`.

use serde_json::{Value, json};

use super::{MAX_WHOLE, free_text, object, or_null, whole, words};
use crate::session::snapshot::MAX_CLONES;

/// Rejects NUL characters and the segments `.` and `..`.
const PATH: &str = r"^(?!([\s\S]*/)?\.{1,2}(/|$))[^\u0000]+$";

pub(super) fn path() -> Value {
    json!({
        "type": "string", "pattern": PATH, "minLength": 1,
        "description": "Below the workspace's root, slashes as they are. `.` and `..` are refused; so is NUL.",
    })
}

pub(super) fn snapshot_request() -> Value {
    object(&[], json!({"name": or_null(free_text(1, Some(256)))}))
}

pub(super) fn clone_request() -> Value {
    let isolation = words(["none", "full"]);
    let mut schema = object(
        &["isolation"],
        json!({"isolation": isolation, "count": or_null(whole(1, MAX_CLONES)), "at": or_null(whole(1, MAX_WHOLE))}),
    );
    // A clone that shares the workspace cannot start from an earlier event.
    let now = json!({"properties": {"at": {"type": "null"}}});
    schema["if"] = json!({"properties": {"isolation": {"const": "none"}}});
    schema["then"] = now;
    schema
}

pub(super) fn rewind_request() -> Value {
    object(&["to"], json!({"to": whole(1, MAX_WHOLE)}))
}
