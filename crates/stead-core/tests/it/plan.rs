//! The init plan: its actions, their order and their environment.

use proptest::prelude::*;
use serde_json::{Value, json};
use stead_core::policy::PolicyKind;

use crate::scenario::Scenario;

fn actions(scenario: &Scenario) -> Vec<&'static str> {
    let plan = scenario.specify().unwrap().workspace.unwrap().plan;
    plan.actions.iter().map(|action| action.name()).collect()
}

fn plan_json(scenario: &Scenario) -> Value {
    serde_json::to_value(scenario.specify().unwrap().workspace.unwrap().plan).unwrap()
}

const REPO: &str = "https://git.example.org/org/repo";

#[test]
fn empty_creates_and_clones_nothing() {
    let mut scenario = Scenario::new(json!({"enabled": true, "setup_commands": ["a", "b"]}));
    let context = json!({"repository_url": REPO, "pull_request_number": 42, "base_branch": "main"});
    scenario.task = json!({"workspace_policy": "empty", "context": context});
    assert_eq!(actions(&scenario), ["write_task_context", "run_setup_command", "run_setup_command"]);
    let plan = plan_json(&scenario).to_string();
    assert!(plan.contains("42") && !plan.contains(REPO), "{plan}");
}

#[test]
fn each_policy_has_its_actions() {
    let mut scenario = Scenario::new(json!({"enabled": true}));
    assert_eq!(actions(&scenario), Vec::<&str>::new());
    scenario.task = json!({"context": {"repository_url": REPO}});
    assert_eq!(actions(&scenario), ["create_workspace", "clone_repository", "write_task_context"]);
    scenario.task = json!({"workspace_policy": {"type": "mount", "host_path": "/srv/a"}});
    assert_eq!(actions(&scenario), ["create_workspace", "mount_directory"]);
    scenario.task = json!({"workspace_policy": {"type": "bundle", "source": {"path": "/srv/a.tar"}}});
    assert_eq!(actions(&scenario), ["create_workspace", "unpack_bundle"]);
    for word in ["mount", "bundle"] {
        scenario.task = json!({"workspace_policy": word});
        let refusal = scenario.specify().unwrap_err();
        assert_eq!(refusal.code(), "policy_incomplete");
        assert!(refusal.to_string().contains("task layer"), "{refusal}");
    }
}

#[test]
fn the_repository_comes_from_where_the_config_says() {
    for (source, task, clone) in [
        (json!({"type": "task_context"}), json!({"repository_url": REPO, "branch": "dev"}), Some((REPO, Some("dev")))),
        (
            json!({"type": "task_context", "branch": "main"}),
            json!({"repository_url": REPO, "branch": "dev"}),
            Some((REPO, Some("dev"))),
        ),
        (
            json!({"type": "task_context", "branch": "main"}),
            json!({"repository_url": REPO}),
            Some((REPO, Some("main"))),
        ),
        (json!({"type": "task_context"}), json!({"repository_url": REPO}), Some((REPO, None))),
        (json!({"type": "task_context", "branch": "main"}), json!({}), None),
        (
            json!({"type": "fixed", "url": "https://git.example.org/infra"}),
            json!({"repository_url": REPO}),
            Some(("https://git.example.org/infra", None)),
        ),
        (json!({"type": "none"}), json!({"repository_url": REPO}), None),
    ] {
        let mut scenario = Scenario::new(json!({"enabled": true, "repo_source": source}));
        scenario.task = json!({"context": task});
        let plan = plan_json(&scenario);
        let found = plan["actions"].as_array().unwrap().iter().find(|action| action["action"] == "clone_repository");
        let found = found.map(|action| (action["url"].as_str().unwrap(), action["reference"].as_str()));
        assert_eq!(found, clone, "{source} {task}");
        assert_eq!(plan["env"].get("STEAD_REPO_URL").and_then(Value::as_str), clone.map(|(url, _)| url));
    }
}

#[test]
fn what_comes_along_with_a_repository_is_in_the_plan() {
    for (git, expect) in [
        (json!({}), json!([null, null])),
        (json!({"submodules": true}), json!([true, null])),
        (json!({"lfs": true}), json!([null, true])),
    ] {
        let mut scenario = Scenario::new(json!({"enabled": true, "git": git}));
        scenario.task = json!({"context": {"repository_url": REPO}});
        let plan = plan_json(&scenario);
        let clone = plan["actions"].as_array().unwrap().iter().find(|action| action["action"] == "clone_repository");
        let clone = clone.unwrap();
        assert_eq!(json!([clone["submodules"], clone["lfs"]]), expect, "{plan}");
    }
}

#[test]
fn no_checkout_on_start_leaves_the_repository_to_the_agent() {
    let mut scenario = Scenario::new(json!({"enabled": true, "checkout_on_start": false}));
    scenario.task = json!({"context": {"repository_url": REPO}});
    assert_eq!(actions(&scenario), ["create_workspace", "write_task_context"]);
    assert_eq!(plan_json(&scenario)["env"]["STEAD_REPO_URL"], REPO);
}

#[test]
fn env_layers_in_order() {
    let mut scenario = Scenario::new(json!({"enabled": true}));
    scenario.platform = json!({"env": {"A": "platform", "B": "platform", "C": "platform", "D": "platform"}});
    scenario.project = Some(json!({"env": {"B": "project", "C": "project", "D": "project"}}));
    scenario.agent_type["env"] = json!({"C": "role", "D": "role", "STEAD_WORKSPACE": "/elsewhere"});
    scenario.task = json!({"env": {"D": "task"}});
    let request_has_project = scenario.specify().unwrap().workspace.unwrap().plan.env;
    let env = serde_json::to_value(request_has_project).unwrap();
    assert_eq!(
        env,
        json!({"A": "platform", "B": "project", "C": "role", "D": "task", "STEAD_WORKSPACE": "/workspace"})
    );
}

const REPOSITORY_VARIABLES: &[&str] = &[
    "STEAD_REPO_URL",
    "STEAD_GIT_REF",
    "STEAD_GIT_TOKEN",
    "TUIXIU_REPO_URL",
    "TUIXIU_GIT_AUTH_MODE",
    "TUIXIU_ANYTHING",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "GITLAB_ACCESS_TOKEN",
    "gh_token",
    "GIT_SSH_COMMAND",
    "SSH_AUTH_SOCK",
];

proptest! {
    #[test]
    fn an_empty_workspace_never_learns_of_a_repository(
        layers in prop::collection::vec(prop::sample::subsequence(REPOSITORY_VARIABLES.to_vec(), 0..=4), 4..=4),
    ) {
        let env = |names: &Vec<&str>| {
            let mut env = serde_json::Map::from_iter([("KEPT".to_owned(), json!("kept"))]);
            env.extend(names.iter().map(|name| ((*name).to_owned(), json!("canary"))));
            Value::Object(env)
        };
        let mut scenario = Scenario::new(json!({"enabled": true}));
        scenario.platform = json!({"env": env(&layers[0])});
        scenario.project = Some(json!({"env": env(&layers[1]), "repository_url": REPO}));
        scenario.agent_type["env"] = env(&layers[2]);
        let context = json!({"repository_url": REPO});
        scenario.task = json!({"workspace_policy": "empty", "env": env(&layers[3]), "context": context});
        let spec = scenario.specify().unwrap().workspace.unwrap();
        prop_assert_eq!(spec.policy.policy.kind(), PolicyKind::Empty);
        let plan = serde_json::to_string(&spec.plan).unwrap();
        prop_assert!(!plan.contains("canary") && !plan.contains(REPO), "{}", plan);
        prop_assert_eq!(spec.plan.env.get("KEPT"), Some("kept"));
    }
}

/// A kept result must not contain the task, so the context is written after the setup commands.
#[test]
fn a_cached_setup_comes_before_the_task() {
    let mut scenario = Scenario::new(json!({"enabled": true, "setup_commands": ["a"], "setup_cache": true}));
    scenario.task = json!({"context": {"repository_url": REPO}});
    let cached = ["restore_setup", "run_setup_command", "keep_setup", "write_task_context"];
    assert_eq!(actions(&scenario), [&["create_workspace", "clone_repository"], &cached[..]].concat());
    scenario.task = json!({"workspace_policy": {"type": "mount", "host_path": "/srv/a"}});
    assert_eq!(actions(&scenario), ["create_workspace", "mount_directory", "run_setup_command"]);
    let notices = scenario.specify().unwrap().workspace.unwrap().notices;
    assert!(notices.iter().any(|notice| notice.code == "setup_cache_unused"), "{notices:?}");
}

#[test]
fn the_shape_of_a_setup_result_has_what_it_depends_on_and_not_the_task() {
    let shape = |workspace: Value, project: Option<&str>, task: Value| {
        let mut scenario = Scenario::new(workspace);
        scenario.project = project.map(|_| json!({}));
        scenario.task = task;
        let mut spec = scenario.specify().unwrap();
        spec.project = project.map(|id| id.parse().unwrap());
        stead_core::setup_cache::shape(&spec, stead_core::config::ProviderName::Native)
    };
    let config = |more: Value| {
        let mut config = json!({"enabled": true, "setup_commands": ["a"], "setup_cache": true});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let task = |branch: &str| json!({"id": branch, "context": {"repository_url": REPO, "branch": branch}});
    let usual = shape(config(json!({})), None, task("x"));
    assert!(usual.is_some());
    assert_eq!(usual, shape(config(json!({})), None, task("y")), "the task does not matter");
    assert_eq!(None, shape(config(json!({"setup_cache": false})), None, task("x")));
    for other in [
        shape(config(json!({"setup_commands": ["b"]})), None, task("x")),
        shape(config(json!({"setup_cache": {"files": ["f"]}})), None, task("x")),
        shape(config(json!({"resource_limits": {"disk": "1G"}})), None, task("x")),
        shape(config(json!({"base_image": "debian"})), None, task("x")),
        shape(config(json!({})), Some("p"), task("x")),
        shape(config(json!({})), None, json!({"context": {"repository_url": format!("{REPO}2")}})),
        shape(config(json!({})), None, json!({"env": {"A": "1"}, "context": {"repository_url": REPO}})),
    ] {
        assert!(other.is_some() && other != usual, "{other:?}");
    }
}
