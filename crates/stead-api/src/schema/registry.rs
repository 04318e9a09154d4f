//! Schemas of `stead_core::registry` and `stead_core::env`.

use serde_json::{Value, json};
use stead_core::registry::Side;

use super::{MAX_WHOLE, flag, free_text, list, named, object, or_null, text, whole, words};
use crate::schema::policy::HOST_PATH;

pub(super) fn env() -> Value {
    json!({
        "type": "object", "maxProperties": 128,
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]{0,127}$"},
        "additionalProperties": free_text(0, Some(8192)),
    })
}

pub(super) fn agent_capabilities() -> Value {
    let sides = words(Side::ALL.iter().map(|side| side.as_str()));
    let one_or_more = json!({"anyOf": [sides.clone(), list(sides), {"type": "null"}]});
    let sandbox = object(&[], json!({"workspace_provider": one_or_more}));
    object(&[], json!({"sandbox": or_null(sandbox)}))
}

pub(super) fn content_binding() -> Value {
    object(
        &["workspace"],
        json!({
            "workspace": named("Name"), "version": or_null(whole(0, MAX_WHOLE)),
            "prompt_pack": or_null(free_text(0, Some(256))), "tool_catalog": or_null(free_text(0, Some(256))),
            "run": or_null(named("RunDefaults")),
        }),
    )
}

pub(super) fn agent_type_declaration() -> Value {
    object(
        &["id"],
        json!({
            "id": named("Name"), "name": or_null(free_text(0, Some(256))),
            "description": or_null(free_text(0, Some(8192))), "workspace": or_null(named("WorkspaceConfig")),
            "capabilities": or_null(named("AgentCapabilities")), "content": or_null(named("ContentConfig")),
            "env": or_null(named("Env")),
        }),
    )
}

pub(super) fn project() -> Value {
    object(
        &[],
        json!({
            "workspace_policy": or_null(named("WorkspacePolicy")), "repository_url": or_null(named("RepositoryUrl")),
            "default_branch": or_null(named("GitRef")), "env": or_null(named("Env")),
            "network": or_null(named("Network")),
        }),
    )
}

pub(super) fn platform() -> Value {
    let defaults = object(
        &[],
        json!({
            "provider": or_null(named("ProviderName")), "fallback_provider": or_null(named("ProviderName")),
            "require_workspace": or_null(flag()), "resource_limits": or_null(named("ResourceLimits")),
            "rewind": or_null(super::config::rewind()),
        }),
    );
    let root = text("A directory on the host.", HOST_PATH, 4096);
    let root_owned = text("A directory on the host that may be mounted `rw` although root owns it.", HOST_PATH, 4096);
    object(
        &[],
        json!({
            "workspace_policy": or_null(named("WorkspacePolicy")), "allowed_host_roots": or_null(list(root)),
            "allowed_root_owned_mounts": or_null(list(root_owned)),
            "allowed_git_hosts": or_null(list(free_text(1, Some(255)))), "env": or_null(named("Env")),
            "network": or_null(named("Network")),
            "defaults": or_null(defaults),
        }),
    )
}
