//! An example of every JSON request body.

use serde_json::{Value, json};

/// Returns the example of a request by the name of its schema.
pub fn example(schema: &str) -> Option<Value> {
    Some(match schema {
        "AgentTypeDeclaration" => json!({
            "id": "coder", "name": "Coder", "workspace": workspace(), "env": {"CI": "true"},
        }),
        "WorkspaceConfig" => workspace(),
        "Project" => json!({
            "workspace_policy": "git", "repository_url": "https://github.com/example/app.git", "default_branch": "main",
        }),
        "Quotas" => json!({
            "sessions": 100, "boxes": 20, "cpu": "16", "memory": "64G", "disk": "500G", "creates_per_minute": 60,
            "per_user": {"sessions": 10}, "per_agent_type": {"coder": {"boxes": 10}},
        }),
        "Platform" => json!({
            "workspace_policy": "empty", "allowed_host_roots": ["/srv/projects"],
            "defaults": {"provider": "native", "resource_limits": {"memory": "4G"}},
        }),
        "TokenRequest" => json!({
            "name": "alice-laptop", "user": "alice", "project": "web", "role": "developer", "expires_in": 2_592_000,
        }),
        "SecretRequest" => json!({"hosts": ["api.example.com"], "agent_types": ["coder"], "value": "sk-example"}),
        "TokenRotation" => json!({"overlap_seconds": 3600}),
        "AccessQuestion" => json!({"permission": "sessions:create", "project": "web"}),
        "SessionTokenRequest" => json!({"expires_in": 3600}),
        "SessionRequest" => json!({
            "agent_type": "coder",
            "task": {"prompt": "Fix the failing test.", "workspace_policy": "empty"},
            "metadata": {"ticket": "APP-7"},
        }),
        "EventRequest" => json!({
            "type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "prompts", "version": 3},
        }),
        "ToolArguments" => json!({"path": "src/main.py", "content": "print('hello')\n"}),
        "RunRequest" => {
            json!({"provider": "anthropic", "model": "claude-sonnet-4-5", "input": "Fix the failing test."})
        }
        "StepRequest" => json!({
            "messages": [
                {"role": "assistant", "tool_calls": [{"id": "call_1", "name": "ls", "arguments": {"path": "/"}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "README.md"},
            ],
        }),
        "EndRequest" => json!({"code": "tests_pass", "detail": "All tests pass."}),
        "CallRequest" => json!({"name": "ls", "arguments": {"path": "/"}, "call_id": "call_1"}),
        "ContentFiles" => json!({"files": {"prompts/coder/system.md": "You are a careful programmer.\n"}}),
        "ExecRequest" => json!({"command": "python3 -m pytest", "timeout_seconds": 300}),
        "StdinRequest" => json!({"data": "yes\n", "close": true}),
        "SignalRequest" => json!({"signal": "INT"}),
        "ResizeRequest" => json!({"rows": 40, "columns": 120}),
        "SnapshotRequest" => json!({"name": "before the refactoring"}),
        "CloneRequest" => json!({"isolation": "full", "count": 2}),
        "SessionUpdateRequest" => json!({"ttl_seconds": 7200, "metadata": {"ticket": "OPS-1", "draft": null}}),
        "NetworkNarrowing" => json!({"deny": ["files.example"]}),
        "NetworkGrantRequest" => json!({"allow": ["api.example"], "ttl_seconds": 3600}),
        "PauseRequest" => json!({"mode": "stop"}),
        "OpenPortRequest" => json!({"path": "/"}),
        "RewindRequest" => json!({"to": 12}),
        "DigestRequest" => {
            json!({"summary": "A web service in Python.", "body": "# App\n\nStart with `src/main.py`.\n"})
        }
        "GenerateRequest" => json!({"scope": "session"}),
        _ => return None,
    })
}

fn workspace() -> Value {
    json!({
        "enabled": true, "provider": "native", "workspace_policy": "empty", "tools": ["bash", "read", "write", "edit"],
        "resource_limits": {"cpu": "2", "memory": "4G"},
    })
}
