//! F14, F15: `move`, `copy`, `mkdir`, `stat` and `multi_edit` over HTTP.

use serde_json::{Value, json};
use stead_testkit::TestServer;

use super::tools::{bytes, fails, works};
use crate::rows::{Files, on_all, put, writer};

fn pair(source: &str, destination: &str) -> Value {
    json!({"source": source, "destination": destination})
}

fn paths(server: &TestServer, session: &Value) -> Value {
    works(server, session, "glob", json!({"pattern": "**/*"}))["paths"].clone()
}

fn f14_entries_are_moved_copied_made_and_described(files: Files) {
    let mut server = files.server();
    let session = writer(&server, files);
    let id = session["id"].as_str().unwrap().to_owned();
    put(&server, &session, "d/a.txt?mkdir=1", b"one");
    put(&server, &session, "d/sub/b.bin?mkdir=1", &[0, 159, 146, 150]);
    // The snapshot puts the directory into a layer of a box, where the kernel cannot rename it.
    server.client().post(&format!("/sessions/{id}/snapshots"), json!({"name": "before"})).expect(201);

    let copied = works(&server, &session, "copy", pair("d", "new/e"));
    assert_eq!(copied, json!({"source": "d", "destination": "new/e", "kind": "directory", "entries": 4}));
    let moved = works(&server, &session, "move", pair("d", "moved/here"));
    assert_eq!(moved, json!({"source": "d", "destination": "moved/here", "kind": "directory"}));
    works(&server, &session, "move", pair("new/e/a.txt", "new/c.txt"));
    assert_eq!(works(&server, &session, "mkdir", json!({"path": "x/y"}))["created"], true);
    assert_eq!(works(&server, &session, "mkdir", json!({"path": "x"}))["created"], false);
    let expected = json!(["moved/here/a.txt", "moved/here/sub/b.bin", "new/c.txt", "new/e/sub/b.bin"]);
    assert_eq!(paths(&server, &session), expected);
    assert_eq!(bytes(&server, &session, "moved/here/sub/b.bin"), [0, 159, 146, 150]);

    let stat = works(&server, &session, "stat", json!({"path": "new/c.txt"}));
    let hash = works(&server, &session, "read", json!({"path": "new/c.txt"}))["hash"].clone();
    assert_eq!(
        (&stat["kind"], &stat["size"], &stat["mode"], &stat["hash"]),
        (&json!("file"), &json!(3), &json!("0644"), &hash)
    );
    let counted = matches!(files, Files::Memory);
    assert_eq!((stat["version"].is_u64(), stat["created_at"].is_string()), (counted, counted), "{stat}");
    assert_eq!(works(&server, &session, "stat", json!({"path": "x/y"}))["kind"], "directory");

    // The same after a crash, and in a replay.
    let tree = |server: &TestServer| {
        server.client().get(&format!("/sessions/{id}")).expect(200)["workspace"]["tree_hash"].clone()
    };
    let before = tree(&server);
    server.restart(None);
    assert_eq!((paths(&server, &session), tree(&server)), (expected, before));
    let replay = server.client().get(&format!("/sessions/{id}/replay")).expect(200);
    assert_eq!(replay["identical"], true);
    let patch = server.client().get(&format!("/sessions/{id}/diff")).expect(200);
    assert!(patch["changed"].to_string().contains("moved/here/a.txt"), "{patch}");
}

fn f14_a_refused_move_or_copy_changes_nothing(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "d/a?mkdir=1", b"one");
    put(&server, &session, "b", b"two");
    let before = paths(&server, &session);
    for tool in ["move", "copy"] {
        for (source, destination, code) in [
            ("b", "d/a", "exists"),
            ("b", "d", "exists"),
            ("d", "d/below", "invalid_argument"),
            ("none", "e", "not_found"),
            ("b", "d/a/below", "not_directory"),
            ("b", "../e", "invalid_argument"),
            ("/", "e", "invalid_argument"),
        ] {
            assert_eq!(fails(&server, &session, tool, pair(source, destination)).0, code, "{tool} {source}");
            assert_eq!(paths(&server, &session), before);
        }
        let stale = format!("sha256:{}", "0".repeat(64));
        let arguments = json!({"source": "b", "destination": "e", "if_match": stale});
        assert_eq!(fails(&server, &session, tool, arguments).0, "stale");
    }
    assert_eq!(fails(&server, &session, "mkdir", json!({"path": "b"})).0, "exists");
    assert_eq!(fails(&server, &session, "stat", json!({"path": "none"})).0, "not_found");
    assert_eq!((bytes(&server, &session, "d/a"), bytes(&server, &session, "b")), (b"one".to_vec(), b"two".to_vec()));
}

fn f15_several_edits_of_a_file_happen_together(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "a", b"one\r\ntwo\r\nthree");
    let edit = |old: &str, new: &str| json!({"old_string": old, "new_string": new});
    let edits = |edits: &[Value]| json!({"path": "a", "edits": edits});
    let done = works(&server, &session, "multi_edit", edits(&[edit("one", "1"), edit("1\r\ntwo", "1\r\n2")]));
    assert_eq!((&done["edits"], &done["replacements"]), (&json!(2), &json!(2)));
    assert_eq!(bytes(&server, &session, "a"), b"1\r\n2\r\nthree");
    let (code, message) = fails(&server, &session, "multi_edit", edits(&[edit("1", "one"), edit("zzz", "")]));
    assert_eq!((code.as_str(), message.as_str()), ("not_found", "Edit 2: old_string not found in the target file."));
    assert_eq!(bytes(&server, &session, "a"), b"1\r\n2\r\nthree");
}

fn c7_a_tool_is_enabled_by_the_tools_that_can_do_the_same(files: Files) {
    let server = files.server();
    let enabled = |name: &str, tools: Value| {
        server.agent_type(name, json!({"enabled": true, "provider": files.provider(), "tools": tools}));
        let session = server.session(json!({"agent_type": name}));
        let shown = session["workspace"]["tools"].clone();
        (session["id"].as_str().unwrap().to_owned(), shown)
    };
    let (id, shown) = enabled("writes", json!(["write", "ls"]));
    assert_eq!(shown, json!(["write", "ls", "copy", "mkdir", "stat"]));
    let call = |tool: &str, body: Value| server.client().post(&format!("/sessions/{id}/tools/{tool}"), body);
    assert_eq!(call("mkdir", json!({"path": "d"})).expect(200)["ok"], true);
    let detail = call("move", pair("d", "e")).problem(403, "tool_not_enabled");
    assert_eq!(detail, "Tool 'move' is not enabled for this agent type");
    let hint = call("move", pair("d", "e")).expect(403)["hint"].clone();
    assert_eq!(hint, "an agent type enables it by its own name, or by write and rm");
    call("multi_edit", json!({})).problem(403, "tool_not_enabled");
    let (_, shown) = enabled("moves", json!(["move"]));
    assert_eq!(shown, json!(["move"]));
    let (_, shown) = enabled("nothing", json!([]));
    assert_eq!(shown, json!([]));
    let listed = server.client().get("/tools").expect(200);
    let tool = listed["items"].as_array().unwrap().iter().find(|tool| tool["name"] == "move").unwrap().clone();
    assert_eq!(tool["enabled_by"], json!([["write", "rm"]]));
}

fn c7_an_edit_shows_no_file_that_the_agent_type_cannot_read(files: Files) {
    let server = files.server();
    server.agent_type("edits", json!({"enabled": true, "provider": files.provider(), "tools": ["edit", "write"]}));
    let session = server.session(json!({"agent_type": "edits"}));
    let id = session["id"].as_str().unwrap();
    let call = |tool: &str, body: Value| server.client().post(&format!("/sessions/{id}/tools/{tool}"), body);
    call("write", json!({"path": "a.txt", "content": "secret\n"})).expect(200);
    for shows in [
        json!({"path": "a.txt", "insert_line": 0, "insert_text": ""}),
        json!({"path": "a.txt", "old_str": "s", "new_str": "s"}),
        json!({"path": "a.txt", "edits": [{"old_string": "s", "new_string": "S"}], "dry_run": true}),
    ] {
        let detail = call("edit", shows).problem(403, "tool_not_enabled");
        assert_eq!(detail, "Tool 'read' is not enabled for this agent type");
    }
    let plain = json!({"path": "a.txt", "old_string": "secret", "new_string": "other"});
    assert_eq!(call("edit", plain).expect(200)["ok"], true);
}

on_all!(
    f14_entries_are_moved_copied_made_and_described,
    f14_a_refused_move_or_copy_changes_nothing,
    f15_several_edits_of_a_file_happen_together,
    c7_a_tool_is_enabled_by_the_tools_that_can_do_the_same,
    c7_an_edit_shows_no_file_that_the_agent_type_cannot_read,
);
