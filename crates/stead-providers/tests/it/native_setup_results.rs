//! Kept setup results of native workspaces: used, shared, removed, and never half.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use stead_core::Timestamp;
use stead_core::setup_cache::SetupKey;
use stead_core::tool::ToolName;
use stead_providers::{DiskUsage as _, KeepSetupOrder, Provider as _, SetupAbout, SetupKept, SetupPosition, Workspace};

use crate::native::{as_root_and_as_ordinary_user, call, order, provider, run, setup};

fn key(name: &str) -> SetupKey {
    SetupKey { shape: name.to_owned(), base: "b".to_owned() }
}

fn keeping(entry: &str, name: &str) -> KeepSetupOrder {
    let (agent_type, created_at) = ("a".parse().unwrap(), Timestamp::from_millis(0));
    let about = SetupAbout { project: None, agent_type, commit: None, commands: Vec::new(), created_at };
    KeepSetupOrder { entry: format!("setup_{entry}"), key: key(name), place: SetupPosition::Above, about }
}

async fn sh(workspace: &Arc<dyn Workspace>, command: &str) -> String {
    let result = call(workspace, ToolName::Bash, json!({"command": command})).await;
    assert_eq!(result["exit_code"], 0, "{command}: {result}");
    result["stdout"].as_str().unwrap().to_owned()
}

const SETUP: &str = "echo made > made; mkdir -p ~/.cache dir; echo home > ~/.cache/h; echo d > dir/d; echo t > /tmp/t";

#[test]
fn a_result_is_kept_shared_and_removed() {
    as_root_and_as_ordinary_user("native_setup_results::a_result_is_kept_shared_and_removed", share);
}

fn share(home: &Path, init: PathBuf) {
    run(async {
        let provider = provider(home, init);
        let first = provider.create(&order(1)).await.unwrap();
        let results = first.setup_results().unwrap();
        assert_eq!(results.restore(key("k"), SetupPosition::Above).await.unwrap(), None);
        first.perform(setup(1, SETUP, 30)).await.unwrap();
        assert_eq!(results.keep(keeping("1", "k")).await.unwrap(), SetupKept::Kept);
        first.begin().await.unwrap();
        assert_eq!(sh(&first, "cat made dir/d ~/.cache/h; ls /tmp").await, "made\nd\nhome\n");
        sh(&first, "echo own > own; echo own > ~/own; echo changed > made; rm ~/.cache/h dir/d").await;

        let second = provider.create(&order(2)).await.unwrap();
        let entry = second.setup_results().unwrap().restore(key("k"), SetupPosition::Above).await.unwrap();
        assert_eq!(entry.as_deref(), Some("setup_1"));
        second.begin().await.unwrap();
        assert_eq!(sh(&second, "cat made dir/d ~/.cache/h; ls -A; ls ~").await, "made\nd\nhome\ndir\nmade\n");
        sh(&second, "rm -r dir ~/.cache; echo new > ~/new; echo more >> made; cat made").await;
        let listed = provider.setups().await.unwrap();
        assert_eq!((listed.len(), listed[0].users), (1, 2), "{listed:?}");
        assert!(listed[0].bytes > 0, "{listed:?}");

        // The workspaces that use it keep a removed result, and no new one gets it.
        assert!(provider.remove_setup("setup_1".to_owned()).await.unwrap());
        assert!(!provider.remove_setup("setup_1".to_owned()).await.unwrap());
        provider.remove(order(1).workspace).await.unwrap();
        assert_eq!(sh(&second, "cat made").await, "made\nmore\n");
        let third = provider.create(&order(3)).await.unwrap();
        assert_eq!(third.setup_results().unwrap().restore(key("k"), SetupPosition::Above).await.unwrap(), None);
        assert!(home.join("volumes/setup_1").exists());
        provider.remove(order(2).workspace).await.unwrap();
        assert!(!home.join("volumes/setup_1").exists(), "its last user is gone");
        provider.remove(order(3).workspace).await.unwrap();
    });
}

#[test]
fn a_result_survives_a_restart_and_an_incomplete_one_does_not() {
    as_root_and_as_ordinary_user(
        "native_setup_results::a_result_survives_a_restart_and_an_incomplete_one_does_not",
        restart,
    );
}

fn restart(home: &Path, init: PathBuf) {
    run(async {
        let before = provider(home, init.clone());
        let first = before.create(&order(1)).await.unwrap();
        first.perform(setup(1, SETUP, 30)).await.unwrap();
        assert_eq!(first.setup_results().unwrap().keep(keeping("1", "k")).await.unwrap(), SetupKept::Kept);
        before.remove(order(1).workspace).await.unwrap();
        drop((first, before));
        // As after a kill before the label was written.
        std::fs::create_dir_all(home.join("volumes/setup_2/volume/g0")).unwrap();
        std::fs::write(home.join("volumes/setup_2/setup.json.new"), "{").unwrap();
        let after = provider(home, init);
        assert!(!home.join("volumes/setup_2").exists(), "the incomplete one is gone");
        let second = after.create(&order(2)).await.unwrap();
        let entry = second.setup_results().unwrap().restore(key("k"), SetupPosition::Below).await.unwrap();
        assert_eq!(entry.as_deref(), Some("setup_1"));
        second.begin().await.unwrap();
        assert_eq!(sh(&second, "cat made ~/.cache/h").await, "made\nhome\n");
        // A setup that leaves processes running is not kept.
        let third = after.create(&order(3)).await.unwrap();
        third.perform(setup(1, "(setsid sleep 600 >/dev/null 2>&1 &)", 30)).await.unwrap();
        let kept = third.setup_results().unwrap().keep(keeping("3", "l")).await.unwrap();
        assert!(matches!(&kept, SetupKept::Refused { reason } if reason.contains("processes")), "{kept:?}");
        for number in [2, 3] {
            after.remove(order(number).workspace).await.unwrap();
        }
        assert!(after.remove_setup("setup_1".to_owned()).await.unwrap());
    });
}
