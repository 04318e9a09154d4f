//! `edit`: exactly one string changes, and nothing else.

use serde_json::json;
use stead_fs::tools::FileTool::Edit;
use stead_fs::{ContentHash, Filesystem, WriteMode};

use crate::harness::{NOW, err, fill, message, ok, on_every_backend, path};

on_every_backend!(
    unique_match,
    replace_all,
    refusals,
    every_other_byte_is_kept,
    replacement_cannot_fill_memory,
    if_match,
    edit_through_a_link_changes_its_target,
);

fn unique_match(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "one two two")]);
    let error = err(fs, Edit, &json!({"path": "f", "old_string": "two", "new_string": "x"}));
    assert_eq!(
        (error.code, error.message.as_str()),
        ("ambiguous", "old_string must match exactly once unless replace_all is true.")
    );
    let result = ok(fs, Edit, &json!({"path": "f", "old_string": "one", "new_string": "1"}));
    assert_eq!(result, json!({"path": "f", "replacements": 1, "hash": ContentHash::of(b"1 two two").to_string()}));
}

fn replace_all(fs: &mut dyn Filesystem) {
    fill(fs, &[("P", "aXbXc"), ("overlap", "aaaa")]);
    let arguments = json!({"file_path": "P", "old_string": "X", "new_string": "", "replace_all": true});
    assert_eq!(message(fs, Edit, &arguments), "Replaced 2 occurrences in P.");
    assert_eq!(fs.read_bytes(&path("P")).unwrap(), "abc".as_bytes());
    let arguments = json!({"path": "overlap", "old_string": "aa", "new_string": "a", "replace_all": true});
    assert_eq!(ok(fs, Edit, &arguments)["replacements"], 2);
}

fn refusals(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "a\r\nb"), ("bin", "a\0b")]);
    let text = |fs: &mut dyn Filesystem, arguments| err(fs, Edit, &arguments).message;
    assert_eq!(text(fs, json!({"path": "f", "old_string": "", "new_string": "x"})), "old_string must not be empty.");
    assert_eq!(
        text(fs, json!({"path": "f", "old_string": "zzz", "new_string": "x"})),
        "old_string not found in the target file."
    );
    assert_eq!(
        text(fs, json!({"path": "f", "old_string": "a", "new_string": "x".repeat(48_001)})),
        "Replacement strings must be 48,000 characters or fewer."
    );
    let error = err(fs, Edit, &json!({"path": "f", "old_string": "a\nb", "new_string": "x"}));
    assert!(error.hint.unwrap().contains("CRLF"));
    assert_eq!(err(fs, Edit, &json!({"path": "bin", "old_string": "a", "new_string": "x"})).code, "binary");
    assert_eq!(err(fs, Edit, &json!({"path": "no", "old_string": "a", "new_string": "x"})).code, "not_found");
    assert_eq!(err(fs, Edit, &json!({"path": "f", "old_string": "a"})).message, "new_string is required.");
}

fn every_other_byte_is_kept(fs: &mut dyn Filesystem) {
    let before: String = (0..9_000).map(|line| format!("line {line} ends here\r\n")).collect();
    let text = format!("{before}needle{before}no newline at the end");
    assert!(text.len() > 200 * 1024);
    fill(fs, &[("big", &text)]);
    ok(fs, Edit, &json!({"path": "big", "old_string": "needle", "new_string": "pin"}));
    assert_eq!(fs.read_bytes(&path("big")).unwrap(), text.replace("needle", "pin").as_bytes());
}

fn replacement_cannot_fill_memory(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", &"a".repeat(100_000))]);
    let arguments = json!({"path": "f", "old_string": "a", "new_string": "b".repeat(48_000), "replace_all": true});
    assert_eq!(err(fs, Edit, &arguments).code, "too_large");
}

fn if_match(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "one")]);
    let hash = |text: &str| ContentHash::of(text.as_bytes()).to_string();
    let stale = json!({"path": "f", "old_string": "one", "new_string": "x", "if_match": hash("two")});
    assert_eq!(err(fs, Edit, &stale).code, "stale");
    ok(fs, Edit, &json!({"path": "f", "old_string": "one", "new_string": "x", "if_match": hash("one")}));
}

fn edit_through_a_link_changes_its_target(fs: &mut dyn Filesystem) {
    fs.write(&path("docs/AGENTS.md"), "old", WriteMode::Create, NOW).unwrap();
    fs.symlink(&path("CLAUDE.md"), b"docs/AGENTS.md", NOW).unwrap();
    ok(fs, Edit, &json!({"path": "CLAUDE.md", "old_string": "old", "new_string": "new"}));
    assert_eq!(fs.read_bytes(&path("docs/AGENTS.md")).unwrap(), "new".as_bytes());
    assert_eq!(fs.read_link(&path("CLAUDE.md")).unwrap(), b"docs/AGENTS.md");
}
