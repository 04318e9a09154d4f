//! Request bodies for content, runs and steps.

use serde_json::{Value, json};
use stead_core::content::ContentConfig;
use stead_core::content::event::EventRequest;
use stead_core::content::run::{RunRequest, StepRequest};

use super::check;
use crate::run::{CallRequest, EndRequest};

#[test]
fn events() {
    let event = |value: Value, right| check::<EventRequest>("EventRequest", value, right);
    event(json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "a", "version": 1}}), true);
    event(
        json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"root_hash": "x"}, "prompt_pack": null}),
        true,
    );
    event(json!({"type": "WorkspaceApplyRequested"}), true);
    event(json!({"type": "WorkspaceApplyRequested", "mode": "next_step_boundary"}), true);
    event(json!({"type": "WorkspaceSyncRequested"}), false);
    event(json!({"type": "WorkspaceSyncRequested", "workspace_binding": {}}), false);
    event(json!({"type": "WorkspaceApplyRequested", "mode": "now"}), false);
    event(json!({"type": "SessionClosed"}), false);
    event(json!({}), false);
}

#[test]
fn runs_steps_and_calls() {
    let run = |value: Value, right| check::<RunRequest>("RunRequest", value, right);
    run(json!({}), true);
    run(json!({"provider": "p", "model": "m", "input": "x", "temperature": 0.5, "tool_choice": {"name": "a"}}), true);
    run(json!({"input": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}}), true);
    run(json!({"input": 1}), false);
    run(json!({"workspace_version": 0}), false);
    run(json!({"stop": ["a", "b", "c", "d", "e"]}), false);
    run(json!({"tool_choice": "always"}), false);
    let step = |message: Value, right| check::<StepRequest>("StepRequest", json!({"messages": [message]}), right);
    step(json!({"role": "assistant", "tool_calls": [{"id": "1", "name": "ls"}]}), true);
    step(json!({"role": "tool", "tool_call_id": "1", "content": "x", "is_error": true}), true);
    step(json!({"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": "aGk="}]}), true);
    step(json!({"role": "user", "content": []}), false);
    step(json!({"role": "tool", "content": "x"}), false);
    step(json!({"role": "user", "content": "x", "tool_calls": []}), false);
    step(json!({"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": "a"}]}), false);
    check::<StepRequest>("StepRequest", json!({"model": "m"}), false);
    check::<EndRequest>("EndRequest", json!({"code": "x", "detail": "y"}), true);
    check::<EndRequest>("EndRequest", json!({"detail": "x", "reason": "y"}), false);
    check::<CallRequest>("CallRequest", json!({"name": "a", "arguments": {}}), true);
    check::<CallRequest>("CallRequest", json!({"name": "a", "arguments": []}), false);
    check::<CallRequest>("CallRequest", json!({"arguments": {}}), false);
}

#[test]
fn the_content_part_of_an_agent_type() {
    let config = |value: Value, right| check::<ContentConfig>("ContentConfig", value, right);
    config(json!({}), true);
    config(
        json!({"workspace": "a", "run": {"provider": "p", "max_tokens": 1}, "allowed": ["b"], "operations": []}),
        true,
    );
    config(
        json!({"bindings": {"a": "bash", "b": null, "c": {"content": "read"}, "d": {"mcp": "m", "tool": "t"}, "e": {"tool": "edit", "adapter": "mcp_edit"}}}),
        true,
    );
    config(
        json!({"mcp_servers": {"m": {"command": ["x"], "tools": ["t"]}, "n": {"url": "http://a/b", "headers": {"A": "b"}}}}),
        true,
    );
    config(json!({"operations": ["write"]}), false);
    config(json!({"bindings": {"a": "ssh"}}), false);
    config(json!({"bindings": {"a": {"content": "sync"}}}), false);
    config(json!({"mcp_servers": {"m": {}}}), false);
    config(json!({"mcp_servers": {"m": {"command": ["x"], "url": "http://a"}}}), false);
    config(json!({"mcp_servers": {"m": {"url": "ftp://a"}}}), false);
    config(json!({"mcp_servers": {"m": {"url": "http://a", "headers": {"A B": "x"}}}}), false);
    config(json!({"mcp_servers": {"a b": {"command": ["x"]}}}), false);
}
