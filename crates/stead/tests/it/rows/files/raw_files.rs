//! The raw files interface: bytes of any size, entity tags, ranges, directories.

use std::io::Read;
use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::{RawReply, TestServer};

use crate::rows::{Files, on_both, on_podman, put, writer};

fn path(session: &Value, path: &str) -> String {
    format!("/sessions/{}/files/{path}", session["id"].as_str().unwrap())
}

fn get(server: &TestServer, session: &Value, at: &str, headers: &[(&str, &str)]) -> RawReply {
    server.client().bytes("GET", &path(session, at), headers, &[])
}

fn bytes_come_back_as_they_went(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let all: Vec<u8> = (0..100_000u32).map(|number| (number % 256) as u8).collect();
    let client = server.client();
    let made = client.bytes("PUT", &path(&session, "d/all?mkdir=1"), &[], &all);
    let tag = made.header("etag").unwrap().to_owned();
    let body = made.reply().expect(201);
    assert_eq!((&body["path"], &body["bytes"]), (&json!("d/all"), &json!(100_000)));
    assert_eq!(format!("\"{}\"", body["hash"].as_str().unwrap()), tag);
    let read = get(&server, &session, "d/all", &[]);
    for (name, value) in [
        ("etag", tag.as_str()),
        ("content-length", "100000"),
        ("accept-ranges", "bytes"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(read.header(name), Some(value));
    }
    assert!(read.header("last-modified").unwrap().ends_with(" GMT"));
    assert_eq!(read.expect(200), all);
    let head = client.bytes("HEAD", &path(&session, "d/all"), &[], &[]);
    assert_eq!((head.header("content-length"), head.header("etag")), (Some("100000"), Some(tag.as_str())));
    assert_eq!(head.expect(200), b"");
    // The tools report the same hash.
    let tool = server.tool(&session, "read", json!({"path": "d/all"}));
    assert_eq!(tool["result"]["hash"], body["hash"]);
    assert_eq!(client.bytes("PUT", &path(&session, "d/all"), &[], b"").status, 200, "replaced");
    assert_eq!(get(&server, &session, "d/all", &[]).expect(200), b"");
    assert_eq!(client.delete(&path(&session, "d/all")).status, 204);
    client.delete(&path(&session, "d/all")).problem(404, "not_found");
    get(&server, &session, "d/all", &[]).reply().problem(404, "not_found");
}

fn missing_parents_are_made_on_request_only(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let client = server.client();
    let refused = client.bytes("PUT", &path(&session, "a/b/c"), &[], b"x").reply();
    refused.problem(404, "not_found");
    assert!(refused.json()["hint"].as_str().unwrap().contains("mkdir=1"));
    client.bytes("PUT", &path(&session, "a/b/c?mkdir=1"), &[], b"x").reply().expect(201);
    client.bytes("PUT", &path(&session, "a/b/d"), &[], b"x").reply().expect(201);
    client.bytes("PUT", &path(&session, "a/b/c?mkdir=2"), &[], b"x").reply().problem(400, "invalid_request");
    client.bytes("PUT", &path(&session, "a/b/c?mkdirs=1"), &[], b"x").reply().problem(400, "invalid_request");
    client.bytes("PUT", &path(&session, "e/f?format=directory"), &[], b"").reply().expect(201);
    client.bytes("PUT", &path(&session, "e/f?format=directory"), &[], b"").reply().expect(200);
    let listing = client.get(&path(&session, "e")).expect(200);
    assert_eq!((&listing["path"], &listing["entries"][0]["path"]), (&json!("e"), &json!("e/f")));
    assert_eq!(listing["entries"][0]["kind"], "directory");
}

fn paths_are_decoded_once_and_never_climb(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "d%20e/100%25.txt?mkdir=1", b"x");
    let tool = server.tool(&session, "glob", json!({"pattern": "**/*"}));
    assert_eq!(tool["result"]["paths"], json!(["d e/100%.txt"]));
    assert_eq!(get(&server, &session, "d%20e%2F100%25.txt", &[]).expect(200), b"x");
    assert_eq!(get(&server, &session, "//d%20e///100%25.txt", &[]).expect(200), b"x");
    assert_eq!(get(&server, &session, "/workspace/d%20e/100%25.txt", &[]).expect(200), b"x");
    // If this path were decoded twice, it would climb.
    get(&server, &session, "%252e%252e/x", &[]).reply().problem(404, "not_found");
    for climbing in ["..", "../x", "%2e%2e/x", "d/%2e%2e/%2e%2e/etc/passwd", "d/./x", "..%2f..%2fetc%2fpasswd"] {
        for method in ["GET", "PUT", "DELETE"] {
            let body: &[u8] = if method == "PUT" { b"x" } else { b"" };
            let reply = server.client().bytes(method, &path(&session, climbing), &[], body).reply();
            let detail = reply.problem(400, "invalid_request");
            assert!(detail.contains("Path segments may not include '.' or '..'."), "{climbing}: {detail}");
        }
    }
    get(&server, &session, "a%00b", &[]).reply().problem(400, "invalid_request");
    get(&server, &session, "a%ffb", &[]).reply().problem(400, "invalid_request");
}

fn if_match_and_if_none_match(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let client = server.client();
    let at = path(&session, "a");
    let put = |headers: &[(&str, &str)], body: &[u8]| client.bytes("PUT", &at, headers, body);
    let first = put(&[("if-none-match", "*")], b"one");
    let first_tag = first.header("etag").unwrap().to_owned();
    first.reply().expect(201);
    let present = put(&[("if-none-match", "*")], b"two").reply();
    present.problem(412, "present");
    assert_eq!(present.header("etag"), Some(first_tag.as_str()));
    let second = put(&[("if-match", &first_tag)], b"two");
    let second_tag = second.header("etag").unwrap().to_owned();
    second.reply().expect(200);
    let current = second_tag.trim_matches('"').to_owned();
    for stale in [
        put(&[("if-match", &first_tag)], b"three").reply(),
        client.send("DELETE", &at, &[("if-match", &first_tag)], None),
    ] {
        let detail = stale.problem(412, "stale");
        assert!(detail.contains(&current), "{detail}");
        assert_eq!(stale.json()["current"], current);
        assert_eq!(stale.header("etag"), Some(second_tag.as_str()));
    }
    client.bytes("PUT", &path(&session, "none"), &[("if-match", "*")], b"x").reply().problem(412, "stale");
    assert_eq!(get(&server, &session, "a", &[]).expect(200), b"two");
    let unchanged = get(&server, &session, "a", &[("if-none-match", &format!("\"x\", {second_tag}"))]);
    assert_eq!((unchanged.status, unchanged.bytes.len()), (304, 0));
    assert_eq!(unchanged.header("etag"), Some(second_tag.as_str()));
    assert_eq!(get(&server, &session, "a", &[("if-none-match", &first_tag)]).expect(200), b"two");
    put(&[("if-match", "\"a\", \"b\"")], b"x").reply().problem(400, "invalid_request");
    put(&[("if-none-match", &first_tag)], b"x").reply().problem(400, "invalid_request");
    assert_eq!(client.send("DELETE", &at, &[("if-match", &second_tag)], None).status, 204);
}

fn ranges(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "a", b"0123456789");
    let ask = |range: &str| get(&server, &session, "a", &[("range", range)]);
    for (range, bytes, content_range) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=5-500", "56789", "bytes 5-9/10"),
    ] {
        let reply = ask(range);
        assert_eq!(reply.header("content-range"), Some(content_range));
        assert_eq!(reply.header("content-length"), Some(bytes.len().to_string().as_str()));
        assert_eq!(reply.expect(206), bytes.as_bytes());
    }
    for outside in ["bytes=10-", "bytes=-0"] {
        let reply = ask(outside).reply();
        reply.problem(416, "range_not_satisfiable");
        assert_eq!(reply.header("content-range"), Some("bytes */10"));
    }
    for whole in ["bytes=0-1,4-5", "bytes=5-2", "rows=1-2"] {
        assert_eq!(ask(whole).expect(200), b"0123456789");
    }
    let old = get(&server, &session, "a", &[("range", "bytes=0-1"), ("if-range", "\"another\"")]);
    assert_eq!(old.expect(200), b"0123456789");
}

fn directories_are_listings_and_tars(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "d/b.txt?mkdir=1", b"bee");
    put(&server, &session, "d/sub/a?mkdir=1", b"ay");
    let client = server.client();
    let root = client.get(path(&session, "").trim_end_matches('/')).expect(200);
    assert_eq!(root, client.get(&path(&session, "")).expect(200));
    assert_eq!(root["path"], "/");
    let listing = client.get(&path(&session, "d")).expect(200);
    let entries: Vec<(&str, &str, u64)> = (listing["entries"].as_array().unwrap().iter())
        .map(|e| (e["path"].as_str().unwrap(), e["kind"].as_str().unwrap(), e["size"].as_u64().unwrap()))
        .collect();
    assert_eq!(entries, [("d/b.txt", "file", 3), ("d/sub", "directory", 0)]);
    let tar = get(&server, &session, "d?format=tar", &[]);
    assert_eq!(tar.header("content-type"), Some("application/x-tar"));
    let tar = tar.expect(200);
    let mut names = Vec::new();
    for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
        names.push(entry.unwrap().path().unwrap().to_string_lossy().into_owned());
    }
    assert_eq!(names, ["b.txt", "sub", "sub/a"]);
    get(&server, &session, "d/b.txt?format=tar", &[]).reply().problem(409, "conflict");
    // The tar unpacks into a new directory; unpacking it there again conflicts with its own files.
    let into = path(&session, "copy?format=tar");
    client.bytes("PUT", &into, &[], &tar).reply().expect(200);
    assert_eq!(get(&server, &session, "copy/sub/a", &[]).expect(200), b"ay");
    client.bytes("PUT", &into, &[], &tar).reply().problem(409, "conflict");
    client.bytes("PUT", &into, &[], b"no archive at all").reply().problem(422, "archive_refused");
    assert_eq!(client.delete(&path(&session, "d")).status, 204);
    get(&server, &session, "d/sub/a", &[]).reply().problem(404, "not_found");
}

fn a_session_token_has_the_files_its_tools_allow(files: Files) {
    let server = files.server();
    server.agent_type("r", json!({"enabled": true, "provider": files.provider(), "tools": ["read"]}));
    server.agent_type("l", json!({"enabled": true, "provider": files.provider(), "tools": ["ls", "rm"]}));
    for (agent_type, allowed, refused) in [
        ("r", ["GET a"].as_slice(), ["GET ", "PUT a", "DELETE a"].as_slice()),
        ("l", &["GET ", "DELETE a"], &["GET a", "PUT a"]),
    ] {
        let session = server.session(json!({"agent_type": agent_type}));
        put(&server, &session, "a", b"x");
        let agent = server.client().with_token(session["token"].as_str().unwrap());
        for ask in refused {
            let (method, at) = ask.split_once(' ').unwrap();
            let body: &[u8] = if method == "PUT" { b"y" } else { b"" };
            agent.bytes(method, &path(&session, at), &[], body).reply().problem(403, "tool_not_enabled");
        }
        for ask in allowed {
            let (method, at) = ask.split_once(' ').unwrap();
            assert!(agent.bytes(method, &path(&session, at), &[], b"").status < 300, "{agent_type} {ask}");
        }
        let other = writer_of(&server, agent_type);
        agent.bytes("GET", &path(&other, "a"), &[], b"").reply().problem(404, "not_found");
        let refusals = server.client().get(&format!("/audit?type=refusal&session={}", session["id"].as_str().unwrap()));
        assert_eq!(refusals.expect(200)["items"].as_array().unwrap().len(), refused.len());
    }
}

fn writer_of(server: &TestServer, agent_type: &str) -> Value {
    server.session(json!({"agent_type": agent_type}))
}

fn a_session_that_is_not_active_has_no_files(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    assert_eq!(server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).status, 204);
    get(&server, &session, "a", &[]).reply().problem(409, "session_not_active");
    server.client().bytes("PUT", &path(&session, "a"), &[], b"x").reply().problem(409, "session_not_active");
}

/// A large file that is generated while it is read: one block repeated, each time with its own
/// number.
struct Numbered {
    block: Vec<u8>,
    position: u64,
    size: u64,
}

impl Numbered {
    const BLOCK: u64 = 64 * 1024;

    fn new(size: u64) -> Self {
        let block = (0..Self::BLOCK).map(|number| ((number * 131) >> 3) as u8).collect();
        Self { block, position: 0, size }
    }
}

impl Read for Numbered {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let within = usize::try_from(self.position % Self::BLOCK).unwrap();
        self.block[..8].copy_from_slice(&(self.position / Self::BLOCK).to_le_bytes());
        let left = usize::try_from(self.size - self.position).unwrap();
        let count = buffer.len().min(self.block.len() - within).min(left);
        buffer[..count].copy_from_slice(&self.block[within..within + count]);
        self.position += count as u64;
        Ok(count)
    }
}

fn resident_mib(server: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().unwrap())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[expect(clippy::print_stdout, reason = "prints figures for a run with --nocapture; the test does not check them")]
fn three_hundred_mebibytes_up_and_down(files: Files) {
    const SIZE: u64 = 300 << 20;
    let server = files.server();
    let session = writer(&server, files);
    let before = resident_mib(&server);
    let blob = server.client().upload("POST", "/blobs", Numbered::new(SIZE)).expect(201);
    assert_eq!(blob["bytes"], SIZE);
    let uploaded = resident_mib(&server);
    let digest = blob["digest"].as_str().unwrap();
    let mut expected = Numbered::new(SIZE);
    let mut piece = Vec::new();
    let downloaded = server.client().download(&format!("/blobs/{digest}"), |bytes| {
        piece.resize(bytes.len(), 0);
        expected.read_exact(&mut piece).unwrap();
        assert!(piece == bytes, "the bytes are others");
    });
    assert_eq!(downloaded, SIZE);
    let after = resident_mib(&server);
    // A memory workspace keeps its files in memory, but only one copy.
    let put = server.client().upload("PUT", &path(&session, "large"), Numbered::new(SIZE)).expect(201);
    assert_eq!(put["hash"], blob["digest"]);
    std::thread::sleep(Duration::from_millis(200));
    let held = resident_mib(&server);
    assert_eq!(server.client().download(&path(&session, "large"), |_| {}), SIZE);
    let read = resident_mib(&server);
    println!(
        "resident: {before} MiB, blob up {uploaded}, blob down {after}, in a memory workspace {held}, read {read}"
    );
    assert!(after < before + 100, "a blob goes through in constant memory: {before} MiB, then {after}");
}

on_both!(
    bytes_come_back_as_they_went,
    missing_parents_are_made_on_request_only,
    paths_are_decoded_once_and_never_climb,
    if_match_and_if_none_match,
    ranges,
    directories_are_listings_and_tars,
    a_session_token_has_the_files_its_tools_allow,
    a_session_that_is_not_active_has_no_files,
    three_hundred_mebibytes_up_and_down
);

on_podman!(
    bytes_come_back_as_they_went,
    missing_parents_are_made_on_request_only,
    paths_are_decoded_once_and_never_climb,
    if_match_and_if_none_match,
    ranges,
    directories_are_listings_and_tars,
    a_session_token_has_the_files_its_tools_allow,
    a_session_that_is_not_active_has_no_files
);

#[test]
fn a_put_to_the_root_has_the_same_error_for_every_caller_and_spelling() {
    let server = Files::Memory.server();
    let session = writer(&server, Files::Memory);
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    let root = format!("/sessions/{}/files", session["id"].as_str().unwrap());
    for client in [server.client(), &agent] {
        for path in [root.clone(), format!("{root}/")] {
            let reply = client.bytes("PUT", &path, &[], b"x").reply();
            assert_eq!(reply.invalid_fields(), ["format"], "{path}");
        }
    }
    // Control: both may write below the root.
    assert_eq!(agent.bytes("PUT", &format!("{root}/a"), &[], b"x").reply().status, 201);
}
