//! Schemas of `stead_core::request`.

use serde_json::{Value, json};

use super::{MAX_WHOLE, free_text, named, object, or_null, whole};

pub(super) fn task_context() -> Value {
    object(
        &[],
        json!({
            "repository_url": or_null(named("RepositoryUrl")), "branch": or_null(named("GitRef")),
            "pull_request_number": or_null(whole(1, MAX_WHOLE)), "base_branch": or_null(named("GitRef")),
        }),
    )
}

pub(super) fn task() -> Value {
    object(
        &[],
        json!({
            "id": or_null(free_text(1, Some(256))), "prompt": or_null(free_text(0, Some(1_048_576))),
            "context": or_null(named("TaskContext")), "workspace_policy": or_null(named("WorkspacePolicy")),
            "env": or_null(named("Env")), "network": or_null(named("Network")),
        }),
    )
}

pub(super) fn session_request() -> Value {
    let metadata = json!({"type": "object", "description": "Kept with the session; at most 16 KiB of JSON."});
    object(
        &["agent_type"],
        json!({
            "agent_type": named("Name"), "project": or_null(named("Name")), "task": or_null(named("Task")),
            "content": or_null(named("ContentBinding")), "metadata": or_null(metadata),
        }),
    )
}
