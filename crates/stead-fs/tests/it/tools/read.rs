//! Further forms of `read`, and text that is not UTF-8, on every backend.

use serde_json::{Value, json};
use stead_fs::tools::FileTool::{Edit, Grep, MultiEdit, Read};
use stead_fs::{Filesystem, Limits, WriteMode};

use crate::harness::{NOW, err, fill, message, ok, on_every_backend, path};

fn put(fs: &mut dyn Filesystem, name: &str, bytes: &[u8]) {
    fs.write_bytes(&path(name), bytes.to_vec().into(), WriteMode::Overwrite, NOW).unwrap();
}

fn wide(text: &str) -> Vec<u8> {
    [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

fn wide_be(text: &str) -> Vec<u8> {
    [0xFEFF].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect()
}

fn several_files_have_their_own_results(fs: &mut dyn Filesystem) {
    fill(fs, &[("a", "one\ntwo\n"), ("d/b", "three")]);
    put(fs, "bin", b"\0");
    let read = ok(fs, Read, &json!({"paths": ["a", "none", "d/b", "d", "bin", "../x"], "limit": 1}));
    let files = read["files"].as_array().unwrap();
    let part = |index: usize, field: &str| files[index][field].clone();
    assert_eq!((part(0, "path"), part(0, "content"), part(0, "truncated")), (json!("a"), json!("one\n"), json!(true)));
    assert_eq!(files[1]["error"]["code"], "not_found");
    assert_eq!((part(2, "content"), part(2, "total_lines")), (json!("three"), json!(1)));
    assert_eq!(files[3]["error"]["code"], "is_directory");
    assert_eq!(part(4, "binary"), true);
    assert_eq!(files[5]["error"]["code"], "invalid_argument");
    assert_eq!(read["truncated"], true);
    let said = message(fs, Read, &json!({"paths": ["a", "none"]}));
    assert_eq!(said, "Read 1 file. 1 could not be read; see error.");
    // The files share the budget of one answer, and a small one leaves its part to the next.
    fill(fs, &[("long", &"x".repeat(900_000)), ("long2", &"y".repeat(900_000))]);
    let read = ok(fs, Read, &json!({"paths": ["long", "a", "long2"]}));
    assert!(read.to_string().len() <= Limits::default().output_bytes);
    let lengths: Vec<usize> =
        read["files"].as_array().unwrap().iter().map(|file| file["content"].as_str().unwrap().len()).collect();
    assert!(lengths[0] > 15_000 && lengths[1] == 8 && lengths[2] > lengths[0], "{lengths:?}");
    assert_eq!((&read["files"][0]["truncated"], &read["files"][1]["truncated"]), (&json!(true), &json!(false)));
    let many = vec!["long"; 100];
    let read = ok(fs, Read, &json!({"paths": many}));
    assert!(read.to_string().len() <= Limits::default().output_bytes, "{}", read.to_string().len());
}

fn the_last_lines(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "1\n2\n3\n4"), ("empty", "")]);
    let tail = |fs: &mut dyn Filesystem, lines: u64| ok(fs, Read, &json!({"path": "f", "tail": lines}));
    let last = tail(fs, 2);
    assert_eq!(
        (&last["content"], &last["offset"], &last["lines"], &last["total_lines"], &last["truncated"]),
        (&json!("3\n4"), &json!(2), &json!(2), &json!(4), &json!(false))
    );
    assert_eq!(tail(fs, 9)["content"], "1\n2\n3\n4");
    assert_eq!(ok(fs, Read, &json!({"path": "empty", "tail": 3}))["content"], "");
    // Whole lines from the end, as many as fit.
    let line = format!("{}\n", "x".repeat(600_000));
    fill(fs, &[("long", &line.repeat(3))]);
    let last = ok(fs, Read, &json!({"path": "long", "tail": 3}));
    assert_eq!((&last["lines"], &last["offset"], &last["truncated"]), (&json!(1), &json!(2), &json!(true)));
    // The last line is cut. The message and `next` name the rest of it.
    let cut = message(fs, Read, &json!({"path": "long", "tail": 1}));
    let (shown, next) = (last["content"].as_str().unwrap().len(), &last["next"]["byte_offset"]);
    assert_eq!(*next, json!(1_200_002 + shown));
    assert!(cut.ends_with(&format!("call read again with byte_offset {next}.")), "{cut}");
    let both = message(fs, Read, &json!({"path": "long", "tail": 3}));
    assert!(both.contains(&format!("byte_offset {next}.")) && both.ends_with("offset 0 and limit 2."), "{both}");
    // Whole lines are missing before those that are shown. `next` is only for what follows.
    fill(fs, &[("lines", &format!("{}\n", "x".repeat(30_000)).repeat(5))]);
    let last = ok(fs, Read, &json!({"path": "lines", "tail": 4}));
    assert_eq!((&last["lines"], &last["truncated"], last.get("next")), (&json!(2), &json!(true), None));
    let said = message(fs, Read, &json!({"path": "lines", "tail": 4}));
    assert!(said.ends_with("call read again with offset 1 and limit 2."), "{said}");
    let before = ok(fs, Read, &json!({"path": "lines", "offset": 1, "limit": 2}));
    assert_eq!(before["lines"], 2);
    assert_eq!(err(fs, Read, &json!({"path": "f", "tail": 0})).message, "tail must be a positive integer.");
}

fn a_range_of_bytes_has_whole_characters(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "aé😀\nb")]);
    let range = |fs: &mut dyn Filesystem, from: u64, limit: u64| {
        ok(fs, Read, &json!({"path": "f", "byte_offset": from, "byte_limit": limit}))
    };
    let whole = range(fs, 0, 100);
    assert_eq!((&whole["content"], &whole["bytes"], &whole["total_bytes"]), (&json!("aé😀\nb"), &json!(9), &json!(9)));
    let cut = range(fs, 0, 5);
    assert_eq!((&cut["content"], &cut["bytes"], &cut["truncated"]), (&json!("aé"), &json!(3), &json!(true)));
    let inside = range(fs, 2, 6);
    assert_eq!((&inside["content"], &inside["byte_offset"], &inside["bytes"]), (&json!("😀\n"), &json!(3), &json!(5)));
    let line = range(fs, 8, 4);
    assert_eq!((&line["content"], &line["offset"], &line["total_lines"]), (&json!("b"), &json!(1), &json!(2)));
    assert_eq!(range(fs, 50, 4)["content"], "");
    let said = message(fs, Read, &json!({"path": "f", "byte_offset": 2, "byte_limit": 6}));
    assert_eq!(said, "Read f (bytes 3-8 of 9, whole characters). For more, call read again with byte_offset 8.");
    // Reading on from each end gives the whole file.
    let (mut at, mut text) = (0, String::new());
    while at < 9 {
        let part = range(fs, at, 4);
        text.push_str(part["content"].as_str().unwrap());
        at = part["byte_offset"].as_u64().unwrap() + part["bytes"].as_u64().unwrap();
    }
    assert_eq!(text, "aé😀\nb");
}

fn forms_are_not_mixed(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "x")]);
    for arguments in [
        json!({"path": "f", "paths": ["f"]}),
        json!({"paths": ["f"], "offset": 1}),
        json!({"paths": ["f"], "tail": 1}),
        json!({"path": "f", "tail": 1, "offset": 0}),
        json!({"path": "f", "tail": 1, "limit": 1}),
        json!({"path": "f", "byte_offset": 0, "limit": 1}),
        json!({"path": "f", "byte_limit": 9, "tail": 1}),
        json!({"path": "f", "byte_limit": 3}),
        json!({"path": "f", "byte_offset": -1}),
        json!({"paths": []}),
        json!({"paths": "f"}),
        json!({"paths": vec!["f"; 101]}),
        json!({}),
    ] {
        assert_eq!(err(fs, Read, &arguments).code, "invalid_argument", "{arguments}");
    }
    let error = err(fs, Read, &json!({"path": "f", "tail": 1, "offset": 0}));
    assert_eq!(error.message, "offset and tail are not for the same call.");
}

/// The content, the encoding and the found lines of one file.
fn seen(fs: &mut dyn Filesystem, pattern: &str) -> (Value, Value, Value) {
    let read = ok(fs, Read, &json!({"path": "f"}));
    let found = ok(fs, Grep, &json!({"pattern": pattern, "path": "f"}));
    let lines = found["matches"].as_array().unwrap().iter().map(|one| one["text"].clone()).collect();
    (read["content"].clone(), read["encoding"].clone(), lines)
}

fn one_rule_for_text_in_read_grep_and_edit(fs: &mut dyn Filesystem) {
    for (bytes, encoding) in [
        ("née\ncafé\n".as_bytes().to_vec(), "utf-8"),
        (b"\xEF\xBB\xBFn\xC3\xA9e\ncaf\xC3\xA9\n".to_vec(), "utf-8"),
        (b"n\xE9e\ncaf\xE9\n".to_vec(), "latin-1"),
        (wide("née\ncafé\n"), "utf-16le"),
        (wide_be("née\ncafé\n"), "utf-16be"),
    ] {
        put(fs, "f", &bytes);
        for pattern in ["^n", "é$", r"caf\w\b", "caf.", "(?i)CAF"] {
            let (content, named, lines) = seen(fs, pattern);
            assert_eq!((content, named), (json!("née\ncafé\n"), json!(encoding)), "{encoding}");
            let expected = if pattern == "^n" { "née" } else { "café" };
            assert_eq!(lines, json!([expected]), "{encoding} {pattern}");
        }
        let edit = json!({"path": "f", "old_string": "café", "new_string": "thé"});
        assert_eq!(ok(fs, Edit, &edit)["encoding"], encoding);
        assert_eq!(seen(fs, "thé"), (json!("née\nthé\n"), json!(encoding), json!(["thé"])));
        let start = bytes.len().min(2);
        assert_eq!(fs.read_bytes(&path("f")).unwrap()[..start], bytes[..start], "the mark is kept");
    }
    put(fs, "f", b"caf\xE9\n");
    let edit = json!({"path": "f", "old_string": "caf", "new_string": "→"});
    let error = err(fs, Edit, &edit);
    assert_eq!(
        (error.code, error.message.as_str()),
        ("encoding", "The file is latin-1, which has no character '→' (U+2192). Path: f")
    );
    let edits = json!({"path": "f", "edits": [{"old_string": "é", "new_string": "è"}]});
    ok(fs, MultiEdit, &edits);
    assert_eq!(fs.read_bytes(&path("f")).unwrap(), &b"caf\xE8\n"[..]);
}

fn everything_else_is_binary_for_all(fs: &mut dyn Filesystem) {
    let late = [b"needle\n".repeat(20_000), vec![0]].concat();
    for bytes in [b"needle\0".to_vec(), late, b"\xFF\xFEn\0e\0\0".to_vec(), b"\xFF\xFE\0\xD8n\0".to_vec()] {
        put(fs, "f", &bytes);
        let read = ok(fs, Read, &json!({"path": "f"}));
        assert_eq!((&read["binary"], &read["content"], read.get("encoding")), (&json!(true), &json!(""), None));
        for pattern in ["n", "needle", r"\w"] {
            assert_eq!(ok(fs, Grep, &json!({"pattern": pattern}))["matches"], json!([]), "{pattern}");
        }
        let edit = json!({"path": "f", "old_string": "n", "new_string": "m", "replace_all": true});
        assert_eq!(err(fs, Edit, &edit).code, "binary");
    }
}

fn large_files_follow_the_same_rule(fs: &mut dyn Filesystem) {
    let filler = b"a line of text without the word\n".repeat(200_000);
    let latin = [&filler[..], b"n\xE9edle\n"].concat();
    put(fs, "f", &latin);
    for pattern in ["n.edle", "edle", "né"] {
        let found = ok(fs, Grep, &json!({"pattern": pattern}));
        assert_eq!(
            found["matches"],
            json!([{"path": "f", "line": 200_001, "column": if pattern == "edle" { 3 } else { 1 }, "text": "néedle", "encoding": "latin-1"}]),
            "{pattern}"
        );
    }
    put(fs, "f", &wide(&format!("{}néedle\n", "words\n".repeat(500_000))));
    assert_eq!(ok(fs, Grep, &json!({"pattern": "néedle"}))["matches"][0]["line"], 500_001);
    put(fs, "f", &[&filler[..], "néedle\n".as_bytes()].concat());
    assert_eq!(ok(fs, Grep, &json!({"pattern": "n.edle"}))["matches"][0].get("encoding"), None);
    assert_eq!(ok(fs, Read, &json!({"path": "f", "tail": 1}))["content"], "néedle\n");
}

on_every_backend!(
    several_files_have_their_own_results,
    the_last_lines,
    a_range_of_bytes_has_whole_characters,
    forms_are_not_mixed,
    one_rule_for_text_in_read_grep_and_edit,
    everything_else_is_binary_for_all,
    large_files_follow_the_same_rule,
);
