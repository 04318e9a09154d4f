//! The layer store on a real disk: once, whole, shared, collected.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

use serde_json::json;
use stead_providers::{LayerKey, LayerStore, ProviderError, Retention, TreeSource};

fn key(name: &str) -> LayerKey {
    LayerKey::of("test", &[name.as_bytes()])
}

fn source(name: &'static str) -> TreeSource {
    TreeSource::new(key(name), move |tree| {
        fs::write(tree.join("name"), name).unwrap();
        Ok(json!({"of": name}))
    })
}

fn never(name: &str) -> TreeSource {
    TreeSource::new(key(name), |_| panic!("there is a layer already"))
}

fn leftovers(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join(".making")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn a_layer_is_made_once_and_found_by_a_new_server() {
    let home = tempfile::tempdir().unwrap();
    let store = LayerStore::open(home.path()).unwrap();
    let made = store.ensure(source("a"), "ws_1").unwrap();
    assert_eq!(
        (fs::read_to_string(made.tree.join("name")).unwrap(), &made.note),
        ("a".to_owned(), &json!({"of": "a"}))
    );
    assert_eq!(store.ensure(never("a"), "ws_2").unwrap(), made);
    drop(store);
    let store = LayerStore::open(home.path()).unwrap();
    assert_eq!(store.ensure(never("a"), "ws_3").unwrap(), made);
    assert_eq!(store.held_by("ws_1"), [key("a")]);
}

#[test]
fn callers_at_the_same_time_share_one_making_and_outlive_a_failed_one() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(LayerStore::open(home.path()).unwrap());
    let (started, runs) = (Arc::new(Barrier::new(8)), Arc::new(AtomicU32::new(0)));
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (store, started, runs) = (store.clone(), started.clone(), runs.clone());
            std::thread::spawn(move || {
                started.wait();
                let source = TreeSource::new(key("shared"), move |tree| {
                    fs::write(tree.join("half"), "half").unwrap();
                    // The first two fail, and leave nothing of theirs.
                    if runs.fetch_add(1, Ordering::SeqCst) < 2 { Err(ProviderError::Interrupted) } else { Ok(json!(1)) }
                });
                store.ensure(source, &format!("ws_{number}")).is_ok()
            })
        })
        .collect();
    let succeeded = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|ok| *ok).count();
    assert_eq!((succeeded, runs.load(Ordering::SeqCst)), (6, 3));
    assert!(leftovers(home.path()).is_empty());
}

#[test]
fn what_a_crash_left_is_removed_and_never_taken_for_a_layer() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".making/7/tree/deep")).unwrap();
    // A directory under a layer's name without its label: not a layer.
    fs::create_dir_all(home.path().join(key("a").as_str()).join("tree/old")).unwrap();
    let store = LayerStore::open(home.path()).unwrap();
    assert!(leftovers(home.path()).is_empty());
    let made = store.ensure(source("a"), "ws_1").unwrap();
    assert!(!made.tree.join("old").exists() && made.tree.join("name").exists());
}

#[test]
fn only_what_nobody_holds_is_collected() {
    let home = tempfile::tempdir().unwrap();
    let store = LayerStore::open(home.path()).unwrap();
    store.ensure(source("a"), "ws_1").unwrap();
    store.ensure(source("b"), "ws_1").unwrap();
    store.hold(&key("a"), "ws_2").unwrap();
    let usage = store.usage().unwrap();
    assert_eq!((usage.layers, usage.held_layers), (2, 2));
    assert!(usage.bytes > 0 && usage.bytes == usage.held_bytes);
    store.release("ws_1").unwrap();
    store.release("ws_1").unwrap();
    assert_eq!(store.collect(Retention::default()).unwrap(), 0, "b may be wanted again");
    assert_eq!(store.collect(Retention::NOTHING).unwrap(), 1);
    assert!(matches!(store.hold(&key("b"), "ws_3"), Err(ProviderError::NoLayer { .. })));
    assert!(store.hold(&key("a"), "ws_3").is_ok());
    store.release("ws_2").unwrap();
    store.release("ws_3").unwrap();
    assert_eq!(store.collect(Retention { bytes: 0, ..Retention::default() }).unwrap(), 1, "more than may be kept");
    assert_eq!(store.usage().unwrap().layers, 0);
    assert!(leftovers(home.path()).is_empty());
}

/// Whoever makes the workspace, a tree that is handed over is at its root.
#[tokio::test]
async fn a_memory_workspace_reads_the_tree_it_is_handed() {
    use stead_core::env::Env;
    use stead_core::plan::Action;
    use stead_providers::{ActionOrder, Provider};
    let provider = stead_providers::MemoryProvider::new();
    let workspace = provider.create(&crate::native::order(1)).await.unwrap();
    let now = stead_core::Timestamp::from_millis(0);
    let order = ActionOrder {
        action: Action::CreateWorkspace,
        env: Env::default(),
        bundle: None,
        tree: Some(source("a")),
        now,
    };
    workspace.perform(order).await.unwrap().done.staged.publish();
    assert_eq!(workspace.list("").await.unwrap().entries[0].path.to_string(), "name");
}
