//! F12: changes are data, and replaying them gives the same tree.

use serde_json::json;
use stead_fs::tools::FileTool::{Edit, Rm, Write};
use stead_fs::{Change, Filesystem, MemoryFs, Recursion, Snapshot, WriteMode};

use crate::harness::{NOW, call, path};

#[test]
fn replayed_changes_give_the_same_tree_versions_and_times() {
    let mut fs = MemoryFs::new();
    let calls = [
        (Write, json!({"path": "a/b.txt", "content": "one two two"})),
        (Edit, json!({"path": "a/b.txt", "old_string": "two", "new_string": "three", "replace_all": true})),
        (Write, json!({"path": "a/b.txt", "content": "!", "mode": "append"})),
        (Write, json!({"path": "c.txt", "content": "x"})),
        (Write, json!({"path": "c.txt", "content": "y", "mode": "overwrite"})),
        (Write, json!({"path": "gone/x", "content": "x"})),
        (Rm, json!({"path": "gone"})),
    ];
    let changes: Vec<Change> =
        calls.iter().flat_map(|(tool, arguments)| call(&mut fs, *tool, arguments).changes).collect();
    assert_eq!(changes.len(), calls.len());

    let stored = serde_json::to_string(&changes).unwrap();
    let mut replayed = MemoryFs::new();
    for change in serde_json::from_str::<Vec<Change>>(&stored).unwrap() {
        replayed.apply(&change, NOW).unwrap();
    }
    assert_eq!(replayed.tree_hash().unwrap(), fs.tree_hash().unwrap());
    for file in ["a/b.txt", "c.txt"] {
        assert_eq!(replayed.stat(&path(file)).unwrap(), fs.stat(&path(file)).unwrap());
    }
    assert_eq!(fs.stat(&path("a/b.txt")).unwrap().version, Some(3));
    assert_eq!(fs.read_bytes(&path("a/b.txt")).unwrap(), "one three three!".as_bytes());
}

#[test]
fn version_counts_changes_and_creation_is_kept() {
    let mut fs = MemoryFs::new();
    for at in 1..=5 {
        fs.write(&path("f"), &at.to_string(), WriteMode::Overwrite, at).unwrap();
    }
    let stat = fs.stat(&path("f")).unwrap();
    assert_eq!((stat.version, stat.created_at_millis, stat.updated_at_millis), (Some(5), Some(1), 5));
    fs.delete(&path("f"), Recursion::EmptyOnly).unwrap();
    fs.write(&path("f"), "", WriteMode::Create, 9).unwrap();
    assert_eq!(fs.stat(&path("f")).unwrap().version, Some(1));
}

#[test]
fn bytes_that_are_no_text_survive_the_journal() {
    let change = Change::Wrote { path: path("b"), content: vec![0, 159, 255].into() };
    let stored = serde_json::to_string(&change).unwrap();
    assert_eq!(stored, r#"{"type":"wrote","path":"b","content":{"hex":"009fff"}}"#);
    assert_eq!(serde_json::from_str::<Change>(&stored).unwrap(), change);
}

#[test]
fn a_clone_shares_and_a_change_does_not_leak() {
    let mut fs = MemoryFs::new();
    for number in 0..1_000 {
        fs.write(&path(&format!("d{}/f{number}", number % 10)), "x", WriteMode::Create, 0).unwrap();
    }
    let hash = fs.tree_hash().unwrap();
    let copy = fs.clone();
    fs.write(&path("d0/f0"), "changed", WriteMode::Overwrite, 1).unwrap();
    assert_ne!(fs.tree_hash().unwrap(), hash);
    assert_eq!(copy.tree_hash().unwrap(), hash);
    fs.restore(&Snapshot::Memory(copy)).unwrap();
    assert_eq!(fs.tree_hash().unwrap(), hash);
}

#[test]
fn a_change_that_cannot_be_made_changes_nothing() {
    let mut fs = MemoryFs::new();
    fs.write(&path("f"), "x", WriteMode::Create, 0).unwrap();
    let hash = fs.tree_hash().unwrap();
    let impossible = [
        Change::Wrote { path: path("f/g"), content: "x".into() },
        Change::MadeDirectory { path: path("f") },
        Change::Removed { path: path("nothing") },
        Change::Removed { path: path("/") },
        Change::MadeDirectory { path: path(&["d"; MemoryFs::MAX_DEPTH + 1].join("/")) },
        Change::Renamed { from: path("f"), to: path("f/g") },
        Change::Linked { path: path("f"), target: "x".into() },
    ];
    for change in &impossible {
        assert!(fs.apply(change, 0).is_err(), "{change:?}");
    }
    assert_eq!(fs.tree_hash().unwrap(), hash);
}
