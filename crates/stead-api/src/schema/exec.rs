//! Schemas of the requests in `crate::exec`.

use serde_json::{Value, json};

use super::{BASE64, flag, free_text, list, named, object, or_null, whole, words};
use crate::exec::{MOST_CELLS, MOST_SECONDS, MOST_STDIN, MOST_WORDS, SIGNALS};

pub(super) fn exec_request() -> Value {
    let pty = json!({"anyOf": [flag(), named("TerminalSize"), {"type": "null"}], "description": "A terminal; `true` has 24 rows and 80 columns."});
    let stdin = json!({
        "anyOf": [{"type": "string", "maxLength": MOST_STDIN}, flag(), {"type": "null"}],
        "description": "Standard input of the command; `true` keeps it open for `/stdin`.",
    });
    let mut argv = list(free_text(0, None));
    argv["minItems"] = 1.into();
    argv["maxItems"] = MOST_WORDS.into();
    argv["prefixItems"] = json!([free_text(1, None)]);
    argv["description"] = "A program and its arguments, without a shell.".into();
    let mut timeout = or_null(whole(1, MOST_SECONDS));
    timeout["description"] =
        "Then every process of the command is killed. 120 unless it runs in the background; there, none.".into();
    let unread = words(["drop", "wait"]);
    let mut schema = object(
        &[],
        json!({
            "command": or_null(free_text(1, None)), "argv": or_null(argv), "cwd": or_null(free_text(0, None)), "env": or_null(named("Env")),
            "stdin": stdin, "timeout_seconds": timeout, "background": or_null(flag()), "pty": pty, "unread": or_null(unread),
        }),
    );
    schema["properties"]["unread"]["description"] =
        "Policy for unread output: drop the oldest and report the gap, or block the command.".into();
    let one = |given: &str, kind: &str, other: &str| json!({"required": [given], "properties": {given: {"type": kind}, other: {"type": "null"}}});
    schema["oneOf"] = json!([one("command", "string", "argv"), one("argv", "array", "command")]);
    schema
}

pub(super) fn terminal_size() -> Value {
    object(&["rows", "columns"], json!({"rows": whole(1, MOST_CELLS), "columns": whole(1, MOST_CELLS)}))
}

pub(super) fn stdin_request() -> Value {
    let text =
        json!({"data": {"type": ["string", "null"]}, "encoding": or_null(words(["utf8"])), "close": or_null(flag())});
    let data = or_null(json!({"type": "string", "pattern": BASE64}));
    let bytes = json!({"data": data, "encoding": words(["base64"]), "close": or_null(flag())});
    json!({"anyOf": [object(&[], text), object(&["encoding"], bytes)]})
}

pub(super) fn signal_request() -> Value {
    let names = SIGNALS.iter().flat_map(|(name, _)| [(*name).to_owned(), format!("SIG{name}")]).collect::<Vec<_>>();
    let signal = json!({"anyOf": [{"type": "string", "enum": names}, whole(1, 31)]});
    object(&["signal"], json!({"signal": signal}))
}

/// Returns the schema of a server-sent event on a command's output stream.
pub(super) fn streamed_output() -> Value {
    json!({
        "type": "object",
        "required": ["event", "data"],
        "properties": {
            "id": {"type": "string", "pattern": "^[0-9]{1,16}$", "description": "The number of the chunk, from 1; only of `output`."},
            "event": words(["output", "missed", "finished"]),
            "data": {
                "type": "string", "contentMediaType": "application/json",
                "description": "`output`: {seq, stream, encoding: utf8 or base64, data}. `missed`: {from, to}, chunks that are no longer kept. `finished`: the exec; the stream ends.",
            },
        },
    })
}
