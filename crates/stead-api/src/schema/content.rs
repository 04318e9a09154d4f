//! Schemas of `stead_core::content`: the request bodies for content and its bindings.

use serde_json::{Value, json};
use stead_core::content::ContentPath;
use stead_core::content::binding::Adapter;

use super::{MAX_WHOLE, constant, described, free_text, named, object, or_null, properties, whole};

pub(super) fn path() -> Value {
    let dots = json!({"pattern": r"(^|/)\.{1,2}(/|$)"});
    json!({"type": "string", "pattern": ContentPath::PATTERN, "not": dots, "minLength": 1, "maxLength": 1024})
}

pub(super) fn files() -> Value {
    let files = json!({"type": "object", "propertyNames": path(), "additionalProperties": {"type": "string"}});
    object(&["files"], properties! { "files": "Text of each file by its path in the tree.", files; })
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
