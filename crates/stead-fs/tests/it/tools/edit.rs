//! `edit`: exactly one string changes, and nothing else.

use serde_json::{Value, json};
use stead_fs::tools::FileTool::{Edit, MultiEdit};
use stead_fs::tools::{self, Call};
use stead_fs::{ContentHash, Filesystem, Limits, WriteMode};

use crate::harness::{NOW, err, fill, message, ok, on_every_backend, path};

on_every_backend!(
    unique_match,
    replace_all,
    refusals,
    every_other_byte_is_kept,
    replacement_cannot_fill_memory,
    if_match,
    edit_through_a_link_changes_its_target,
    every_form_keeps_the_byte_order_mark,
    the_limit_is_the_size_of_the_file_in_every_form,
    a_long_file_is_too_large_for_a_list_of_edits,
    an_entry_of_edits_has_only_known_names,
    many_occurrences_are_listed_in_part,
);

fn unique_match(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "one two two")]);
    let error = err(fs, Edit, &json!({"path": "f", "old_string": "two", "new_string": "x"}));
    assert_eq!(
        (error.code, error.message.as_str()),
        ("ambiguous", "old_string must match exactly once unless replace_all is true. Path: f")
    );
    let result = ok(fs, Edit, &json!({"path": "f", "old_string": "one", "new_string": "1"}));
    let hash = ContentHash::of(b"1 two two").to_string();
    assert_eq!(result, json!({"path": "f", "replacements": 1, "hash": hash, "encoding": "utf-8"}));
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
        "old_string not found in the target file. Path: f"
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

/// Calls that replace `old` by `new`, or insert `new` before the first line, in each form.
fn forms(old: &str, new: &str) -> Vec<Value> {
    vec![
        json!({"path": "f", "old_string": old, "new_string": new}),
        json!({"path": "f", "old_str": old, "new_str": new}),
        json!({"path": "f", "edits": [{"old_string": old, "new_string": new}]}),
        json!({"path": "f", "insert_line": 0, "insert_text": new}),
        json!({"patch": format!("*** Begin Patch\n*** Update File: f\n-{old}\n+{new}\n*** End Patch")}),
    ]
}

fn every_form_keeps_the_byte_order_mark(fs: &mut dyn Filesystem) {
    for arguments in forms("one", "1") {
        fill(fs, &[("f", "\u{feff}one\ntwo\n")]);
        ok(fs, Edit, &arguments);
        let expected = if arguments["insert_line"] == 0 { "\u{feff}1\none\ntwo\n" } else { "\u{feff}1\ntwo\n" };
        assert_eq!(fs.read_bytes(&path("f")).unwrap(), expected.as_bytes(), "{arguments}");
    }
}

fn the_limit_is_the_size_of_the_file_in_every_form(fs: &mut dyn Filesystem) {
    let limits = Limits { edit_bytes: 100, ..Limits::default() };
    let wide: Vec<u8> = "\u{feff}one\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    // 92 bytes in Latin-1, and more than 100 in UTF-8.
    let latin = [&b"one\n"[..], &[0xE9; 88]].concat();
    let all = |new: &str| {
        let edits = json!({"path": "f", "edits": [{"old_string": "one", "new_string": new}]});
        forms("one", new).into_iter().map(|arguments| (Edit, arguments)).chain([(MultiEdit, edits)])
    };
    let cases =
        [(&wide, "x".repeat(60), Some("too_large")), (&wide, "x".repeat(30), None), (&latin, "ab".to_owned(), None)];
    for (content, new, code) in cases {
        for (tool, arguments) in all(&new) {
            fs.write_bytes(&path("f"), content.clone().into(), WriteMode::Overwrite, NOW).unwrap();
            let reply = tools::call(fs, Call { tool, arguments: &arguments, limits: &limits, now_millis: NOW });
            assert_eq!(reply.outcome.err().map(|error| error.code), code, "{arguments}");
        }
    }
}

fn a_long_file_is_too_large_for_a_list_of_edits(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", &format!("one\n{}", "\n".repeat(8 << 20)))]);
    let error = err(fs, Edit, &json!({"path": "f", "edits": [{"old_string": "one", "new_string": "1"}]}));
    let message = "The file is too large to edit: more than 8388608 bytes. Path: f";
    assert_eq!((error.code, error.message.as_str()), ("too_large", message));
    ok(fs, Edit, &json!({"path": "f", "old_string": "one", "new_string": "1"}));
}

fn an_entry_of_edits_has_only_known_names(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "one one")]);
    let edit = json!({"old_string": "one", "new_string": "1", "replace_all": true});
    let error = err(fs, Edit, &json!({"path": "f", "edits": [edit]}));
    assert_eq!(error.message, "edits must be a list of objects with old_string, new_string.");
}

fn many_occurrences_are_listed_in_part(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", &"one\n".repeat(150))]);
    let error = err(fs, Edit, &json!({"path": "f", "old_str": "one", "new_str": "1"}));
    assert!(error.code == "ambiguous" && error.message.contains(" 99, 100]. Please"), "{}", error.message);
}
