//! Schemas of `stead_core::config` and `stead_core::quantity`.

use serde_json::{Value, json};
use stead_core::config::{LEAST_PIDS, MOST_PIDS, OnSetupFailure};
use stead_core::network::{NetworkMode, RuleProtocol};

use super::{MAX_WHOLE, flag, free_text, list, named, object, or_null, whole, words};

pub(super) const CPU: &str =
    r"^([1-9][0-9]{0,6}m|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$";
/// Sizes of at least 16M, see [`stead_core::config::LEAST_MEMORY_BYTES`].
pub(super) const MEMORY: &str = "^((1677721[6-9]|167772[2-9][0-9]|16777[3-9][0-9]{2}|1677[89][0-9]{3}|167[89][0-9]{4}|\
     16[89][0-9]{5}|1[7-9][0-9]{6}|[2-9][0-9]{7}|[1-9][0-9]{8,14})|\
     (1638[4-9]|1639[0-9]|16[4-9][0-9]{2}|1[7-9][0-9]{3}|[2-9][0-9]{4}|[1-9][0-9]{5})Ki?B?|\
     (1[6-9]|[2-9][0-9]|[1-9][0-9]{2,5})Mi?B?|[1-9][0-9]{0,5}[GT]i?B?)$";
/// Sizes of at least 1M, see [`stead_core::config::LEAST_DISK_BYTES`].
pub(super) const DISK: &str = "^((104857[6-9]|10485[89][0-9]|1048[6-9][0-9]{2}|1049[0-9]{3}|10[5-9][0-9]{4}|\
     1[1-9][0-9]{5}|[2-9][0-9]{6}|[1-9][0-9]{7,14})|\
     (102[4-9]|10[3-9][0-9]|1[1-9][0-9]{2}|[2-9][0-9]{3}|[1-9][0-9]{4,5})Ki?B?|[1-9][0-9]{0,5}[MGT]i?B?)$";

pub(super) fn resource_limits() -> Value {
    let cpu =
        json!({"type": "string", "pattern": CPU, "description": "Cores (\"2\", \"0.5\") or thousandths (\"500m\")."});
    let bytes = |pattern: &str, least: &str| {
        let description = format!("Bytes with an optional K, M, G or T; at least {least}.");
        or_null(json!({"type": "string", "pattern": pattern, "description": description}))
    };
    object(
        &[],
        json!({
            "cpu": or_null(cpu), "memory": bytes(MEMORY, "16M"), "disk": bytes(DISK, "1M"),
            "pids": or_null(whole(LEAST_PIDS, MOST_PIDS)),
        }),
    )
}

/// Each `type` allows its own combination of `url` and `branch`.
fn repo_source() -> Value {
    let variant = |kind: &str, required: &[&str], url: Value| {
        let kind = json!({"type": "string", "const": kind});
        object(required, json!({"type": kind, "url": url, "branch": or_null(named("GitRef"))}))
    };
    json!({"oneOf": [
        variant("task_context", &["type"], json!({"type": "null"})),
        variant("fixed", &["type", "url"], named("RepositoryUrl")),
        variant("none", &["type"], json!({"type": "null"})),
    ]})
}

fn mount() -> Value {
    object(
        &["host_path"],
        json!({
            "host_path": free_text(1, Some(4096)), "mount_path": or_null(free_text(1, Some(4096))),
            "include_glob": or_null(list(free_text(0, None))), "exclude_glob": or_null(list(free_text(0, None))),
            "max_bytes": or_null(whole(0, MAX_WHOLE)), "follow_symlinks": or_null(flag()),
        }),
    )
}

fn network_rule() -> Value {
    let protocols = words(RuleProtocol::ALL.iter().map(|protocol| protocol.as_str()));
    let detailed = object(
        &["host"],
        json!({
            "host": free_text(1, Some(253)), "ports": or_null(list(whole(1, 65_535))),
            "protocol": or_null(protocols), "methods": or_null(list(free_text(0, None))),
            "paths": or_null(list(free_text(0, None))), "secret": or_null(free_text(0, None)),
            "inspect": or_null(flag()), "private": or_null(flag()),
        }),
    );
    json!({"anyOf": [free_text(1, Some(253)), detailed]})
}

/// Each phase has either the old form (`mode`, `domains`) or the new one (`allow`, `presets`).
pub(super) fn network() -> Value {
    let modes = words(NetworkMode::ALL.iter().map(|mode| mode.as_str()));
    let absent = || json!({"type": "null"});
    let by_mode = object(
        &[],
        json!({"mode": or_null(modes), "domains": or_null(list(free_text(0, None))), "allow": absent(), "presets": absent()}),
    );
    let by_rules = object(
        &[],
        json!({
            "allow": or_null(list(network_rule())), "presets": or_null(list(free_text(1, Some(64)))),
            "mode": absent(), "domains": absent(),
        }),
    );
    let phase = json!({"anyOf": [by_mode, by_rules, absent()]});
    let any = || or_null(json!({"type": "object"}));
    let mut schema = object(
        &[],
        json!({
            "setup": phase.clone(), "agent": phase, "deny": or_null(list(network_rule())),
            "services": any(), "limits": any(),
        }),
    );
    schema["description"] = "No provider can give a box network access yet: a session for which any layer asks for \
        some is refused with 422 `network_not_available`."
        .into();
    schema
}

fn tool_limits() -> Value {
    object(
        &[],
        json!({
            "write_chars": or_null(whole(1, 16_777_216)), "path_depth": or_null(whole(1, 256)),
            "segment_chars": or_null(whole(1, 255)), "output_bytes": or_null(whole(1_024, 16_777_216)),
            "command_chars": or_null(whole(1, 1_048_576)),
        }),
    )
}

fn git_push() -> Value {
    let branches = list(free_text(1, Some(255)));
    object(
        &[],
        json!({
            "push_branches": or_null(branches), "allow_force_push": or_null(flag()),
            "submodules": or_null(flag()), "lfs": or_null(flag()),
        }),
    )
}

pub(super) fn rewind() -> Value {
    object(&[], json!({"points": or_null(named("Points")), "keep": or_null(whole(1, 1_000))}))
}

pub(super) fn workspace_config() -> Value {
    let mut tools = list(named("ToolName"));
    tools["uniqueItems"] = true.into();
    let mut commands = list(free_text(1, Some(4096)));
    commands["maxItems"] = 64.into();
    let mut mounts = list(mount());
    mounts["maxItems"] = 32.into();
    let on_failure = words(OnSetupFailure::ALL.iter().map(|word| word.as_str()));
    object(
        &[],
        json!({
            "enabled": or_null(flag()),
            "provider": or_null(named("ProviderName")), "fallback_provider": or_null(named("ProviderName")),
            "repo_source": or_null(repo_source()), "workspace_policy": or_null(named("WorkspacePolicy")),
            "tools": or_null(tools), "resource_limits": or_null(named("ResourceLimits")),
            "checkout_on_start": or_null(flag()), "git": or_null(git_push()), "base_image": or_null(free_text(1, Some(512))),
            "setup_commands": or_null(commands), "setup_timeout_seconds": or_null(whole(1, 86_400)),
            "on_setup_failure": or_null(on_failure), "require_workspace": or_null(flag()),
            "mounts": or_null(mounts), "network": or_null(named("Network")), "limits": or_null(tool_limits()),
            "rewind": or_null(rewind()),
            "ttl_seconds": or_null(whole(1, 31_536_000)), "idle_seconds": or_null(whole(1, 31_536_000)),
            "warm_pool": or_null(whole(0, 1_000)),
        }),
    )
}
