//! Schemas of `stead_core::content`: the request bodies for content and its bindings.

use serde_json::{Value, json};
use stead_core::content::ContentPath;
use stead_core::content::binding::Adapter;
use stead_core::content::event::ApplyMode;

use super::{
    MAX_WHOLE, absent, constant, described, free_text, list, named, object, or_null, properties, tagged, whole,
};

pub(super) fn path() -> Value {
    let dots = json!({"pattern": r"(^|/)\.{1,2}(/|$)"});
    json!({"type": "string", "pattern": ContentPath::PATTERN, "not": dots, "minLength": 1, "maxLength": 1024})
}

pub(super) fn files() -> Value {
    let files = json!({"type": "object", "propertyNames": path(), "additionalProperties": {"type": "string"}});
    object(&["files"], properties! { "files": "Text of each file by its path in the tree.", files; })
}

pub(super) fn sync_target() -> Value {
    let mut schema = object(
        &[],
        properties! {
            "workspace": "Name of the content.", or_null(named("Name"));
            "version": "Version of the content. Absent for the newest.", or_null(whole(0, MAX_WHOLE));
            "root_hash": "Hash of the content's tree, instead of a name.", or_null(free_text(1, Some(128)));
        },
    );
    schema["description"] = "Content to stage, by name or by root hash.".into();
    schema["if"] = json!({"properties": {"root_hash": absent()}});
    schema["then"] = json!({"required": ["workspace"], "properties": {"workspace": {"type": "string"}}});
    schema
}

pub(super) fn event_request() -> Value {
    let union = tagged(
        "type",
        &[("WorkspaceSyncRequested", "WorkspaceSyncRequest"), ("WorkspaceApplyRequested", "WorkspaceApplyRequest")],
    );
    described("An event that a client may add to the journal.", union)
}

pub(super) fn sync_request() -> Value {
    let name = || or_null(free_text(1, Some(128)));
    let schema = object(
        &["type", "workspace_binding"],
        properties! {
            "type": "Type of the event.", constant("WorkspaceSyncRequested");
            "workspace_binding": "Content to stage.", named("SyncTarget");
            "prompt_pack": "Prompt pack for runs that name none.", name();
            "tool_catalog": "Tool catalog for runs that name none.", name();
            "known_version": "Version that the client already has. Nothing is staged if it is the wanted one.", or_null(whole(0, MAX_WHOLE));
        },
    );
    described("Asks the session to read and stage a version of content.", schema)
}

pub(super) fn apply_request() -> Value {
    let schema = object(
        &["type"],
        properties! {
            "type": "Type of the event.", constant("WorkspaceApplyRequested");
            "mode": "Time at which the session adopts the staged content.", or_null(named("ApplyMode")) => ApplyMode::NextRun;
        },
    );
    described("Asks the session to adopt the staged content.", schema)
}

fn adapter() -> Value {
    or_null(named("Adapter"))
}

fn mcp_tool() -> Value {
    free_text(1, Some(256))
}

pub(super) fn tool_binding() -> Value {
    let schema = object(
        &["tool"],
        properties! {
            "tool": "Tool of the workspace.", named("ToolName");
            "adapter": "Conversion of a vendor's arguments.", adapter() => Adapter::Plain;
        },
    );
    described("Binds a name to a tool of the workspace.", schema)
}

pub(super) fn content_tool_binding() -> Value {
    let fields = properties! { "content": "Operation on the content.", named("BindableOperation"); };
    described("Binds a name to an operation on the content.", object(&["content"], fields))
}

pub(super) fn mcp_tool_binding() -> Value {
    let schema = object(
        &["mcp", "tool"],
        properties! {
            "mcp": "Name of a server in `mcp_servers`.", named("Name");
            "tool": "Name of the tool on that server.", mcp_tool();
        },
    );
    described("Binds a name to a tool of an MCP server.", schema)
}

pub(super) fn bound_tool() -> Value {
    let schema = object(
        &["kind", "tool"],
        properties! {
            "kind": "Kind of the binding.", constant("tool");
            "tool": "Tool of the workspace.", named("ToolName");
            "adapter": "Conversion of a vendor's arguments.", adapter() => Adapter::Plain;
        },
    );
    described("A binding to a tool, as the server returns it.", schema)
}

pub(super) fn bound_content() -> Value {
    let schema = object(
        &["kind", "operation"],
        properties! {
            "kind": "Kind of the binding.", constant("content");
            "operation": "Operation on the content.", named("BindableOperation");
        },
    );
    described("A binding to an operation on the content, as the server returns it.", schema)
}

pub(super) fn bound_mcp_tool() -> Value {
    let schema = object(
        &["kind", "server", "tool"],
        properties! {
            "kind": "Kind of the binding.", constant("mcp");
            "server": "Name of a server in `mcp_servers`.", named("Name");
            "tool": "Name of the tool on that server.", mcp_tool();
        },
    );
    described("A binding to a tool of an MCP server, as the server returns it.", schema)
}

/// The forms in which a client writes bindings, and those in which the server returns them.
fn binding() -> Value {
    let forms = [
        "ToolName",
        "ToolBinding",
        "ContentToolBinding",
        "McpToolBinding",
        "BoundTool",
        "BoundContent",
        "BoundMcpTool",
    ];
    or_null(json!({"anyOf": forms.map(named)}))
}

pub(super) fn mcp_server() -> Value {
    let texts = || json!({"type": "array", "items": free_text(1, Some(4096))});
    let header = json!({"type": "string", "pattern": "^[ -~]*$", "maxLength": 8192});
    let headers = json!({
        "type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9_-]+$"}, "additionalProperties": header,
    });
    let url = json!({"type": "string", "pattern": "^https?://[^\\u0000]*$", "maxLength": 2048});
    let mut schema = object(
        &[],
        properties! {
            "command": "Program on the server's machine and its arguments.", or_null(texts());
            "url": "HTTP endpoint, instead of `command`.", or_null(url);
            "env": "Environment variables for the program.", or_null(named("Env"));
            "headers": "HTTP headers for the endpoint.", or_null(headers);
            "tools": "Tools that may be bound. None if empty.", or_null(texts()) => json!([]);
            "timeout_seconds": "Time limit of a call in seconds.", or_null(whole(1, 600)) => 30;
        },
    );
    schema["description"] = "Connection to an MCP server: either `command` or `url`.".into();
    schema["if"] = json!({"properties": {"url": absent()}});
    schema["then"] = json!({"required": ["command"], "properties": {"command": {"type": "array", "minItems": 1}}});
    schema["else"] = json!({"properties": {"command": {"maxItems": 0}}});
    schema
}

pub(super) fn content_config() -> Value {
    let servers = json!({
        "type": "object", "propertyNames": {"pattern": stead_core::Name::PATTERN},
        "additionalProperties": named("McpServer"),
    });
    let schema = object(
        &[],
        properties! {
            "workspace": "Name of the content that sessions start with.", or_null(named("Name"));
            "version": "Version of the content. Absent for the newest.", or_null(whole(0, MAX_WHOLE));
            "prompt_pack": "Prompt pack for runs that name none.", or_null(free_text(0, Some(256)));
            "tool_catalog": "Tool catalog for runs that name none.", or_null(free_text(0, Some(256)));
            "run": "Defaults for options that a run does not set.", or_null(named("RunDefaults"));
            "allowed": "Other content that sessions may sync.", or_null(list(named("Name"))) => json!([]);
            "operations": "Operations on content that sessions may use. Absent for all; an empty list allows none.", or_null(list(named("ContentOperation")));
            "bindings": "Bindings by tool name, over the server's own. `null` removes a binding.", or_null(json!({"type": "object", "additionalProperties": binding()}));
            "mcp_servers": "MCP servers by name.", or_null(servers);
        },
    );
    described("Content of the sessions of an agent type.", schema)
}

pub(super) fn snapshot_ref() -> Value {
    json!({
        "type": "object", "description": "A version of content.", "required": ["workspace", "version", "root_hash"],
        "properties": properties! {
            "workspace": "Name of the content.", named("Name");
            "version": "Version of the content.", whole(1, MAX_WHOLE);
            "root_hash": "Hash of the content's tree.", named("Digest");
        },
    })
}
