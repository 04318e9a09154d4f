//! Schemas of values in `crate::exec` that no request type describes.

use serde_json::{Value, json};

use super::{named, words};
use crate::exec::SIGNALS;

pub(super) fn signal_name() -> Value {
    let names = SIGNALS.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("SIG{name}")]).collect::<Vec<_>>();
    json!({"type": "string", "enum": names})
}

/// Returns the schema of a command's output stream. Clients that know server-sent events get
/// events, others the text of the whole stream.
pub(super) fn output_stream() -> Value {
    json!({"anyOf": [named("StreamedOutput"), {"type": "string"}], "description": "One event, or all of them as text."})
}

/// Returns the schema of a server-sent event on a command's output stream.
pub(super) fn streamed_output() -> Value {
    let mut event = words(["output", "missed", "finished"]);
    event["description"] = "Kind of the event.".into();
    json!({
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]{1,16}$", "description": "The number of the chunk, from 1; only of `output`."},
            "event": event,
            "data": {
                "type": "string", "contentMediaType": "application/json",
                "description": "`output`: {seq, stream, encoding: utf8 or base64, data}. `missed`: {from, to}, chunks that are no longer kept. `finished`: the exec; the stream ends.",
            },
        },
    })
}
