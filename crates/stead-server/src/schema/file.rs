//! What `crate::wire::snapshot` and `stead_fs::WorkspacePath` accept.

use serde_json::{Value, json};

use super::{free_text, object, or_null, whole, words};
use crate::wire::snapshot::MAX_CLONES;

/// No NUL, and no segment that is `.` or `..`.
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
    object(&["isolation"], json!({"isolation": isolation, "count": or_null(whole(1, MAX_CLONES))}))
}
