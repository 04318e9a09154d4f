//! Schemas of `stead_core::content`: the request bodies for content, runs and steps.

use serde_json::{Value, json};
use stead_core::content::ContentPath;
use stead_core::content::binding::{Adapter, ContentOperation};
use stead_core::content::event::ApplyMode;
use stead_core::content::message::IMAGES;
use stead_core::content::options::ReasoningEffort;

use super::{BASE64, MAX_WHOLE, flag, free_text, list, named, object, or_null, whole, words};

pub(super) fn path() -> Value {
    let dots = json!({"pattern": r"(^|/)\.{1,2}(/|$)"});
    json!({"type": "string", "pattern": ContentPath::PATTERN, "not": dots, "minLength": 1, "maxLength": 1024})
}

pub(super) fn files() -> Value {
    let files = json!({"type": "object", "propertyNames": path(), "additionalProperties": {"type": "string"}});
    object(&["files"], json!({"files": files}))
}

fn sync_target() -> Value {
    let fields = |workspace: Value, root: Value| json!({"workspace": workspace, "version": or_null(whole(0, MAX_WHOLE)), "root_hash": root});
    let root = free_text(1, Some(128));
    json!({"anyOf": [
        object(&["workspace"], fields(named("Name"), or_null(root.clone()))),
        object(&["root_hash"], fields(or_null(named("Name")), root)),
    ]})
}

pub(super) fn event_request() -> Value {
    let name = || or_null(free_text(1, Some(128)));
    let sync = object(
        &["type", "workspace_binding"],
        json!({
            "type": {"const": "WorkspaceSyncRequested"}, "workspace_binding": sync_target(), "prompt_pack": name(),
            "tool_catalog": name(), "known_version": or_null(whole(0, MAX_WHOLE)),
        }),
    );
    let mode = words(ApplyMode::ALL.iter().map(|mode| mode.as_str()));
    let apply = object(&["type"], json!({"type": {"const": "WorkspaceApplyRequested"}, "mode": or_null(mode)}));
    json!({"oneOf": [sync, apply]})
}

fn part() -> Value {
    let kinds: Vec<&str> = IMAGES.iter().filter(|(ending, _)| *ending != "jpg").map(|(_, kind)| *kind).collect();
    let data = json!({"type": "string", "pattern": BASE64, "minLength": 4});
    let text = object(&["type", "text"], json!({"type": {"const": "text"}, "text": {"type": "string"}}));
    let image = object(
        &["type", "media_type", "data"],
        json!({"type": {"const": "image"}, "media_type": words(kinds), "data": data}),
    );
    json!({"oneOf": [text, image]})
}

pub(super) fn message() -> Value {
    let content =
        |least: u64| json!({"anyOf": [{"type": "string"}, {"type": "array", "items": part(), "minItems": least}]});
    let call = object(
        &["id", "name"],
        json!({
            "id": free_text(1, Some(256)), "name": free_text(1, Some(128)), "arguments": or_null(json!({"type": "object"})),
        }),
    );
    let none = || json!({"type": "null"});
    let plain = object(
        &["role", "content"],
        json!({
            "role": words(["system", "user"]), "content": content(1), "is_error": or_null(flag()), "tool_calls": none(),
            "tool_call_id": none(),
        }),
    );
    let assistant = object(
        &["role"],
        json!({
            "role": {"const": "assistant"}, "content": or_null(content(0)), "is_error": or_null(flag()),
            "tool_calls": or_null(list(call)), "tool_call_id": none(),
        }),
    );
    let tool = object(
        &["role", "tool_call_id"],
        json!({
            "role": {"const": "tool"}, "content": or_null(content(0)), "is_error": or_null(flag()), "tool_calls": none(),
            "tool_call_id": free_text(1, Some(256)),
        }),
    );
    json!({"oneOf": [plain, assistant, tool]})
}

/// Returns the fields of the model options, to be merged with other fields.
fn options() -> Value {
    let choice = json!({"anyOf": [words(["auto", "none", "required"]), object(&["name"], json!({"name": free_text(1, Some(128))}))]});
    let format = json!({"oneOf": [
        object(&["type"], json!({"type": words(["text", "json_object"])})),
        object(&["type", "name", "schema"], json!({
            "type": {"const": "json_schema"}, "name": free_text(1, Some(64)), "schema": {"type": "object"}})),
    ]});
    let stop = json!({"type": "array", "items": free_text(1, Some(256)), "maxItems": 4});
    json!({
        "max_tokens": or_null(whole(1, MAX_WHOLE)),
        "temperature": or_null(json!({"type": "number", "minimum": 0, "maximum": 2})),
        "top_p": or_null(json!({"type": "number", "minimum": 0, "maximum": 1})),
        "stop": or_null(stop),
        "reasoning_effort": or_null(words(ReasoningEffort::ALL.iter().map(|effort| effort.as_str()))),
        "tool_choice": or_null(choice),
        "response_format": or_null(format),
    })
}

fn with_options(fields: Value) -> Value {
    let mut all = options();
    if let (Value::Object(all), Value::Object(fields)) = (&mut all, fields) {
        all.extend(fields);
    }
    all
}

pub(super) fn run_request() -> Value {
    let input = json!({"anyOf": [{"type": "string"}, list(named("Message"))]});
    let name = || or_null(free_text(1, Some(128)));
    object(
        &[],
        with_options(json!({
            "provider": name(), "model": or_null(free_text(1, Some(256))), "input": or_null(input), "prompt_pack": name(),
            "tool_catalog": name(), "workspace_version": or_null(whole(1, MAX_WHOLE)),
        })),
    )
}

pub(super) fn step_request() -> Value {
    let name = || or_null(free_text(1, Some(128)));
    // A run fixes these fields, so a step accepts only `null`.
    let fixed = || json!({"type": "null"});
    object(
        &[],
        with_options(json!({
            "messages": or_null(list(named("Message"))), "prompt_pack": name(), "tool_catalog": name(), "provider": fixed(),
            "model": fixed(),
        })),
    )
}

pub(super) fn end_request() -> Value {
    let text = || or_null(free_text(0, Some(65_536)));
    let fields = |detail: Value, reason: Value| json!({"code": or_null(free_text(1, Some(128))), "detail": detail, "reason": reason});
    let none = || json!({"type": "null"});
    json!({"anyOf": [object(&[], fields(text(), none())), object(&[], fields(none(), text()))]})
}

pub(super) fn call_request() -> Value {
    object(
        &["name"],
        json!({
            "name": free_text(1, Some(128)), "arguments": or_null(json!({"type": "object"})),
            "call_id": or_null(free_text(1, Some(256))),
        }),
    )
}

pub(super) fn run_defaults() -> Value {
    let name = or_null(free_text(1, Some(128)));
    object(&[], with_options(json!({"provider": name, "model": or_null(free_text(1, Some(256)))})))
}

fn binding() -> Value {
    let adapter = or_null(words(Adapter::ALL.iter().map(|adapter| adapter.as_str())));
    let tool = object(&["tool"], json!({"tool": named("ToolName"), "adapter": adapter}));
    let content = object(&["content"], json!({"content": words(["list", "read"])}));
    let mcp = object(&["mcp", "tool"], json!({"mcp": named("Name"), "tool": free_text(1, Some(256))}));
    // The server also accepts the forms in which it returns bindings.
    let kind = |kind: &str| json!({"type": "string", "const": kind});
    let tool_kind = json!({"kind": kind("tool"), "tool": named("ToolName"), "adapter": adapter});
    let content_kind = json!({"kind": kind("content"), "operation": words(["list", "read"])});
    let mcp_kind = json!({"kind": kind("mcp"), "server": named("Name"), "tool": free_text(1, Some(256))});
    json!({"anyOf": [
        named("ToolName"), tool, content, mcp, {"type": "null"}, object(&["kind", "tool"], tool_kind),
        object(&["kind", "operation"], content_kind), object(&["kind", "server", "tool"], mcp_kind),
    ]})
}

fn mcp_server() -> Value {
    let texts = |least: u64| json!({"type": "array", "items": free_text(1, Some(4096)), "minItems": least});
    let header = json!({"type": "string", "pattern": "^[ -~]*$", "maxLength": 8192});
    let headers = json!({
        "type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9_-]+$"}, "additionalProperties": header,
    });
    let fields = |command: Value, url: Value| {
        json!({
            "command": command, "url": url, "env": or_null(named("Env")), "headers": or_null(headers.clone()),
            "tools": or_null(texts(0)), "timeout_seconds": or_null(whole(1, 600)),
        })
    };
    let url = json!({"type": "string", "pattern": "^https?://[^\\u0000]*$", "maxLength": 2048});
    let no_command = json!({"type": ["array", "null"], "maxItems": 0});
    json!({"anyOf": [
        object(&["command"], fields(texts(1), json!({"type": "null"}))),
        object(&["url"], fields(no_command, url)),
    ]})
}

pub(super) fn content_config() -> Value {
    let operations = words(ContentOperation::ALL.iter().map(|operation| operation.as_str()));
    let servers = json!({
        "type": "object", "propertyNames": {"pattern": stead_core::Name::PATTERN}, "additionalProperties": mcp_server(),
    });
    object(
        &[],
        json!({
            "workspace": or_null(named("Name")), "version": or_null(whole(0, MAX_WHOLE)),
            "prompt_pack": or_null(free_text(0, Some(256))), "tool_catalog": or_null(free_text(0, Some(256))),
            "run": or_null(named("RunDefaults")), "allowed": or_null(list(named("Name"))),
            "operations": or_null(list(operations)),
            "bindings": or_null(json!({"type": "object", "additionalProperties": binding()})),
            "mcp_servers": or_null(servers),
        }),
    )
}

pub(super) fn snapshot_ref() -> Value {
    json!({
        "type": "object", "required": ["workspace", "version", "root_hash"],
        "properties": {"workspace": named("Name"), "version": whole(1, MAX_WHOLE), "root_hash": named("Digest")},
    })
}

pub(super) fn sizes() -> Value {
    let count = || json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object", "description": "Size of the request. Tokens are an estimate: a quarter of the text's bytes.",
        "required": ["messages", "tools", "text_bytes", "image_bytes", "estimated_text_tokens"],
        "properties": {"messages": count(), "tools": count(), "text_bytes": count(), "image_bytes": count(),
            "estimated_text_tokens": count()},
    })
}
