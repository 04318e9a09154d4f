//! Precedence of task, role, project and platform, for every combination of layers and policies.

use proptest::prelude::*;
use serde_json::json;
use stead_core::parse;
use stead_core::policy::{Layer, PolicyChain, PolicyKind, WorkspacePolicy};

fn word() -> impl Strategy<Value = Option<WorkspacePolicy>> {
    let kinds = prop::sample::select(PolicyKind::ALL.to_vec());
    prop::option::of(kinds.prop_map(WorkspacePolicy::Kind))
}

proptest! {
    #[test]
    fn the_strongest_layer_that_speaks_wins(task in word(), role in word(), project in word(), platform in word()) {
        let chain = PolicyChain { task: task.clone(), role: role.clone(), project: project.clone(), platform: platform.clone() };
        let resolved = chain.clone().resolve(PolicyKind::Empty);
        let (source, policy) = if let Some(policy) = task {
            (Layer::Task, policy)
        } else if let Some(policy) = role {
            (Layer::Role, policy)
        } else if let Some(policy) = project {
            (Layer::Project, policy)
        } else if let Some(policy) = platform {
            (Layer::Platform, policy)
        } else {
            (Layer::Default, WorkspacePolicy::Kind(PolicyKind::Empty))
        };
        prop_assert_eq!(resolved.source, source);
        prop_assert_eq!(resolved.policy, policy);
        prop_assert_eq!(resolved.chain, chain);
    }
}

/// Tests all 5^4 combinations.
#[test]
fn every_combination_of_layers() {
    let words: Vec<Option<WorkspacePolicy>> =
        std::iter::once(None).chain(PolicyKind::ALL.iter().map(|kind| Some(WorkspacePolicy::Kind(*kind)))).collect();
    for task in &words {
        for role in &words {
            for project in &words {
                for platform in &words {
                    let given = [task, role, project, platform];
                    let chain = PolicyChain {
                        task: task.clone(),
                        role: role.clone(),
                        project: project.clone(),
                        platform: platform.clone(),
                    };
                    let resolved = chain.resolve(PolicyKind::Git);
                    let first = given.iter().position(|layer| layer.is_some());
                    let source = first.map_or(Layer::Default, |index| Layer::ALL[index]);
                    let policy =
                        first.and_then(|index| given[index].clone()).unwrap_or(WorkspacePolicy::Kind(PolicyKind::Git));
                    assert_eq!((resolved.source, resolved.policy), (source, policy));
                }
            }
        }
    }
}

#[test]
fn a_word_or_an_object() {
    for good in [
        json!("git"),
        json!({"type": "git", "url": "https://git.example.org/a", "ref": "main", "depth": 1}),
        json!({"type": "mount", "host_path": "/srv/a", "mode": "ro"}),
        json!({"type": "bundle", "source": {"path": "/srv/a.tar"}, "digest": format!("sha256:{}", "a".repeat(64))}),
        json!({"type": "bundle", "source": {"content": "bot@7"}}),
    ] {
        let policy = parse::read::<WorkspacePolicy>(good.clone()).unwrap();
        assert_eq!(serde_json::to_value(&policy).unwrap(), good);
        assert_eq!(serde_json::from_value::<WorkspacePolicy>(good).unwrap(), policy);
    }
    for bad in [
        json!("gti"),
        json!(1),
        json!({}),
        json!({"type": "git"}),
        json!({"type": "git", "url": "ext::x"}),
        json!({"type": "mount", "host_path": "relative"}),
        json!({"type": "mount", "host_path": "/a", "mode": "rwx"}),
        json!({"type": "bundle"}),
        json!({"type": "bundle", "source": {}}),
        json!({"type": "bundle", "source": {"path": "/a", "content": "b"}}),
        json!({"type": "bundle", "source": {"blob": "sha256:xyz"}}),
        json!({"type": "empty", "url": "https://a.example/b"}),
    ] {
        assert!(parse::read::<WorkspacePolicy>(bad.clone()).is_err(), "{bad}");
    }
}
