//! What `crate::problem` answers.

use serde_json::{Value, json};

use super::{list, object, words};
use crate::problem::Code;

pub(super) fn problem() -> Value {
    let error = object(&["field", "message"], json!({"field": {"type": "string"}, "message": {"type": "string"}}));
    let mut problem = object(
        &["type", "title", "status", "detail", "code"],
        json!({
            "type": {"type": "string", "format": "uri"}, "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string", "description": "The sentence a person reads."},
            "code": words(Code::ALL.iter().map(|code| code.as_str())),
            "hint": {"type": "string", "description": "What to do about it."},
            "errors": list(error),
            "current": {"type": "string", "description": "The content hash of the file as it is."},
            "tool_result": {"type": "object", "description": "A refused call of a run, as a model is told of results."},
        }),
    );
    problem["description"] = "RFC 9457.".into();
    problem
}
