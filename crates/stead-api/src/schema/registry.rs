//! Schemas of `stead_core::registry` and `stead_core::env`.

use serde_json::{Value, json};
use stead_core::registry::{Platform, PlatformDefaults};

use super::{MAX_WHOLE, flag, free_text, list, named, object, or_null, properties, text, whole, with_defaults};
use crate::schema::policy::HOST_PATH;

pub(super) fn env() -> Value {
    json!({
        "type": "object", "maxProperties": 128, "description": "Values of environment variables by name.",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"},
        "additionalProperties": free_text(0, Some(8192)),
    })
}

pub(super) fn agent_capabilities() -> Value {
    object(&[], properties! { "sandbox": "Requirements on the sandbox.", or_null(named("SandboxCapabilities")); })
}

pub(super) fn sandbox_capabilities() -> Value {
    let one_or_more = json!({"anyOf": [named("Side"), list(named("Side"))]});
    object(
        &[],
        properties! {
            "workspace_provider": "Sides that may provide the workspace's files. Absent for both; an empty list allows neither.", or_null(one_or_more);
        },
    )
}

pub(super) fn content_binding() -> Value {
    object(
        &["workspace"],
        properties! {
            "workspace": "Name of the content.", named("Name");
            "version": "Version of the content. Absent for the newest.", or_null(whole(0, MAX_WHOLE));
            "prompt_pack": "Prompt pack for runs that name none.", or_null(free_text(0, Some(256)));
            "tool_catalog": "Tool catalog for runs that name none.", or_null(free_text(0, Some(256)));
            "run": "Defaults for options that a run does not set.", or_null(named("RunDefaults"));
        },
    )
}

pub(super) fn agent_type_declaration() -> Value {
    object(
        &["id"],
        properties! {
            "id": "Unique id of the agent type.", named("Name");
            "name": "Display name.", or_null(free_text(0, Some(256)));
            "description": "Description for people.", or_null(free_text(0, Some(8192)));
            "workspace": "Workspace of each session. Absent for sessions without a workspace.", or_null(named("WorkspaceConfig"));
            "capabilities": "Kinds of workspace that the agent can work in.", or_null(named("AgentCapabilities"));
            "content": "Content that sessions load.", or_null(named("ContentConfig"));
            "env": "Environment variables for the box of each session.", or_null(named("Env"));
        },
    )
}

pub(super) fn project() -> Value {
    object(
        &[],
        properties! {
            "workspace_policy": "Source of the files for sessions whose task and agent type set none.", or_null(named("WorkspacePolicy"));
            "repository_url": "Repository for the policy `git` without a URL.", or_null(named("RepositoryUrl"));
            "default_branch": "Branch to check out if the task names none.", or_null(named("GitRef"));
            "env": "Environment variables for the box of each session.", or_null(named("Env"));
            "network": "Network access of the project's sessions.", or_null(named("Network"));
        },
    )
}

pub(super) fn platform() -> Value {
    let root = text("A directory on the host.", HOST_PATH, 4096);
    let schema = object(
        &[],
        properties! {
            "workspace_policy": "Source of the files for sessions for which no other layer sets one.", or_null(named("WorkspacePolicy"));
            "allowed_host_roots": "Directories of the host that mounts, bundles and local repositories may be in. None if empty.", or_null(list(root.clone()));
            "allowed_root_owned_mounts": "Directories that may be mounted `rw` although root owns them.", or_null(list(root));
            "allowed_git_hosts": "Hosts of repositories that may use http or have a loopback or private address, as `host` or `host:port`.", or_null(list(free_text(1, Some(255))));
            "env": "Environment variables for every box.", or_null(named("Env"));
            "network": "Upper bound of the network access of all sessions. Absent for none.", or_null(named("Network"));
            "defaults": "Settings for agent types that do not set them.", or_null(named("PlatformDefaults"));
        },
    );
    with_defaults(schema, &Platform::default())
}

pub(super) fn platform_defaults() -> Value {
    let schema = object(
        &[],
        properties! {
            "provider": "Provider of workspaces. Absent for the server's setting.", or_null(named("ProviderName"));
            "fallback_provider": "Provider that is tried once if the first one fails.", or_null(named("ProviderName"));
            "require_workspace": "Fail sessions whose workspace cannot be made, instead of starting them degraded.", or_null(flag());
            "resource_limits": "Limits of a box.", or_null(named("ResourceLimits"));
            "rewind": "Checkpoint policy.", or_null(named("Rewind"));
        },
    );
    with_defaults(schema, &PlatformDefaults::default())
}
