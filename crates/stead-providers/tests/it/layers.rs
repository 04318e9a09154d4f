//! The layer store on a real disk: layers are complete, written once, shared and collected.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

use stead_core::event::Failure;
use stead_providers::{Layer, LayerDraft, LayerKey, LayerReport, LayerSlot, LayerStore, ProviderError, Retention};

fn key(name: &str) -> LayerKey {
    LayerKey::of("test", &[name.as_bytes()])
}

/// A report that can be recognised.
fn report(name: &str) -> LayerReport {
    LayerReport::checkout(vec![Failure::new("of", name)])
}

fn write(draft: LayerDraft, name: &str) -> Layer {
    fs::write(draft.tree().join("name"), name).unwrap();
    draft.complete(report(name)).unwrap()
}

fn make(store: &Arc<LayerStore>, name: &str, holder: &str) -> Layer {
    match store.prepare(key(name), holder).unwrap() {
        LayerSlot::Empty(draft) => write(draft, name),
        LayerSlot::Ready(layer) => panic!("{layer:?} is there already"),
    }
}

fn find(store: &Arc<LayerStore>, name: &str, holder: &str) -> (PathBuf, LayerReport) {
    match store.prepare(key(name), holder).unwrap() {
        LayerSlot::Ready(layer) => (layer.tree, layer.report),
        LayerSlot::Empty(draft) => panic!("{draft:?} is to be written"),
    }
}

fn open(home: &Path) -> Arc<LayerStore> {
    Arc::new(LayerStore::open(home).unwrap())
}

fn leftovers(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join(".making")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

#[test]
fn a_layer_is_made_once_and_found_by_a_new_server() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let made = make(&store, "a", "ws_1");
    assert_eq!((fs::read_to_string(made.tree.join("name")).unwrap(), &made.report), ("a".to_owned(), &report("a")));
    let made = (made.tree, made.report);
    assert_eq!(find(&store, "a", "ws_2"), made);
    drop(store);
    let store = open(home.path());
    assert_eq!(find(&store, "a", "ws_3"), made);
    assert_eq!(store.held_by("ws_1"), [key("a")]);
}

#[test]
fn callers_at_the_same_time_share_one_making_and_outlive_a_failed_one() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let (started, runs) = (Arc::new(Barrier::new(8)), Arc::new(AtomicU32::new(0)));
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (store, started, runs) = (store.clone(), started.clone(), runs.clone());
            std::thread::spawn(move || {
                started.wait();
                let draft = match store.prepare(key("shared"), &format!("ws_{number}")).unwrap() {
                    LayerSlot::Ready(_) => return true,
                    LayerSlot::Empty(draft) => draft,
                };
                fs::write(draft.tree().join("half"), "half").unwrap();
                // The first two give up and leave nothing behind.
                runs.fetch_add(1, Ordering::SeqCst) >= 2 && draft.complete(report("shared")).is_ok()
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
    // A directory with a layer's name but without its label is not a layer.
    fs::create_dir_all(home.path().join(key("a").as_str()).join("tree/old")).unwrap();
    let store = open(home.path());
    assert!(leftovers(home.path()).is_empty());
    let made = make(&store, "a", "ws_1");
    assert!(!made.tree.join("old").exists() && made.tree.join("name").exists());
}

#[test]
fn only_what_nobody_holds_is_collected() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    make(&store, "a", "ws_1");
    make(&store, "b", "ws_1");
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

#[test]
fn a_label_that_cannot_be_read_is_an_error_and_no_empty_report() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    make(&store, "a", "ws_1");
    let label = home.path().join(key("a").as_str()).join("layer.json");
    let good = fs::read(&label).unwrap();
    fs::write(&label, br#"{"bytes": 0, "entries": 1, "note": {"of": "a"}}"#).unwrap();
    assert!(matches!(store.prepare(key("a"), "ws_2"), Err(ProviderError::Box { .. })));
    fs::write(&label, good).unwrap();
    assert_eq!(find(&store, "a", "ws_2").1, report("a"));
}

/// Every provider puts a given tree at the root of the workspace.
#[tokio::test]
async fn a_memory_workspace_reads_the_tree_it_is_handed() {
    use stead_core::env::Env;
    use stead_core::plan::Action;
    use stead_providers::{ActionOrder, OutputSink, Provider};
    let provider = stead_providers::MemoryProvider::new();
    let workspace = provider.create(&crate::native::order(1)).await.unwrap();
    let LayerSlot::Empty(draft) = workspace.prepare_layer(key("a")).unwrap() else { panic!("it shares no layers") };
    let (written, now) = (draft.tree().to_owned(), stead_core::Timestamp::from_millis(0));
    let layer = Some(write(draft, "a"));
    let (env, output) = (Env::default(), OutputSink::default());
    let order = ActionOrder { action: Action::CreateWorkspace, env, bundle: None, layer, output, now };
    workspace.perform(order).await.unwrap().done.staged.publish();
    assert_eq!(workspace.list("").await.unwrap().entries[0].path.to_string(), "name");
    assert!(!written.exists(), "the directory goes with the layer");
}
