//! Profiles: the tools in the names, parameters and words that models and clients know.

use base64::Engine as _;
use serde_json::{Value, json};
use stead_testkit::TestServer;

use super::agents::Agent;
use crate::rows::{Files, on_all, put, writer};

/// Calls a tool that must succeed and returns its text.
#[track_caller]
fn said(agent: &mut Agent, name: &str, arguments: Value) -> String {
    let answer = agent.call(name, arguments);
    assert_eq!(answer["isError"], json!(false), "{answer}");
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Calls a tool that must fail and returns its text.
#[track_caller]
fn failed(agent: &mut Agent, name: &str, arguments: Value) -> String {
    let answer = agent.call(name, arguments);
    assert_eq!(answer["isError"], json!(true), "{answer}");
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

fn tree(server: &TestServer, session: &Value) {
    for (path, text) in [
        ("a.txt", "one\ntwo\nthree\n"),
        (".hidden", "x"),
        ("src/main.py", "def f():\n    return 1\n"),
        ("src/deep/far/away.py", "x = 1\n"),
        ("docs/guide.md", "# Guide\n"),
    ] {
        put(server, session, &format!("{path}?mkdir=1"), text.as_bytes());
    }
}

fn a9_the_text_editor_answers_in_the_words_that_models_know(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    tree(&server, &session);
    let mut claude = Agent::greet(&server, &session, "?profile=anthropic");
    let mut edit = |arguments: Value| said(&mut claude, "str_replace_based_edit_tool", arguments);

    // A directory is listed two levels deep, without hidden files.
    let listed = edit(json!({"command": "view", "path": "/workspace"}));
    let shown: Vec<&str> = listed.lines().skip(1).collect();
    assert_eq!(
        shown,
        [
            "/workspace",
            "/workspace/a.txt",
            "/workspace/docs",
            "/workspace/docs/guide.md",
            "/workspace/src",
            "/workspace/src/deep",
            "/workspace/src/main.py"
        ],
        "{listed}"
    );
    let page = edit(json!({"command": "view", "path": "a.txt"}));
    assert_eq!(page, "Here's the result of running `cat -n` on a.txt:\n     1\tone\n     2\ttwo\n     3\tthree\n");
    let page = edit(json!({"command": "view", "path": "a.txt", "view_range": [2, -1]}));
    assert_eq!(page, "Here's the result of running `cat -n` on a.txt:\n     2\ttwo\n     3\tthree\n");
    let made = edit(json!({"command": "create", "path": "new/b.txt", "file_text": "1\n"}));
    assert_eq!(made, "File created successfully at: new/b.txt");
    let changed = edit(json!({"command": "str_replace", "path": "a.txt", "old_str": "two", "new_str": "TWO"}));
    assert!(changed.starts_with("The file a.txt has been edited. Here's the result"), "{changed}");
    assert!(changed.contains("     2\tTWO\n"), "{changed}");
    let inserted = edit(json!({"command": "insert", "path": "a.txt", "insert_line": 0, "insert_text": "zero"}));
    assert!(inserted.contains("     1\tzero\n     2\tone\n"), "{inserted}");
    assert_eq!(server.tool(&session, "read", json!({"path": "a.txt"}))["result"]["content"], "zero\none\nTWO\nthree\n");

    // A long file names the editor's own parameter for the rest.
    let long: String = (1..=2_500).map(|line| format!("{line}\n")).collect();
    put(&server, &session, "long.txt", long.as_bytes());
    let page = edit(json!({"command": "view", "path": "long.txt"}));
    assert!(page.contains("view_range") && !page.contains("offset"), "{}", page.lines().last().unwrap());

    let mut wrong = |arguments: Value| failed(&mut claude, "str_replace_based_edit_tool", arguments);
    let none = wrong(json!({"command": "str_replace", "path": "a.txt", "old_str": "nine", "new_str": "x"}));
    assert_eq!(none, "No replacement was performed, old_str `nine` did not appear verbatim in a.txt.");
    let many = wrong(json!({"command": "str_replace", "path": "a.txt", "old_str": "e", "new_str": "x"}));
    let expected = "Multiple occurrences of old_str `e` in lines [1, 2, 4, 4]. Please ensure it is unique";
    assert_eq!(many, format!("No replacement was performed. {expected}"));
    let missing = "The path no.txt does not exist. Please provide a valid path.";
    assert_eq!(wrong(json!({"command": "view", "path": "no.txt"})), missing);
    assert_eq!(wrong(json!({"command": "insert", "path": "no.txt", "insert_line": 0, "insert_text": "x"})), missing);
    assert_eq!(wrong(json!({"command": "str_replace", "path": "no.txt", "old_str": "a"})), missing);
    let far = wrong(json!({"command": "insert", "path": "a.txt", "insert_line": 9, "insert_text": "x"}));
    assert!(far.ends_with("It should be within the range of lines of the file: [0, 4]"), "{far}");
    let far = wrong(json!({"command": "view", "path": "a.txt", "view_range": [9, 10]}));
    assert!(far.ends_with("should be within the range of lines of the file: [1, 4]"), "{far}");
    let far = wrong(json!({"command": "view", "path": "src", "view_range": [1, 2]}));
    assert_eq!(far, "The `view_range` parameter is not allowed when `path` points to a directory.");
}

fn a9_the_tools_of_the_reference_file_server_do_what_they_say(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    tree(&server, &session);
    let png = b"\x89PNG\r\n\x1a\n rest";
    put(&server, &session, "p.png", png);
    let mut agent = Agent::greet(&server, &session, "?profile=mcp-filesystem");

    assert_eq!(said(&mut agent, "read_text_file", json!({"path": "/workspace/a.txt"})), "one\ntwo\nthree\n");
    assert_eq!(said(&mut agent, "read_file", json!({"path": "a.txt", "head": 2})), "one\ntwo");
    let media = agent.call("read_media_file", json!({"path": "p.png"}));
    let data = base64::prelude::BASE64_STANDARD.encode(png);
    assert_eq!(media["content"][0], json!({"type": "image", "data": data, "mimeType": "image/png"}), "{media}");
    let other = agent.call("read_media_file", json!({"path": "a.txt"}));
    assert_eq!(other["content"][0]["resource"]["uri"], "file:///workspace/a.txt", "{other}");

    let edits = json!([{"oldText": "two", "newText": "2"}, {"oldText": "three", "newText": "3"}]);
    let diff = said(&mut agent, "edit_file", json!({"path": "a.txt", "edits": edits, "dryRun": true}));
    let hunk = "@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+3\n";
    assert!(diff.starts_with("```diff\nIndex: /workspace/a.txt\n") && diff.contains(hunk), "{diff}");
    assert_eq!(said(&mut agent, "read_text_file", json!({"path": "a.txt"})), "one\ntwo\nthree\n", "a dry run");
    assert_eq!(said(&mut agent, "edit_file", json!({"path": "a.txt", "edits": edits})), diff);
    assert_eq!(said(&mut agent, "read_text_file", json!({"path": "a.txt"})), "one\n2\n3\n");
    // All edits or none.
    let edits = json!([{"oldText": "2", "newText": "two"}, {"oldText": "nine", "newText": "x"}]);
    let none = failed(&mut agent, "edit_file", json!({"path": "a.txt", "edits": edits}));
    assert_eq!(none, "Could not find exact match for edit:\nnine");
    assert_eq!(said(&mut agent, "read_text_file", json!({"path": "a.txt"})), "one\n2\n3\n");

    let wrote = said(&mut agent, "write_file", json!({"path": "b.txt", "content": "b"}));
    assert_eq!(wrote, "Successfully wrote to b.txt");
    let listed = said(&mut agent, "list_directory", json!({"path": "/workspace"}));
    assert_eq!(listed, "[FILE] .hidden\n[FILE] a.txt\n[FILE] b.txt\n[DIR] docs\n[FILE] p.png\n[DIR] src");
    let sizes = said(&mut agent, "list_directory_with_sizes", json!({"path": "docs", "sortBy": "size"}));
    assert!(sizes.ends_with("\n\nTotal: 1 files, 0 directories\nCombined size: 8 B"), "{sizes}");
    let tree = said(&mut agent, "directory_tree", json!({"path": "src", "excludePatterns": ["deep"]}));
    let tree: Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(tree, json!([{"name": "main.py", "type": "file"}]));
    let tree = said(&mut agent, "directory_tree", json!({"path": "src"}));
    let tree: Value = serde_json::from_str(&tree).unwrap();
    assert_eq!(tree[0]["children"][0]["children"], json!([{"name": "away.py", "type": "file"}]), "{tree}");
    let found = said(&mut agent, "search_files", json!({"path": "/", "pattern": "**/*.py"}));
    assert_eq!(found, "/workspace/src/deep/far/away.py\n/workspace/src/main.py");
    let arguments = json!({"path": "/", "pattern": "**/*.py", "excludePatterns": ["src/deep"]});
    assert_eq!(said(&mut agent, "search_files", arguments), "/workspace/src/main.py");
    assert_eq!(said(&mut agent, "search_files", json!({"path": "/", "pattern": "*/deep"})), "/workspace/src/deep");
    assert_eq!(said(&mut agent, "search_files", json!({"path": "/", "pattern": "*.rs"})), "No matches found");
    assert_eq!(said(&mut agent, "list_allowed_directories", json!({})), "Allowed directories:\n/workspace");

    assert_eq!(said(&mut agent, "read_text_file", json!({"path": "a.txt", "tail": 2})), "2\n3\n");
    let many = said(&mut agent, "read_multiple_files", json!({"paths": ["b.txt", "no.txt", "docs/guide.md"]}));
    assert_eq!(
        many,
        "b.txt:\nb\n\n---\nno.txt: Error - File does not exist in the virtual filesystem: no.txt\n---\ndocs/guide.md:\n# Guide\n\n"
    );
    let made = said(&mut agent, "create_directory", json!({"path": "/workspace/new/deep"}));
    assert_eq!(made, "Successfully created directory /workspace/new/deep");
    said(&mut agent, "create_directory", json!({"path": "/workspace/new/deep"}));
    let moved = said(&mut agent, "move_file", json!({"source": "b.txt", "destination": "new/deep/c.txt"}));
    assert_eq!(moved, "Successfully moved b.txt to new/deep/c.txt");
    failed(&mut agent, "move_file", json!({"source": "a.txt", "destination": "new/deep/c.txt"}));
    let info = said(&mut agent, "get_file_info", json!({"path": "new/deep/c.txt"}));
    assert!(
        info.starts_with("size: 1\n") && info.contains("\nisDirectory: false\nisFile: true\npermissions: "),
        "{info}"
    );
    let mut names = agent.tools();
    names.sort_unstable();
    assert_eq!(names.len(), 14, "{names:?}");

    // Lines that do not fit are not left out silently.
    let wide = format!("{}\n", "x".repeat(200)).repeat(1_000);
    put(&server, &session, "wide.txt", wide.as_bytes());
    let last = said(&mut agent, "read_text_file", json!({"path": "wide.txt", "tail": 900}));
    assert!(last.ends_with("x\n(not everything is shown)"), "{}", &last[last.len() - 80..]);
    let several = json!({"paths": ["wide.txt", "a.txt"]});
    let many = said(&mut agent, "read_multiple_files", several);
    assert!(many.contains("x\n\n(not everything is shown)\n\n---\na.txt:\n"), "{}", &many[many.len() - 80..]);

    let both = agent.call("read_text_file", json!({"path": "a.txt", "head": 1, "tail": 1}));
    assert_eq!(both["structuredContent"]["code"], "invalid_arguments", "{both}");
}

fn a9_the_file_tools_of_codex_count_lines_from_one(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    tree(&server, &session);
    let mut codex = Agent::greet(&server, &session, "?profile=openai");
    assert_eq!(said(&mut codex, "read_file", json!({"file_path": "a.txt", "offset": 2})), "L2: two\nL3: three");
    let listed = said(&mut codex, "list_dir", json!({"dir_path": "/workspace/src", "depth": 2}));
    assert_eq!(listed, "Absolute path: /workspace/src\ndeep/\n  far/\nmain.py");
    let found = said(&mut codex, "grep_files", json!({"pattern": "return|x = ", "include": "*.py"}));
    assert_eq!(found, "/workspace/src/deep/far/away.py\n/workspace/src/main.py");
    assert_eq!(said(&mut codex, "grep_files", json!({"pattern": "nowhere"})), "No matches found.");
    // The matches of one file do not hide another file.
    let wide = format!("needle {}\n", "x".repeat(200)).repeat(1_000);
    put(&server, &session, "first.txt", wide.as_bytes());
    put(&server, &session, "second.txt", b"needle\n");
    let found = said(&mut codex, "grep_files", json!({"pattern": "needle"}));
    assert_eq!(found, "/workspace/first.txt\n/workspace/second.txt");
    let long: String = (1..=2_500).map(|line| format!("{line}\n")).collect();
    put(&server, &session, "long.txt", long.as_bytes());
    let page = said(&mut codex, "read_file", json!({"file_path": "long.txt"}));
    assert!(page.ends_with("L2000: 2000\n(2500 lines in all; go on with offset 2001)"), "{}", &page[page.len() - 80..]);
    assert!(
        said(&mut codex, "read_file", json!({"file_path": "long.txt", "offset": 2001})).starts_with("L2001: 2001\n")
    );
}

on_all!(
    a9_the_file_tools_of_codex_count_lines_from_one,
    a9_the_text_editor_answers_in_the_words_that_models_know,
    a9_the_tools_of_the_reference_file_server_do_what_they_say,
);
