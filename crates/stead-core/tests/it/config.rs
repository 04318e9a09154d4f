//! Workspace configs: accepted values, refused values and the error texts.

use serde_json::{Value, json};
use stead_core::config::WorkspaceConfig;
use stead_core::parse;
use stead_core::registry::{AgentTypeDeclaration, Platform};

fn errors<T: parse::Read>(body: Value) -> Vec<(String, String)> {
    match parse::read::<T>(body.clone()) {
        Ok(_) => panic!("{body} was accepted"),
        Err(invalid) => invalid.errors.into_iter().map(|error| (error.field, error.message)).collect(),
    }
}

fn refused(body: Value, field: &str, text: &str) {
    let found = errors::<WorkspaceConfig>(body.clone());
    let hit = found.iter().any(|(at, message)| at == field && message.contains(text));
    assert!(hit, "{body}: expected {field}: …{text}…, found {found:?}");
}

#[test]
fn absent_config_is_off() {
    let config = parse::read::<WorkspaceConfig>(json!({})).unwrap();
    assert_eq!(config, WorkspaceConfig::default());
    assert!(!config.enabled);
    assert_eq!(parse::read::<WorkspaceConfig>(json!({"tools": null, "base_image": null})).unwrap(), config);
}

#[test]
fn every_field_round_trips() {
    let full = json!({
        "enabled": true, "provider": "native", "fallback_provider": "podman",
        "repo_source": {"type": "fixed", "url": "https://git.example.org/a/b", "branch": "main"},
        "workspace_policy": {"type": "git", "url": "https://git.example.org/a/b", "ref": "v1", "depth": 1},
        "tools": ["bash", "read", "grep"],
        "resource_limits": {"cpu": "0.5", "memory": "512M", "disk": "10G", "pids": 64},
        "checkout_on_start": false, "git": {"push_branches": ["agent/*"], "allow_force_push": true, "submodules": false, "lfs": true}, "base_image": "debian",
        "setup_commands": ["true", "make"], "setup_timeout_seconds": 10, "on_setup_failure": "fail",
        "setup_cache": {"files": ["Cargo.lock"]}, "setup_user": "root", "require_workspace": true,
        "mounts": [{"host_path": "docs", "mount_path": "d", "include_glob": ["*.md"], "exclude_glob": [], "max_bytes": 0, "follow_symlinks": true}],
        "network": {"setup": {"mode": "allow", "domains": ["example.org"]}, "agent": {"mode": "none", "domains": []}},
        "limits": {"write_chars": 100, "path_depth": 4, "segment_chars": 10, "output_bytes": 2048, "command_chars": 64},
        "rewind": {"points": "layers", "keep": 3}, "ttl_seconds": 60, "idle_seconds": 30, "warm_pool": 2
    });
    let config = parse::read::<WorkspaceConfig>(full.clone()).unwrap();
    let stored = serde_json::to_value(&config).unwrap();
    assert_eq!(stored, full);
    assert_eq!(serde_json::from_value::<WorkspaceConfig>(stored).unwrap(), config);
}

#[test]
fn wrong_tools_are_named_beside_the_right_ones() {
    let message = &errors::<WorkspaceConfig>(json!({"tools": ["bash", "ssh", "scp"]}))[0].1;
    let expected = "invalid tool names: ssh, scp (valid: bash, read, write, edit, glob, grep, git, ls, rm, python, eval, move, copy, mkdir, stat, multi_edit, shell, bash_output, bash_kill)";
    assert_eq!(message, expected);
    refused(json!({"tools": ["bash", "bash"]}), "tools", "duplicate tool");
    assert!(parse::read::<WorkspaceConfig>(json!({"tools": []})).unwrap().tools.is_some());
}

#[test]
fn repo_source_is_judged_by_field() {
    refused(json!({"repo_source": {"type": "svn"}}), "repo_source.type", "valid: task_context, fixed, none");
    refused(json!({"repo_source": {"type": "fixed"}}), "repo_source.url", "required when type is 'fixed'");
    refused(json!({"repo_source": {"type": "none", "url": "https://a.example/b"}}), "repo_source.url", "'none'");
    refused(json!({"repo_source": {}}), "repo_source.type", "required");
    refused(json!({"repo_source": {"type": "none", "brnch": 1}}), "repo_source.brnch", "unknown field");
}

#[test]
fn amounts_are_read_or_refused() {
    for bad in ["banana", "0", "-1", "", "1.2345", "0.0", "2 ", "01", "m", "0m"] {
        refused(json!({"resource_limits": {"cpu": bad}}), "resource_limits.cpu", "cpu");
    }
    for bad in ["4X", "0", "0G", "-1G", "", "G", "1.5G", "4 G"] {
        refused(json!({"resource_limits": {"memory": bad}}), "resource_limits.memory", "bytes");
    }
    refused(json!({"resource_limits": {"cpu": 2}}), "resource_limits.cpu", "expected a string");
    refused(json!({"resource_limits": {"pids": 0}}), "resource_limits.pids", "between");
    let amount = |text: &str| text.parse::<stead_core::quantity::Cpu>().unwrap().millis();
    assert_eq!(["2", "0.5", "500m", "1.25", "0.001"].map(amount), [2000, 500, 500, 1250, 1]);
    let bytes = |text: &str| text.parse::<stead_core::quantity::ByteSize>().unwrap().bytes();
    assert_eq!(["1", "4G", "512Mi", "2KB"].map(bytes), [1, 4 << 30, 512 << 20, 2 << 10]);
}

#[test]
fn unknown_fields_are_refused_with_the_valid_ones() {
    refused(json!({"enabeld": true}), "enabeld", "valid: enabled, provider");
    refused(
        json!({"network": {"agent": {"domain": []}}}),
        "network.agent.domain",
        "valid: mode, domains, allow, presets",
    );
    refused(json!({"mounts": [{"host_path": "/a", "x": 1}]}), "mounts[0].x", "unknown field");
}

#[test]
fn all_problems_come_together() {
    let found = errors::<WorkspaceConfig>(json!({"enabled": 1, "tools": ["x"], "ttl_seconds": 0, "y": 1}));
    let fields: Vec<_> = found.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["enabled", "tools", "ttl_seconds", "y"]);
}

#[test]
fn names_and_variables_have_a_form() {
    for id in ["", "-a", ".a", "a b", "a/b", "ä", &"x".repeat(65)] {
        assert_eq!(errors::<AgentTypeDeclaration>(json!({"id": id}))[0].0, "id");
    }
    for name in ["", "1A", "A-B", "A=B"] {
        assert_eq!(errors::<AgentTypeDeclaration>(json!({"id": "a", "env": {name: "x"}}))[0].0, "env");
    }
    assert_eq!(errors::<Platform>(json!({"allowed_host_roots": ["relative"]}))[0].0, "allowed_host_roots");
}
