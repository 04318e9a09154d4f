//! F1–F9, F12: the file tools over HTTP.

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::{Files, on_all, put, writer};

/// Makes a call that must fail and returns its code and message.
#[track_caller]
pub(super) fn fails(server: &TestServer, session: &Value, tool: &str, arguments: Value) -> (String, String) {
    let answer = server.tool(session, tool, arguments);
    assert_eq!((&answer["ok"], answer.get("result")), (&json!(false), None), "{answer}");
    let text = |field: &str| answer["error"][field].as_str().unwrap().to_owned();
    (text("code"), text("message"))
}

/// Makes a call that must succeed and returns its result.
#[track_caller]
pub(super) fn works(server: &TestServer, session: &Value, tool: &str, arguments: Value) -> Value {
    let answer = server.tool(session, tool, arguments);
    assert_eq!(answer["ok"], true, "{answer}");
    answer["result"].clone()
}

pub(super) fn bytes(server: &TestServer, session: &Value, path: &str) -> Vec<u8> {
    let path = format!("/sessions/{}/files/{path}", session["id"].as_str().unwrap());
    server.client().bytes("GET", &path, &[], &[]).expect(200)
}

fn f1_path_rules_and_their_texts(files: Files) {
    let server = files.server();
    let limits = json!({"preset": "wink"});
    server.agent_type("w", json!({"enabled": true, "provider": files.provider(), "limits": limits}));
    let session = server.session(json!({"agent_type": "w"}));
    let write = |path: &str| json!({"path": path, "content": "x"});
    for (given, meant) in
        [("//a///b", "a/b"), ("/c", "c"), ("/workspace/d/e", "d/e"), ("workspace/f", "workspace/f"), ("g/", "g")]
    {
        assert_eq!(works(&server, &session, "write", write(given))["path"], meant);
    }
    let deep = vec!["z"; 17].join("/");
    for (path, text) in [
        ("../x", "Path segments may not include '.' or '..'."),
        ("a/../x", "Path segments may not include '.' or '..'."),
        ("./x", "Path segments may not include '.' or '..'."),
        ("é", "Path segment must be ASCII text."),
        (&"s".repeat(81), "Path segments must be 80 characters or fewer."),
        (&deep, "Path depth exceeds the allowed limit (16 segments)."),
        ("", "file_path must not be empty."),
    ] {
        assert_eq!(
            fails(&server, &session, "write", write(path)),
            ("invalid_argument".to_owned(), text.to_owned()),
            "{path}"
        );
    }
    let before = works(&server, &session, "glob", json!({"pattern": "**/*"}))["paths"].clone();
    assert_eq!(before, json!(["a/b", "c", "d/e", "g", "workspace/f"]));
    // The tools can read, edit and remove a file whose name they would refuse to create.
    put(&server, &session, "%C3%A9/%C3%BC.txt?mkdir=1", b"old");
    works(&server, &session, "edit", json!({"path": "é/ü.txt", "old_string": "old", "new_string": "new"}));
    assert_eq!(works(&server, &session, "read", json!({"path": "é/ü.txt"}))["content"], "new");
    works(&server, &session, "rm", json!({"path": "é/ü.txt"}));
}

fn f3_read_pages_and_reports_what_it_omitted(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let text: String = (0..5000).map(|number| format!("line {number}\n")).collect();
    put(&server, &session, "long", text.as_bytes());
    let first = works(&server, &session, "read", json!({"path": "long"}));
    assert_eq!(
        (&first["offset"], &first["lines"], &first["total_lines"], &first["truncated"]),
        (&json!(0), &json!(2000), &json!(5000), &json!(true))
    );
    assert!(first["content"].as_str().unwrap().starts_with("line 0\n"));
    let last = works(&server, &session, "read", json!({"path": "long", "offset": 4998, "limit": 10}));
    assert_eq!(last["content"], "line 4998\nline 4999\n");
    assert_eq!((&last["lines"], &last["truncated"]), (&json!(2), &json!(false)));
    let most = works(&server, &session, "read", json!({"path": "long", "limit": 9999}));
    assert_eq!(most["lines"], 2000, "2000 at most");
    put(&server, &session, "image", b"\x89PNG\r\n\x1a\n\0\0\0\xff");
    let image = works(&server, &session, "read", json!({"path": "image"}));
    assert_eq!((&image["binary"], &image["content"]), (&json!(true), &json!("")));
    assert!(image["hash"].as_str().unwrap().starts_with("sha256:"));
}

fn f4_edit_changes_one_word_and_no_other_byte(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    // 200 KiB of CRLF lines with mixed content and no newline at the end.
    let mut large: Vec<u8> = Vec::new();
    while large.len() < 200 * 1024 {
        large.extend_from_slice(format!("{}\t é trailing  \r\n", large.len()).as_bytes());
    }
    large.extend_from_slice(b"the needle is here, no newline after it");
    put(&server, &session, "large", &large);
    let edit = json!({"path": "large", "old_string": "needle", "new_string": "thread"});
    assert_eq!(works(&server, &session, "edit", edit)["replacements"], 1);
    let expected = String::from_utf8(large).unwrap().replace("needle", "thread");
    assert!(bytes(&server, &session, "large") == expected.as_bytes(), "another byte changed");

    works(&server, &session, "write", json!({"path": "twice", "content": "one two one"}));
    let edit = |all: bool| json!({"path": "twice", "old_string": "one", "new_string": "1", "replace_all": all});
    let (code, message) = fails(&server, &session, "edit", edit(false));
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("ambiguous", "old_string must match exactly once unless replace_all is true. Path: twice")
    );
    assert_eq!(bytes(&server, &session, "twice"), b"one two one");
    assert_eq!(works(&server, &session, "edit", edit(true))["replacements"], 2);
    assert_eq!(bytes(&server, &session, "twice"), b"1 two 1");
    let (code, message) =
        fails(&server, &session, "edit", json!({"path": "twice", "old_string": "zzz", "new_string": "y"}));
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("not_found", "old_string not found in the target file. Path: twice")
    );
}

fn f5_glob_is_gits(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    for path in ["a.py", "src/b.py", "src/x/a.py", "src/x/note.txt", ".hidden/c.py", "build/d.py"] {
        put(&server, &session, &format!("{path}?mkdir=1"), b"x");
    }
    put(&server, &session, ".gitignore", b"build/\n");
    let glob = |mut arguments: Value, pattern: &str| {
        arguments["pattern"] = pattern.into();
        works(&server, &session, "glob", arguments)["paths"].clone()
    };
    assert_eq!(glob(json!({}), "**/*.py"), json!(["a.py", "build/d.py", "src/b.py", "src/x/a.py"]));
    assert_eq!(glob(json!({}), "src/*.py"), json!(["src/b.py"]));
    assert_eq!(glob(json!({"path": "src"}), "**/*.py"), json!(["src/b.py", "src/x/a.py"]));
    let hidden = glob(json!({"hidden": true}), "**/*.py");
    assert!(hidden.to_string().contains(".hidden/c.py"), "{hidden}");
    let ignoring = glob(json!({"gitignore": true}), "**/*.py");
    assert_eq!(ignoring, json!(["a.py", "src/b.py", "src/x/a.py"]));
}

fn f6_grep_finds_lines_and_says_when_it_stopped(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "a.txt", b"first\n  needle one\nlast needle\n");
    put(&server, &session, "src/b.rs?mkdir=1", b"let needle = 1;\n");
    put(&server, &session, "bin", b"needle\0needle");
    let grep = |arguments: Value| works(&server, &session, "grep", arguments);
    let all = grep(json!({"pattern": "ne+dle"}));
    assert_eq!(
        all["matches"],
        json!([
            {"path": "a.txt", "line": 2, "column": 3, "text": "  needle one"},
            {"path": "a.txt", "line": 3, "column": 6, "text": "last needle"},
            {"path": "src/b.rs", "line": 1, "column": 5, "text": "let needle = 1;"},
        ])
    );
    assert_eq!(all["truncated"], false);
    assert_eq!(grep(json!({"pattern": "needle", "glob": "**/*.rs"}))["matches"].as_array().unwrap().len(), 1);
    let many: String = "needle\n".repeat(20_000);
    put(&server, &session, "many", many.as_bytes());
    let capped = grep(json!({"pattern": "needle", "path": "/"}));
    assert_eq!(capped["truncated"], true);
    assert!(capped["matches"].as_array().unwrap().len() < 20_000);
    let (code, message) = fails(&server, &session, "grep", json!({"pattern": "("}));
    assert_eq!(code, "invalid_argument");
    assert!(message.starts_with("Invalid regular expression: "), "{message}");
}

fn f7_a_path_is_a_file_or_a_directory(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "d/x?mkdir=1", b"x");
    assert_eq!(fails(&server, &session, "write", json!({"path": "d", "content": "x"})).0, "is_directory");
    assert_eq!(fails(&server, &session, "write", json!({"path": "d/x/y", "content": "x"})).0, "not_directory");
    assert_eq!(fails(&server, &session, "read", json!({"path": "d"})).0, "is_directory");
    let id = session["id"].as_str().unwrap();
    let client = server.client();
    client.bytes("PUT", &format!("/sessions/{id}/files/d"), &[], b"x").reply().problem(409, "conflict");
    client.bytes("PUT", &format!("/sessions/{id}/files/d/x/y?mkdir=1"), &[], b"x").reply().problem(409, "conflict");
    let directory = format!("/sessions/{id}/files/d/x?format=directory");
    client.bytes("PUT", &directory, &[], b"").reply().problem(409, "conflict");
}

fn f8_a_stale_hash_stops_every_change(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let seen = works(&server, &session, "write", json!({"path": "a", "content": "one"}))["hash"].clone();
    let now =
        works(&server, &session, "write", json!({"path": "a", "content": "two", "mode": "overwrite"}))["hash"].clone();
    for (tool, arguments) in [
        ("write", json!({"path": "a", "content": "three", "mode": "overwrite", "if_match": seen})),
        ("edit", json!({"path": "a", "old_string": "two", "new_string": "three", "if_match": seen})),
        ("rm", json!({"path": "a", "if_match": seen})),
    ] {
        let answer = server.tool(&session, tool, arguments);
        assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!("stale")), "{tool}");
        assert!(answer["error"].to_string().contains(now.as_str().unwrap()), "{answer}");
        assert_eq!(bytes(&server, &session, "a"), b"two");
    }
    works(&server, &session, "edit", json!({"path": "a", "old_string": "two", "new_string": "three", "if_match": now}));
}

fn f9_a_failing_tool_leaves_everything_as_it_was(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "a", b"one one");
    let id = session["id"].as_str().unwrap();
    let workspace = || server.client().get(&format!("/sessions/{id}/state")).expect(200)["state"]["workspace"].clone();
    let listing = || server.client().get(&format!("/sessions/{id}/files")).expect(200);
    // Only files that live in the journal have a tree hash.
    let hashed = matches!(files, Files::Memory);
    let too_long = if hashed { 48_001 } else { 1_048_577 };
    let (before, files) = (workspace(), listing());
    assert_eq!(before["tree_hash"].is_string(), hashed);
    for (tool, arguments) in [
        ("write", json!({"path": "a", "content": "x"})),
        ("write", json!({"path": "new/deep/../x", "content": "x"})),
        ("write", json!({"path": "a/b", "content": "x"})),
        ("write", json!({"path": "big", "content": "x".repeat(too_long)})),
        ("edit", json!({"path": "a", "old_string": "one", "new_string": "1"})),
        ("rm", json!({"path": "nothing"})),
        ("grep", json!({"pattern": "("})),
    ] {
        fails(&server, &session, tool, arguments);
        assert_eq!((workspace(), listing()), (before.clone(), files.clone()), "{tool}");
    }
}

fn f12_versions_count_and_a_crash_loses_nothing(files: Files) {
    // Only files that live in the journal have version numbers; durability is the same for all.
    let counted = |number: u64| if matches!(files, Files::Memory) { json!(number) } else { Value::Null };
    let mut server = files.server();
    let session = writer(&server, files);
    let id = session["id"].as_str().unwrap().to_owned();
    for number in 1..=3 {
        let written =
            works(&server, &session, "write", json!({"path": "a", "content": number.to_string(), "mode": "overwrite"}));
        assert_eq!(written["version"], counted(number));
    }
    put(&server, &session, "b", &[0, 159, 146, 150]);
    works(&server, &session, "edit", json!({"path": "a", "old_string": "3", "new_string": "4"}));
    let facts = |server: &TestServer| {
        let session = server.client().get(&format!("/sessions/{id}")).expect(200);
        let files = server.client().get(&format!("/sessions/{id}/files")).expect(200);
        (session["workspace"]["tree_hash"].clone(), files)
    };
    let before = facts(&server);
    assert_eq!(before.1["entries"][0]["version"], counted(4));
    server.restart(None);
    assert_eq!(facts(&server), before);
    assert_eq!(bytes(&server, &session, "a"), b"4");
    assert_eq!(bytes(&server, &session, "b"), [0, 159, 146, 150]);
    let again = works(&server, &session, "write", json!({"path": "a", "content": "5", "mode": "overwrite"}));
    assert_eq!(again["version"], counted(5));
    let replay = server.client().get(&format!("/sessions/{id}/replay")).expect(200);
    assert_eq!(replay["identical"], true);
}

on_all!(
    f1_path_rules_and_their_texts,
    f3_read_pages_and_reports_what_it_omitted,
    f4_edit_changes_one_word_and_no_other_byte,
    f5_glob_is_gits,
    f6_grep_finds_lines_and_says_when_it_stopped,
    f7_a_path_is_a_file_or_a_directory,
    f8_a_stale_hash_stops_every_change,
    f9_a_failing_tool_leaves_everything_as_it_was,
    f12_versions_count_and_a_crash_loses_nothing
);
