//! `move`, `copy`, `mkdir`, `stat` and `multi_edit` on every backend.

use serde_json::json;
use stead_fs::tools::FileTool::{Copy, Mkdir, Move, MultiEdit, Read, Stat, Write};
use stead_fs::{Change, Filesystem, MemoryFs, Permission};

use crate::harness::{NOW, call, err, fill, message, ok, on_every_backend, path};

fn entries(fs: &dyn Filesystem) -> Vec<String> {
    let mut found = Vec::new();
    fs.walk(&path("/"), &mut |walked| {
        found.push(walked.path.to_string());
        std::ops::ControlFlow::Continue(stead_fs::Walk::Continue)
    })
    .unwrap();
    found
}

fn pair(source: &str, destination: &str) -> serde_json::Value {
    json!({"source": source, "destination": destination})
}

/// A directory with a file, an executable, an empty directory and a link.
fn tree(fs: &mut dyn Filesystem) {
    fill(fs, &[("d/a.txt", "one"), ("d/sub/run.sh", "#!/bin/sh\n")]);
    fs.set_permission(&path("d/sub/run.sh"), Permission::Executable, NOW).unwrap();
    fs.mkdir(&path("d/empty"), NOW).unwrap();
    fs.symlink(&path("d/link"), b"a.txt", NOW).unwrap();
}

fn a_copy_has_everything_and_shares_nothing(fs: &mut dyn Filesystem) {
    tree(fs);
    let done = ok(fs, Copy, &pair("d", "new/parents/e"));
    assert_eq!(done, json!({"source": "d", "destination": "new/parents/e", "kind": "directory", "entries": 6}));
    for (name, kind) in [("a.txt", "file"), ("sub/run.sh", "file"), ("empty", "directory"), ("link", "symlink")] {
        let copy = ok(fs, Stat, &json!({"path": format!("new/parents/e/{name}")}));
        let original = ok(fs, Stat, &json!({"path": format!("d/{name}")}));
        assert_eq!(copy["kind"], kind);
        for field in ["kind", "size", "mode", "hash", "target"] {
            assert_eq!(copy[field], original[field], "{name} {field}");
        }
    }
    ok(fs, Write, &json!({"path": "new/parents/e/a.txt", "content": "two", "mode": "overwrite"}));
    assert_eq!(ok(fs, Read, &json!({"path": "d/a.txt"}))["content"], "one");
    assert_eq!(message(fs, Copy, &pair("d/a.txt", "b")), "Copied d/a.txt to b (1 entry).");
    // A link is copied as a link, also if its target does not exist from there.
    ok(fs, Copy, &pair("d/link", "link"));
    assert_eq!(ok(fs, Stat, &json!({"path": "link"}))["target"], "a.txt");
}

fn a_move_takes_everything_along(fs: &mut dyn Filesystem) {
    tree(fs);
    let before = ok(fs, Stat, &json!({"path": "d/sub/run.sh"}));
    assert_eq!(message(fs, Move, &pair("d", "x/y")), "Moved d to x/y.");
    assert_eq!(
        entries(fs),
        ["x", "x/y", "x/y/a.txt", "x/y/empty", "x/y/link", "x/y/sub", "x/y/sub/run.sh"].map(str::to_owned)
    );
    let after = ok(fs, Stat, &json!({"path": "x/y/sub/run.sh"}));
    assert_eq!((&after["mode"], &after["hash"]), (&json!("0755"), &before["hash"]));
    // The link itself moves, not its target.
    ok(fs, Move, &pair("x/y/link", "l"));
    assert_eq!(ok(fs, Stat, &json!({"path": "l"}))["kind"], "symlink");
    assert_eq!(ok(fs, Read, &json!({"path": "x/y/a.txt"}))["content"], "one");
}

fn nothing_is_overwritten_or_lost(fs: &mut dyn Filesystem) {
    tree(fs);
    fill(fs, &[("file", "x")]);
    for tool in [Move, Copy] {
        for (source, destination, code) in [
            ("file", "d/a.txt", "exists"),
            ("file", "d", "exists"),
            ("file", "file", "exists"),
            ("d", "d", "exists"),
            ("file", "d/link", "exists"),
            ("d", "d/sub/e", "invalid_argument"),
            ("nothing", "e", "not_found"),
            ("file/below", "e", "not_found"),
            ("d", "file/e", "not_directory"),
            ("/", "e", "invalid_argument"),
            ("d", "/", "invalid_argument"),
            ("d", "../e", "invalid_argument"),
            ("d", "é", "invalid_argument"),
            ("", "e", "invalid_argument"),
        ] {
            let error = err(fs, tool, &pair(source, destination));
            assert_eq!(error.code, code, "{tool} {source} {destination}: {}", error.message);
        }
        let error = err(fs, tool, &json!({"source": "file", "destination": "e", "if_match": "sha256:00"}));
        assert_eq!(error.code, "invalid_argument");
        let stale = format!("sha256:{}", "0".repeat(64));
        let error = err(fs, tool, &json!({"source": "file", "destination": "e", "if_match": stale}));
        assert_eq!(error.code, "stale");
        let error = err(fs, tool, &json!({"source": "d", "destination": "e", "if_match": stale}));
        assert_eq!(error.code, "invalid_argument");
        assert_eq!(err(fs, tool, &json!({"source": "d"})).message, "destination is required.");
        assert_eq!(err(fs, tool, &json!({"path": "d"})).message, "Unknown argument 'path'.");
    }
    let error = err(fs, Copy, &pair("d", "d/sub/e"));
    assert_eq!(error.message, "a directory cannot be moved or copied into itself: d to d/sub/e");
}

fn a_link_does_not_lead_out_or_into_itself(fs: &mut dyn Filesystem) {
    tree(fs);
    fs.symlink(&path("out"), b"/etc", NOW).unwrap();
    fs.symlink(&path("within"), b"d/sub", NOW).unwrap();
    for tool in [Move, Copy] {
        assert_eq!(err(fs, tool, &pair("out/passwd", "p")).code, "escapes");
        assert_eq!(err(fs, tool, &pair("d/a.txt", "out/a")).code, "escapes");
        assert_eq!(err(fs, tool, &pair("d", "within/e")).code, "invalid_argument");
    }
    ok(fs, Copy, &pair("out", "out2"));
    assert_eq!(ok(fs, Stat, &json!({"path": "out2"}))["target"], "/etc");
    assert_eq!(ok(fs, Stat, &json!({"path": "out2"})).get("target_kind"), None);
    let moved = ok(fs, Move, &pair("d/a.txt", "within/a"));
    assert_eq!(moved["destination"], "d/sub/a", "links on the way are resolved");
}

fn what_gets_deeper_obeys_the_limit(fs: &mut dyn Filesystem) {
    let deep = vec!["s"; 14].join("/");
    fill(fs, &[(&format!("{deep}/f"), "x")]);
    assert_eq!(err(fs, Move, &pair("s", "a/b/s")).message, "Path depth exceeds the allowed limit (16 segments).");
    assert_eq!(err(fs, Copy, &pair("s", "a/b/s")).code, "invalid_argument");
    ok(fs, Copy, &pair("s", "a/b"));
}

fn mkdir_makes_parents_and_accepts_a_directory(fs: &mut dyn Filesystem) {
    assert_eq!(ok(fs, Mkdir, &json!({"path": "a/b/c"})), json!({"path": "a/b/c", "created": true}));
    assert_eq!(ok(fs, Mkdir, &json!({"path": "a/b"})), json!({"path": "a/b", "created": false}));
    assert_eq!(call(fs, Mkdir, &json!({"path": "/"})).changes, []);
    fill(fs, &[("f", "x")]);
    assert_eq!(err(fs, Mkdir, &json!({"path": "f"})).code, "exists");
    assert_eq!(err(fs, Mkdir, &json!({"path": "f/g"})).code, "not_directory");
    assert_eq!(err(fs, Mkdir, &json!({"path": "a/../b"})).code, "invalid_argument");
    assert_eq!(err(fs, Mkdir, &json!({"path": "s".repeat(81)})).code, "invalid_argument");
    assert_eq!(err(fs, Mkdir, &json!({})).message, "path is required.");
    assert_eq!(entries(fs), ["a", "a/b", "a/b/c", "f"].map(str::to_owned));
}

fn stat_describes_an_entry_itself(fs: &mut dyn Filesystem) {
    tree(fs);
    let file = ok(fs, Stat, &json!({"path": "d/a.txt"}));
    let read = ok(fs, Read, &json!({"path": "d/a.txt"}));
    assert_eq!(
        (&file["kind"], &file["size"], &file["mode"], &file["hash"]),
        (&json!("file"), &json!(3), &json!("0644"), &read["hash"])
    );
    assert!(file["mtime"].as_str().unwrap().ends_with('Z'));
    let link = ok(fs, Stat, &json!({"path": "d/link"}));
    assert_eq!(
        (&link["kind"], &link["target"], &link["target_kind"], link.get("hash")),
        (&json!("symlink"), &json!("a.txt"), &json!("file"), None)
    );
    let root = ok(fs, Stat, &json!({"path": "/"}));
    assert_eq!((&root["kind"], &root["size"]), (&json!("directory"), &json!(0)));
    let missing = err(fs, Stat, &json!({"path": "d/none"}));
    assert_eq!((missing.code, missing.message.as_str()), ("not_found", "No file or directory exists at d/none"));
}

fn several_edits_happen_together_or_not_at_all(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "one two two\r\n")]);
    let edits = |edits: serde_json::Value| json!({"path": "f", "edits": edits});
    let done = ok(
        fs,
        MultiEdit,
        &edits(json!([
            {"old_string": "one", "new_string": "1"},
            {"old_string": "two", "new_string": "2", "replace_all": true},
            // Each edit sees the result of those before it.
            {"old_string": "1 2", "new_string": "12"},
        ])),
    );
    assert_eq!((&done["edits"], &done["replacements"]), (&json!(3), &json!(4)));
    assert_eq!(ok(fs, Read, &json!({"path": "f"}))["content"], "12 2\r\n");
    for (given, code, text) in [
        (json!([{"old_string": "2", "new_string": "3"}]), "ambiguous", "Edit 1: old_string must match exactly once"),
        (
            json!([{"old_string": "12", "new_string": "x"}, {"old_string": "12", "new_string": "y"}]),
            "not_found",
            "Edit 2: old_string not found",
        ),
        (json!([]), "invalid_argument", "edits must have between 1 and 100 edits."),
        (json!([{"old_string": "a"}]), "invalid_argument", "Edit 1: new_string is required."),
        (
            json!([{"old_string": "a", "new_string": "b", "x": 1}]),
            "invalid_argument",
            "edits must be a list of objects",
        ),
        (json!("x"), "invalid_argument", "edits must be a list of objects"),
    ] {
        let error = err(fs, MultiEdit, &edits(given));
        assert_eq!(error.code, code);
        assert!(error.message.starts_with(text), "{}", error.message);
    }
    let stale = format!("sha256:{}", "0".repeat(64));
    let edit = json!({"path": "f", "edits": [{"old_string": "12", "new_string": "x"}], "if_match": stale});
    assert_eq!(err(fs, MultiEdit, &edit).code, "stale");
}

on_every_backend!(
    a_copy_has_everything_and_shares_nothing,
    a_move_takes_everything_along,
    nothing_is_overwritten_or_lost,
    a_link_does_not_lead_out_or_into_itself,
    what_gets_deeper_obeys_the_limit,
    mkdir_makes_parents_and_accepts_a_directory,
    stat_describes_an_entry_itself,
    several_edits_happen_together_or_not_at_all,
);

#[test]
fn replayed_moves_and_copies_give_the_same_tree() {
    let mut fs = MemoryFs::new();
    fill(&mut fs, &[("d/a", "one"), ("d/e/b", "two")]);
    let mut replayed = fs.clone();
    let calls = [
        (Copy, pair("d", "x/copy")),
        (Move, pair("d/e", "moved")),
        (Mkdir, json!({"path": "made/dir"})),
        (Copy, pair("x", "made/dir/x")),
        (MultiEdit, json!({"path": "x/copy/a", "edits": [{"old_string": "one", "new_string": "1"}]})),
    ];
    let changes: Vec<Change> =
        calls.iter().flat_map(|(tool, arguments)| call(&mut fs, *tool, arguments).changes).collect();
    assert_eq!(changes.len(), calls.len());
    let stored = serde_json::to_string(&changes).unwrap();
    for change in serde_json::from_str::<Vec<Change>>(&stored).unwrap() {
        replayed.apply(&change, NOW).unwrap();
    }
    assert_eq!(replayed.tree_hash().unwrap(), fs.tree_hash().unwrap());
    for file in ["x/copy/a", "made/dir/x/copy/e/b", "moved/b"] {
        assert_eq!(replayed.stat(&path(file)).unwrap(), fs.stat(&path(file)).unwrap());
    }
    assert_eq!(fs.stat(&path("x/copy/a")).unwrap().version, Some(2), "a copy begins with version 1");
}
