//! Resolution of capabilities, providers and defaults.

use serde_json::json;
use stead_core::config::ProviderName;
use stead_core::policy::PolicyKind;
use stead_core::registry::Side;

use crate::scenario::{Scenario, able};

#[test]
fn a_policy_needs_its_side_from_the_agent_type() {
    for (declared, policy, works) in [
        (json!(null), "git", true),
        (json!("guest"), "git", true),
        (json!("host"), "git", false),
        (json!("host"), "mount", true),
        (json!("guest"), "mount", false),
        (json!(["host", "guest"]), "mount", true),
        (json!("host"), "empty", true),
        (json!("guest"), "bundle", true),
        (json!([]), "empty", false),
    ] {
        let policy = match policy {
            "mount" => json!({"type": "mount", "host_path": "/srv/a"}),
            "bundle" => json!({"type": "bundle", "source": {"path": "/srv/a.tar"}}),
            word => json!(word),
        };
        let mut scenario = Scenario::new(json!({"enabled": true, "workspace_policy": policy}));
        scenario.agent_type["capabilities"] = json!({"sandbox": {"workspace_provider": declared}});
        let refusal = scenario.specify().err().map(|rejection| (rejection.code(), rejection.to_string()));
        assert_eq!(refusal.is_none(), works, "{declared} {policy}: {refusal:?}");
        if let Some((code, text)) = refusal {
            assert_eq!(code, "policy_incompatible");
            assert!(text.contains("capabilities.sandbox.workspace_provider"), "{text}");
        }
    }
}

#[test]
fn a_provider_that_cannot_is_passed_over_or_refused() {
    let mut scenario = Scenario::new(
        json!({"enabled": true, "workspace_policy": "empty", "provider": "memory", "fallback_provider": "native"}),
    );
    scenario.server.providers.insert(ProviderName::Memory, able(&[Side::Host], &[PolicyKind::Bundle]));
    let workspace = scenario.specify().unwrap().workspace.unwrap();
    assert_eq!(workspace.providers, [ProviderName::Native]);
    assert_eq!(
        workspace.passed_over[0].reason,
        "provider 'memory' cannot make a workspace with policy 'empty'; it can make: bundle"
    );

    scenario.agent_type["workspace"]["fallback_provider"] = json!(null);
    assert_eq!(scenario.specify().unwrap_err().code(), "policy_incompatible");
}

#[test]
fn a_provider_the_server_does_not_have_is_refused_by_name() {
    for (workspace, platform) in [
        (json!({"enabled": true, "provider": "kubernetes"}), json!({})),
        (json!({"enabled": true, "provider": "memory", "fallback_provider": "kubernetes"}), json!({})),
        (json!({"enabled": true}), json!({"defaults": {"provider": "kubernetes"}})),
        (json!({"enabled": true, "provider": "memory"}), json!({"defaults": {"fallback_provider": "kubernetes"}})),
    ] {
        let mut scenario = Scenario::new(workspace.clone());
        scenario.platform = platform;
        let refusal = scenario.specify().unwrap_err();
        assert_eq!(refusal.code(), "provider_not_configured", "{workspace}");
        assert!(refusal.to_string().contains("'kubernetes'") && refusal.to_string().contains("memory"), "{refusal}");
    }
}

#[test]
fn the_fallback_is_the_agent_types_else_the_platforms() {
    let providers = |workspace: serde_json::Value, platform: serde_json::Value| {
        let mut scenario = Scenario::new(workspace);
        scenario.platform = platform;
        scenario.specify().unwrap().workspace.unwrap().providers
    };
    let (memory, native) = (ProviderName::Memory, ProviderName::Native);
    let defaults = json!({"defaults": {"fallback_provider": "native"}});
    let plain = json!({"enabled": true, "provider": "memory"});
    assert_eq!(providers(plain.clone(), json!({})), [memory]);
    assert_eq!(providers(plain, defaults.clone()), [memory, native]);
    let own = json!({"enabled": true, "provider": "native", "fallback_provider": "memory"});
    assert_eq!(providers(own, defaults), [native, memory]);
}

#[test]
fn the_platform_can_require_a_workspace_of_every_session() {
    let mut scenario = Scenario::new(json!({"enabled": true}));
    assert!(!scenario.specify().unwrap().workspace.unwrap().require_workspace);
    scenario.platform = json!({"defaults": {"require_workspace": true}});
    assert!(scenario.specify().unwrap().workspace.unwrap().require_workspace);
}

/// Returns the policy, its layer, the cloned URL with its reference, and the warning codes.
fn resolved(scenario: &Scenario) -> (String, String, Option<String>, Vec<String>) {
    let workspace = scenario.specify().unwrap().workspace.unwrap();
    let repository = workspace.repository.map(|repository| {
        let reference = repository.reference.map(|name| format!(" {}", name.as_str())).unwrap_or_default();
        format!("{}{reference}", repository.url)
    });
    let codes = workspace.notices.into_iter().map(|notice| notice.code).collect();
    (workspace.policy.policy.kind().to_string(), workspace.policy.source.to_string(), repository, codes)
}

#[test]
fn a_layer_that_names_a_repository_speaks_git() {
    const TASK: &str = "https://git.example.org/task";
    const FIXED: &str = "https://git.example.org/fixed";
    const PROJECT: &str = "https://git.example.org/project";
    let fixed = || json!({"type": "fixed", "url": FIXED});
    let project = || json!({"repository_url": PROJECT, "default_branch": "trunk"});
    let empty = || json!({"workspace_policy": "empty"});
    let given = |url: &str| json!({"context": {"repository_url": url}});
    let not_used = || vec!["repository_not_used".to_owned()];
    for (role, task, project, platform, expect) in [
        // The platform's policy is the weakest.
        (
            json!({"repo_source": fixed()}),
            json!({}),
            json!({}),
            empty(),
            ("git", "role", Some(FIXED.to_owned()), vec![]),
        ),
        (json!({}), given(TASK), json!({}), empty(), ("git", "task", Some(TASK.to_owned()), vec![])),
        (json!({}), json!({}), project(), empty(), ("git", "project", Some(format!("{PROJECT} trunk")), vec![])),
        // The task's repository beats the agent type's policy, and its own policy beats that.
        (empty(), given(TASK), json!({}), json!({}), ("git", "task", Some(TASK.to_owned()), vec![])),
        (json!({}), given(TASK), project(), json!({}), ("git", "task", Some(TASK.to_owned()), vec![])),
        (json!({}), given(PROJECT), project(), json!({}), ("git", "task", Some(format!("{PROJECT} trunk")), vec![])),
        // A repository that is named but not used gives a warning.
        (
            json!({"repo_source": {"type": "none"}}),
            given(TASK),
            json!({}),
            json!({}),
            ("empty", "default", None, not_used()),
        ),
        (
            json!({"repo_source": fixed()}),
            given(TASK),
            json!({}),
            json!({}),
            ("git", "role", Some(FIXED.to_owned()), not_used()),
        ),
        (
            json!({"repo_source": fixed()}),
            given(FIXED),
            json!({}),
            json!({}),
            ("git", "role", Some(FIXED.to_owned()), vec![]),
        ),
        (empty(), json!({}), project(), json!({}), ("empty", "role", None, not_used())),
        (json!({"repo_source": fixed()}), empty(), json!({}), json!({}), ("empty", "task", None, not_used())),
        // A git policy without any repository gives an empty workspace.
        (
            json!({"workspace_policy": "git"}),
            json!({}),
            json!({}),
            json!({}),
            ("git", "role", None, vec!["no_repository".to_owned()]),
        ),
    ] {
        let mut workspace = role.clone();
        workspace["enabled"] = json!(true);
        let mut scenario = Scenario::new(workspace);
        (scenario.task, scenario.platform) = (task.clone(), platform.clone());
        scenario.project = Some(project.clone());
        let (policy, source, repository, codes) = resolved(&scenario);
        let found = (policy.as_str(), source.as_str(), repository, codes);
        assert_eq!(found, expect, "{role} {task} {project} {platform}");
    }
}

#[test]
fn a_warning_about_a_repository_does_not_name_it() {
    let mut scenario = Scenario::new(json!({"enabled": true}));
    let context = json!({"repository_url": "https://git.example.org/secret-name"});
    scenario.task = json!({"workspace_policy": "empty", "context": context});
    let notices = scenario.specify().unwrap().workspace.unwrap().notices;
    assert_eq!(notices.len(), 1);
    assert!(!notices[0].message.contains("secret-name"), "{notices:?}");
}

#[test]
fn limits_come_field_by_field() {
    let mut scenario = Scenario::new(json!({"enabled": true, "resource_limits": {"cpu": "1"}}));
    scenario.platform = json!({"defaults": {"resource_limits": {"memory": "1G"}}});
    let limits = scenario.specify().unwrap().workspace.unwrap().limits;
    assert_eq!(serde_json::to_value(limits).unwrap(), json!({"cpu": "1", "memory": "1G", "disk": "10G"}));
}

#[test]
fn the_fingerprint_tells_shapes_apart() {
    let print = |workspace| Scenario::new(workspace).specify().unwrap().workspace.unwrap().fingerprint;
    let base = print(json!({"enabled": true}));
    assert_eq!(base, print(json!({"enabled": true})));
    for other in [
        json!({"enabled": true, "base_image": "x"}),
        json!({"enabled": true, "tools": []}),
        json!({"enabled": true, "setup_commands": ["true"]}),
        json!({"enabled": true, "resource_limits": {"cpu": "1"}}),
    ] {
        assert_ne!(base, print(other.clone()), "{other}");
    }
}

#[test]
fn a_disabled_workspace_is_none_whatever_the_policy() {
    let mut scenario = Scenario::new(json!({"enabled": false, "workspace_policy": "git"}));
    scenario.agent_type["capabilities"] = json!({"sandbox": {"workspace_provider": []}});
    assert_eq!(scenario.specify().unwrap().workspace, None);
}
