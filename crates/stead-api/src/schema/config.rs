//! Schemas of `stead_core::config` and `stead_core::quantity`.

use serde_json::{Value, json};
use stead_core::config::{LEAST_PIDS, MOST_PIDS, RepoSourceType, ToolLimits, WorkspaceConfig};
use stead_core::rewind::Rewind;

use super::{
    MAX_WHOLE, absent, described, flag, free_text, list, named, object, or_null, properties, whole, with_defaults,
    words,
};

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
    let text = |pattern: &str| or_null(json!({"type": "string", "pattern": pattern}));
    let schema = object(
        &[],
        properties! {
            "cpu": "Cores (`2`, `0.5`) or thousandths (`500m`).", text(CPU);
            "memory": "Bytes with an optional K, M, G or T; at least 16M.", text(MEMORY);
            "disk": "Bytes with an optional K, M, G or T; at least 1M.", text(DISK);
            "pids": "Number of processes and threads.", or_null(whole(LEAST_PIDS, MOST_PIDS));
        },
    );
    described("Limits of a box. An absent one has the server's default.", schema)
}

pub(super) fn repo_source() -> Value {
    let kinds = words(RepoSourceType::ALL.iter().map(|kind| kind.as_str()));
    let mut schema = object(
        &["type"],
        properties! {
            "type": "`task_context` takes the task's repository, `fixed` the one in `url`, `none` no repository.", kinds;
            "url": "Repository of `fixed`. The other types have none.", or_null(named("RepositoryUrl"));
            "branch": "Branch, tag or commit to check out if the task names none.", or_null(named("GitRef"));
        },
    );
    schema["description"] = "Repository for the policy `git`.".into();
    schema["if"] = json!({"properties": {"type": {"const": "fixed"}}});
    schema["then"] = json!({"required": ["url"], "properties": {"url": {"type": "string"}}});
    schema["else"] = json!({"properties": {"url": absent()}});
    schema
}

pub(super) fn mount() -> Value {
    let path = || free_text(1, Some(4096));
    let globs = || or_null(list(free_text(0, None)));
    let schema = object(
        &["host_path"],
        properties! {
            "host_path": "Path on the host, inside `allowed_host_roots`.", path();
            "mount_path": "Path in the workspace. Absent for the name of `host_path`.", or_null(path());
            "include_glob": "Patterns of the files to copy. Empty for all.", globs() => json!([]);
            "exclude_glob": "Patterns of the files to leave out.", globs() => json!([]);
            "max_bytes": "Maximum total size. Absent for no limit.", or_null(whole(0, MAX_WHOLE));
            "follow_symlinks": "Copy the targets of symbolic links.", or_null(flag()) => false;
        },
    );
    described("A host directory or file that is copied into the workspace at the start.", schema)
}

pub(super) fn tool_limits() -> Value {
    let schema = object(
        &[],
        properties! {
            "write_chars": "Characters that one call may write.", or_null(whole(1, 16_777_216));
            "path_depth": "Segments of a path.", or_null(whole(1, 256));
            "segment_chars": "Characters of one segment of a path.", or_null(whole(1, 255));
            "output_bytes": "Bytes of one answer.", or_null(whole(1_024, 16_777_216));
            "command_chars": "Characters of a command.", or_null(whole(1, 1_048_576));
        },
    );
    described("Limits of the tools, independent of the box.", with_defaults(schema, &ToolLimits::default()))
}

pub(super) fn git_settings() -> Value {
    let schema = object(
        &[],
        properties! {
            "push_branches": "Branches that may be pushed, where `*` matches any characters. Absent for the branch that the session began on and for branches that it created.", or_null(list(free_text(1, Some(255))));
            "allow_force_push": "Allow pushes that discard commits.", or_null(flag()) => false;
            "submodules": "Check out submodules.", or_null(flag()) => false;
            "lfs": "Download Git LFS content on checkout and upload it on push.", or_null(flag()) => false;
        },
    );
    described("Pushes, submodules and Git LFS.", schema)
}

pub(super) fn rewind() -> Value {
    let schema = object(
        &[],
        properties! {
            "points": "Most expensive kind of checkpoint that may be taken after a call.", or_null(named("Points"));
            "keep": "Number of latest checkpoints to keep.", or_null(whole(1, 1_000));
        },
    );
    described("Checkpoint policy of a session.", with_defaults(schema, &Rewind::default()))
}

pub(super) fn workspace_config() -> Value {
    let mut tools = list(named("ToolName"));
    tools["uniqueItems"] = true.into();
    let mut commands = list(free_text(1, Some(4096)));
    commands["maxItems"] = 64.into();
    let mut mounts = list(named("HostMount"));
    mounts["maxItems"] = 32.into();
    let schema = object(
        &[],
        properties! {
            "enabled": "Give each session a workspace.", or_null(flag());
            "provider": "Provider of the workspace. Absent for the platform's.", or_null(named("ProviderName"));
            "fallback_provider": "Provider that is tried once if the first one fails. Absent for the platform's.", or_null(named("ProviderName"));
            "repo_source": "Repository for the policy `git`. Absent for the task's.", or_null(named("RepoSource"));
            "workspace_policy": "Source of the files for sessions whose task sets none.", or_null(named("WorkspacePolicy"));
            "tools": "Enabled tools. Absent for all; an empty list enables none.", or_null(tools);
            "resource_limits": "Limits of the box.", or_null(named("ResourceLimits"));
            "checkout_on_start": "Check the repository out before the session becomes active.", or_null(flag());
            "git": "Pushes, submodules and Git LFS.", or_null(named("GitSettings"));
            "base_image": "Image of the box. Absent for the provider's own.", or_null(free_text(1, Some(512)));
            "setup_commands": "Commands that run once, before the session becomes active.", or_null(commands);
            "setup_timeout_seconds": "Time limit of each setup command in seconds.", or_null(whole(1, 86_400));
            "on_setup_failure": "Effect of a failed setup command: a warning, or a failed session.", or_null(named("OnSetupFailure"));
            "require_workspace": "Fail a session whose workspace cannot be made, instead of starting it degraded.", or_null(flag());
            "mounts": "Host directories to copy into the workspace.", or_null(mounts);
            "network": "Network access of the agent type's sessions.", or_null(named("Network"));
            "limits": "Limits of the tools.", or_null(named("ToolLimits"));
            "rewind": "Checkpoint policy. Absent for the platform's.", or_null(named("Rewind"));
            "ttl_seconds": "Maximum age of a session in seconds. Older sessions are closed.", or_null(whole(1, 31_536_000));
            "idle_seconds": "Time in seconds without a request after which a session is closed.", or_null(whole(1, 31_536_000));
            "warm_pool": "Number of boxes to keep started for the next sessions.", or_null(whole(0, 1_000));
        },
    );
    described("Workspace of the sessions of an agent type.", with_defaults(schema, &WorkspaceConfig::default()))
}
