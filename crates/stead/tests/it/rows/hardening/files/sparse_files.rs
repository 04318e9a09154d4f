//! A file of a terabyte that takes no space: its tag costs no time, and conditions hold.

use serde_json::{Value, json};
use stead_testkit::{RawReply, TestServer};

use crate::rows::{Files, on_podman, writer};

mod disk {
    #[test]
    fn conditions_hold_for_a_file_of_holes() {
        super::conditions_hold_for_a_file_of_holes(crate::rows::Files::Disk);
    }
}
on_podman!(conditions_hold_for_a_file_of_holes);

fn ask(server: &TestServer, session: &Value, method: &str, file: &str, headers: &[(&str, &str)]) -> RawReply {
    let path = format!("/sessions/{}/files/{file}", session["id"].as_str().unwrap());
    server.client().bytes(method, &path, headers, b"")
}

fn tag(server: &TestServer, session: &Value, file: &str) -> String {
    let head = ask(server, session, "HEAD", file, &[]);
    assert_eq!(head.status, 200, "{file}");
    head.header("etag").unwrap().to_owned()
}

/// Hashing these zeros would take longer than a call may take.
fn conditions_hold_for_a_file_of_holes(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let python = |code: &str| {
        let ran = server.tool(&session, "python", json!({"code": code}));
        assert_eq!(ran["result"]["exit_code"], 0, "{ran}");
    };
    python(
        "for name, size in (('small', 1 << 20), ('large', 60 << 30), ('huge', 1 << 40)): open(name, 'wb').truncate(size)",
    );
    // The control: a file with few holes has the SHA-256 of its bytes, in the tool too.
    let small = tag(&server, &session, "small");
    assert_eq!(
        format!("\"{}\"", server.tool(&session, "read", json!({"path": "small"}))["result"]["hash"].as_str().unwrap()),
        small
    );
    assert!(small.starts_with("\"sha256:"), "{small}");

    let before = tag(&server, &session, "large");
    assert!(before.starts_with("\"sparse:"), "{before}");
    assert_eq!(ask(&server, &session, "GET", "large", &[("if-none-match", &before)]).status, 304);
    let end = ask(&server, &session, "GET", "large", &[("range", "bytes=-2"), ("if-range", &before)]);
    assert_eq!(end.header("content-range"), Some("bytes 64424509438-64424509439/64424509440"));
    assert_eq!(end.expect(206), [0, 0]);
    // One byte at the end changes the tag.
    python("f = open('large', 'r+b'); f.seek((60 << 30) - 1); f.write(b'x'); f.close()");
    let after = tag(&server, &session, "large");
    assert_ne!(before, after);
    let stale = ask(&server, &session, "PUT", "large", &[("if-match", &before)]);
    assert_eq!(stale.header("etag"), Some(after.as_str()));
    stale.reply().problem(412, "stale");
    assert_eq!(ask(&server, &session, "PUT", "large", &[("if-match", &after)]).status, 200);

    // The tools use the same hash, also for a file that is too large for a download.
    ask(&server, &session, "GET", "huge", &[]).reply().problem(409, "conflict");
    let read = server.tool(&session, "read", json!({"path": "huge"}));
    assert_eq!((&read["ok"], &read["result"]["binary"]), (&json!(true), &json!(true)), "{read}");
    let hash = &read["result"]["hash"];
    let refused = server.tool(&session, "rm", json!({"path": "huge", "if_match": before.trim_matches('"')}));
    assert_eq!(refused["error"]["code"], "stale", "{refused}");
    let removed = server.tool(&session, "rm", json!({"path": "huge", "if_match": hash}));
    assert_eq!(removed["ok"], json!(true), "{removed}");
}
