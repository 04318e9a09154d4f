//! Capabilities, providers and defaults, before anything happens.

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

    // One the server does not have is a failure to come, for the fallback and the degraded start.
    scenario.agent_type["workspace"]["provider"] = json!("podman");
    assert_eq!(scenario.specify().unwrap().workspace.unwrap().providers, [ProviderName::Podman]);
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
