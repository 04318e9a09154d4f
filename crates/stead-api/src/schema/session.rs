//! Schemas of `stead_core::request`.

use serde_json::Value;

use super::{MAX_WHOLE, free_text, named, object, or_null, properties, whole};

pub(super) fn task_context() -> Value {
    object(
        &[],
        properties! {
            "repository_url": "Repository of the task.", or_null(named("RepositoryUrl"));
            "branch": "Branch, tag or commit to check out. Absent for the project's default branch.", or_null(named("GitRef"));
            "pull_request_number": "Number of the pull request that the task is about.", or_null(whole(1, MAX_WHOLE));
            "base_branch": "Branch that the pull request merges into.", or_null(named("GitRef"));
        },
    )
}

pub(super) fn task() -> Value {
    object(
        &[],
        properties! {
            "id": "Id of the task in the caller's system.", or_null(free_text(1, Some(256)));
            "prompt": "The task in words, for the agent.", or_null(free_text(0, Some(1_048_576)));
            "context": "Repository and branch of the task.", or_null(named("TaskContext"));
            "workspace_policy": "Source of the workspace's files. It overrides the agent type, the project and the platform.", or_null(named("WorkspacePolicy"));
            "env": "Environment variables for the box. They override the agent type's.", or_null(named("Env"));
            "network": "Network access that the task asks for.", or_null(named("Network"));
        },
    )
}

pub(super) fn session_request() -> Value {
    object(
        &["agent_type"],
        properties! {
            "agent_type": "Agent type of the session.", named("Name");
            "project": "Project whose settings apply to the session.", or_null(named("Name"));
            "task": "The work of the session.", or_null(named("Task"));
            "content": "Content that the session starts with, instead of the agent type's.", or_null(named("ContentBinding"));
            "metadata": "Data of the caller, at most 16 KiB of JSON. The server stores it with the session.", or_null(named("Metadata"));
        },
    )
}
