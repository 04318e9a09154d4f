//! `ls`, `read`, `write`, `rm`: results, texts and refusals, the same on every backend.

use serde_json::{Value, json};
use stead_fs::tools::FileTool;
use stead_fs::tools::FileTool::{Grep, Ls, Read, Rm, Write};
use stead_fs::{ContentHash, Filesystem, WriteMode};

use crate::harness::{call, err, fill, message, ok, on_every_backend, path};

on_every_backend!(
    write_and_read_back,
    write_modes,
    write_refusals,
    read_pages,
    read_says_binary,
    ls_shows_entries,
    ls_refusals,
    rm_counts,
    if_match,
    arguments_are_checked,
    existing_names_outside_the_limits_still_work,
    file_or_directory_never_both,
    errors_are_short,
);

fn write_and_read_back(fs: &mut dyn Filesystem) {
    assert_eq!(
        message(fs, Write, &json!({"path": "a/b.txt", "content": "Hello there!"})),
        "Created a/b.txt (12 bytes)."
    );
    let hash = ContentHash::of(b"Hello there!").to_string();
    assert_eq!(
        ok(fs, Read, &json!({"file_path": "/workspace//a/b.txt"})),
        json!({"content": "Hello there!", "hash": hash, "offset": 0, "lines": 1, "total_lines": 1,
               "truncated": false, "binary": false, "encoding": "utf-8"})
    );
    assert_eq!(message(fs, Read, &json!({"path": "a/b.txt"})), "Read a/b.txt (lines 1-1 of 1).");
}

fn write_modes(fs: &mut dyn Filesystem) {
    ok(fs, Write, &json!({"path": "f", "content": "one\r\n"}));
    let error = err(fs, Write, &json!({"path": "f", "content": "x"}));
    assert_eq!(
        (error.code, error.message.as_str()),
        ("exists", "File already exists; use edit_file to modify existing content. Path: f")
    );
    let appended = ok(fs, Write, &json!({"path": "f", "content": "two", "mode": "append"}));
    assert_eq!(appended["bytes"], 3);
    assert_eq!(appended["hash"], ContentHash::of(b"one\r\ntwo").to_string());
    assert_eq!(fs.read_bytes(&path("f")).unwrap(), "one\r\ntwo".as_bytes());
    assert_eq!(message(fs, Write, &json!({"path": "f", "content": "é", "mode": "overwrite"})), "Updated f (2 bytes).");
    assert_eq!(message(fs, Write, &json!({"path": "g", "content": "", "mode": "overwrite"})), "Created g (0 bytes).");
    assert_eq!(message(fs, Write, &json!({"path": "h", "content": "x", "mode": "append"})), "Created h (1 bytes).");
}

fn write_refusals(fs: &mut dyn Filesystem) {
    let refused = |fs: &mut dyn Filesystem, arguments: Value| {
        let error = err(fs, Write, &arguments);
        (error.code, error.message)
    };
    let invalid = |text: &str| ("invalid_argument", text.to_owned());
    assert_eq!(refused(fs, json!({"content": "x"})), invalid("file_path is required."));
    assert_eq!(refused(fs, json!({"path": "", "content": "x"})), invalid("file_path must not be empty."));
    assert_eq!(refused(fs, json!({"path": "/", "content": "x"})), invalid("file_path must reference a file."));
    assert_eq!(
        refused(fs, json!({"path": "../x", "content": "x"})),
        invalid("Path segments may not include '.' or '..'.")
    );
    assert_eq!(refused(fs, json!({"path": "ä", "content": "x"})), invalid("Path segment must be ASCII text."));
    assert_eq!(
        refused(fs, json!({"path": "x".repeat(81), "content": "x"})),
        invalid("Path segments must be 80 characters or fewer.")
    );
    assert_eq!(
        refused(fs, json!({"path": "d/".repeat(17), "content": "x"})),
        invalid("Path depth exceeds the allowed limit (16 segments).")
    );
    assert_eq!(
        refused(fs, json!({"path": "x", "content": "é".repeat(48_001)})),
        ("too_large", "Content exceeds maximum length of 48,000 characters.".to_owned())
    );
    assert_eq!(refused(fs, json!({"path": "x", "content": "a\0b"})).0, "binary");
    ok(fs, Write, &json!({"path": "x", "content": "é".repeat(48_000)}));
    assert_eq!(refused(fs, json!({"path": "x/y/z", "content": "x"})).0, "not_directory");
    fs.mkdir(&path("dir"), 0).unwrap();
    for mode in ["create", "overwrite", "append"] {
        assert_eq!(refused(fs, json!({"path": "dir", "content": "x", "mode": mode})).0, "is_directory");
    }
}

fn read_pages(fs: &mut dyn Filesystem) {
    let text: String = (0..5_000).map(|line| format!("line {line}\n")).collect();
    fill(fs, &[("big", &text), ("tail", "a\r\nb"), ("empty", ""), ("long", &"é".repeat(700_000))]);
    let page = ok(fs, Read, &json!({"path": "big"}));
    assert_eq!((&page["lines"], &page["total_lines"], &page["truncated"]), (&json!(2000), &json!(5000), &json!(true)));
    let page = ok(fs, Read, &json!({"path": "big", "offset": 4_998, "limit": 9_999}));
    assert_eq!((&page["content"], &page["truncated"]), (&json!("line 4998\nline 4999\n"), &json!(false)));
    let page = ok(fs, Read, &json!({"path": "big", "offset": 5_000}));
    assert_eq!((&page["content"], &page["lines"], &page["truncated"]), (&json!(""), &json!(0), &json!(false)));
    let page = ok(fs, Read, &json!({"path": "big", "offset": 10, "limit": 1}));
    assert_eq!(
        (&page["content"], &page["offset"], &page["truncated"]),
        (&json!("line 10\n"), &json!(10), &json!(true))
    );
    assert_eq!(ok(fs, Read, &json!({"path": "tail"}))["content"], "a\r\nb");
    assert_eq!(ok(fs, Read, &json!({"path": "tail"}))["total_lines"], 2);
    assert_eq!(ok(fs, Read, &json!({"path": "empty"}))["total_lines"], 0);
    let page = ok(fs, Read, &json!({"path": "long"}));
    let shown = page["content"].as_str().unwrap().len();
    assert_eq!((shown, &page["truncated"], &page["next"]), (65_024, &json!(true), &json!({"byte_offset": 65_024})));
    assert_eq!(
        message(fs, Read, &json!({"path": "long"})),
        "Read long (lines 1-1 of 1). Line 1 is cut: 65024 of its 1400000 bytes are shown. Its rest is at bytes 65024 \
         to 1400000: call read again with byte_offset 65024."
    );
    assert_eq!(err(fs, Read, &json!({"path": "big", "offset": -1})).message, "offset must be non-negative.");
    assert_eq!(err(fs, Read, &json!({"path": "big", "limit": 0})).message, "limit must be a positive integer.");
    let error = err(fs, Read, &json!({"path": "nothing"}));
    assert_eq!(
        (error.code, error.message.as_str()),
        ("not_found", "File does not exist in the virtual filesystem: nothing")
    );
    fs.mkdir(&path("dir"), 0).unwrap();
    assert_eq!(err(fs, Read, &json!({"path": "dir"})).code, "is_directory");
}

fn read_says_binary(fs: &mut dyn Filesystem) {
    let mut late = vec![b'a'; 100_000];
    late.extend_from_slice(b"\xc3\x28\0");
    for (name, bytes) in [("nul", b"a\0b".to_vec()), ("latin", b"caf\xe9\0".to_vec()), ("late", late)] {
        let hash = ContentHash::of(&bytes).to_string();
        fs.write_bytes(&path(name), bytes.into(), WriteMode::Create, 0).unwrap();
        let page = ok(fs, Read, &json!({"path": name}));
        assert_eq!((&page["binary"], &page["content"], &page["hash"]), (&json!(true), &json!(""), &json!(hash)));
    }
    // A character that crosses a buffer boundary does not make a file binary.
    for shift in 0..4 {
        let text = format!("{}{}", "a".repeat(shift), "𝄞".repeat(40_000));
        fill(fs, &[("text", &text)]);
        assert_eq!(ok(fs, Read, &json!({"path": "text"}))["binary"], false);
    }
}

fn ls_shows_entries(fs: &mut dyn Filesystem) {
    fill(fs, &[("b.txt", "12345"), ("a.txt", ""), ("dir/inner", "x")]);
    assert_eq!(message(fs, Ls, &json!({})), "Listed directory / (1 subdir, 2 files).");
    let entries = ok(fs, Ls, &Value::Null)["entries"].clone();
    let shown: Vec<_> = entries.as_array().unwrap().iter().map(|e| (&e["path"], &e["kind"], &e["size"])).collect();
    let (a, b, d) = (json!("a.txt"), json!("b.txt"), json!("dir"));
    assert_eq!(
        shown,
        [(&a, &json!("file"), &json!(0)), (&b, &json!("file"), &json!(5)), (&d, &json!("directory"), &json!(0))]
    );
    let mtime = entries[0]["mtime"].as_str().unwrap();
    assert!(mtime.len() == 24 && mtime.ends_with('Z'), "{mtime}");
    assert_eq!(ok(fs, Ls, &json!({"path": "/workspace/dir/"}))["entries"][0]["path"], "dir/inner");
    assert_eq!(message(fs, Ls, &json!({"path": "dir"})), "Listed directory dir (0 subdirs, 1 file).");
}

fn ls_refusals(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "x")]);
    let error = err(fs, Ls, &json!({"path": "f"}));
    assert_eq!(
        (error.code, error.message.as_str()),
        ("not_directory", "Cannot list a file path; provide a directory. Path: f")
    );
    assert_eq!(err(fs, Ls, &json!({"path": "f/x"})).code, "not_directory");
    assert_eq!(err(fs, Ls, &json!({"path": "nothing"})).code, "not_found");
    assert_eq!(err(fs, Ls, &json!({"path": ".."})).message, "Path segments may not include '.' or '..'.");
}

fn rm_counts(fs: &mut dyn Filesystem) {
    fill(fs, &[("d/a", "x"), ("d/e/b", "x"), ("f", "x")]);
    assert_eq!(message(fs, Rm, &json!({"path": "f"})), "Deleted 1 entry under f.");
    let reply = call(fs, Rm, &json!({"path": "d"}));
    assert_eq!((reply.message.as_str(), reply.outcome.unwrap()), ("Deleted 4 entries under d.", json!({"removed": 4})));
    let error = err(fs, Rm, &json!({"path": "d"}));
    assert_eq!((error.code, error.message.as_str()), ("not_found", "No files matched the provided path. Path: d"));
    assert_eq!(err(fs, Rm, &json!({"path": "/"})).message, "path must reference a file or directory.");
    assert_eq!(err(fs, Rm, &json!({"path": "/workspace"})).code, "invalid_argument");
}

fn if_match(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "one")]);
    let (right, wrong) = (ContentHash::of(b"one").to_string(), ContentHash::of(b"two").to_string());
    for (tool, arguments) in [
        (Write, json!({"path": "f", "content": "x", "mode": "overwrite", "if_match": wrong})),
        (Write, json!({"path": "f", "content": "x", "mode": "append", "if_match": wrong})),
        (Rm, json!({"path": "f", "if_match": wrong})),
    ] {
        let error = err(fs, tool, &arguments);
        assert_eq!(error.code, "stale");
        assert!(error.hint.unwrap().contains(&right));
    }
    assert_eq!(
        err(fs, Write, &json!({"path": "gone", "content": "x", "mode": "overwrite", "if_match": right})).code,
        "stale"
    );
    assert_eq!(err(fs, Rm, &json!({"path": "f", "if_match": "abc"})).code, "invalid_argument");
    ok(fs, Write, &json!({"path": "f", "content": "x", "mode": "overwrite", "if_match": right}));
    ok(fs, Rm, &json!({"path": "f", "if_match": ContentHash::of(b"x").to_string()}));
}

fn arguments_are_checked(fs: &mut dyn Filesystem) {
    fill(fs, &[("f", "x")]);
    let named = |fs: &mut dyn Filesystem, tool, arguments: Value, name: &str| {
        let error = err(fs, tool, &arguments);
        assert_eq!(error.code, "invalid_argument", "{arguments}");
        assert!(error.message.contains(name), "{} does not name {name}", error.message);
    };
    named(fs, Read, json!({"path": 7}), "path");
    named(fs, Read, json!({"path": "f", "offset": "3"}), "offset");
    named(fs, Read, json!({"path": "f", "limit": 1.5}), "limit");
    named(fs, Read, json!({"path": "f", "lines": 3}), "lines");
    named(fs, Read, json!({"path": "f", "file_path": "g"}), "file_path");
    named(fs, Read, json!(["f"]), "object");
    named(fs, Write, json!({"path": "g", "content": "x", "mode": "clobber"}), "mode");
    named(fs, Write, json!({"path": "g"}), "content");
    named(fs, Write, json!({"path": "g", "content": ["x"]}), "content");
    ok(fs, Read, &json!({"path": "f", "file_path": "f", "offset": 0.0, "limit": null}));
}

fn existing_names_outside_the_limits_still_work(fs: &mut dyn Filesystem) {
    let long = format!("{}/ü{}", ["deep"; 20].join("/"), "x".repeat(100));
    fs.write(&path(&long), "text", WriteMode::Create, 0).unwrap();
    assert_eq!(ok(fs, Read, &json!({"path": long}))["content"], "text");
    ok(fs, Write, &json!({"path": long, "content": "more", "mode": "overwrite"}));
    ok(fs, Rm, &json!({"path": long}));
    assert_eq!(err(fs, Write, &json!({"path": long, "content": "x"})).code, "invalid_argument");
    // A new file in an existing directory: only the new segment must satisfy the naming rules.
    fs.mkdir(&path("größe"), 0).unwrap();
    ok(fs, Write, &json!({"path": "größe/new", "content": "x"}));
    assert_eq!(err(fs, Write, &json!({"path": "größe/ß", "content": "x"})).code, "invalid_argument");
    // Surrounding blanks are trimmed, unless a file with that exact name exists.
    fs.write(&path(" spaced "), "exact", WriteMode::Create, 0).unwrap();
    assert_eq!(ok(fs, Read, &json!({"path": " spaced "}))["content"], "exact");
    ok(fs, Write, &json!({"path": " trimmed ", "content": "x"}));
    assert!(fs.stat(&path("trimmed")).is_ok());
}

/// A long argument in an error would take the place of many answers.
fn errors_are_short(fs: &mut dyn Filesystem) {
    for (tool, arguments) in [
        (Grep, json!({"pattern": "(".repeat(100_000)})),
        (Read, json!({"path": "x/".repeat(20_000)})),
        (Rm, json!({"path": "x/".repeat(20_000)})),
    ] {
        let error = err(fs, tool, &arguments);
        assert!(error.message.len() < 10_000, "{tool}: {} bytes", error.message.len());
    }
}

fn file_or_directory_never_both(fs: &mut dyn Filesystem) {
    ok(fs, Write, &json!({"path": "a", "content": "x"}));
    assert_eq!(err(fs, Write, &json!({"path": "a/b", "content": "x"})).code, "not_directory");
    ok(fs, Write, &json!({"path": "d/b", "content": "x"}));
    assert_eq!(err(fs, Write, &json!({"path": "d", "content": "x"})).code, "is_directory");
    assert_eq!(ok(fs, Read, &json!({"path": "a"}))["content"], "x");
}

#[test]
fn a_file_tool_is_known_by_its_name() {
    assert!(FileTool::ALL.iter().all(|tool| tool.name().parse() == Ok(*tool)));
    assert!("bash".parse::<FileTool>().is_err());
}
