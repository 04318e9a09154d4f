//! A session token cannot make the server store more on its own disk than the session's disk limit.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use crate::rows::{Files, server_with};

const TERABYTE: u64 = 1 << 40;

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

fn limited(server: &TestServer, files: Files, disk: &str) -> Value {
    let workspace = json!({"enabled": true, "provider": files.provider(), "workspace_policy": "empty",
        "require_workspace": true, "resource_limits": {"disk": disk}});
    server.agent_type("d", workspace);
    let session = server.session(json!({"agent_type": "d"}));
    assert_eq!(session["status"], "active", "{session}");
    session
}

#[track_caller]
fn bash(server: &TestServer, session: &Value, command: &str) {
    let answer = server.tool(session, "bash", json!({"command": command}));
    assert_eq!((&answer["ok"], &answer["result"]["exit_code"]), (&json!(true), &json!(0)), "{answer}");
}

fn blob_files(home: &Path) -> Vec<String> {
    let Ok(shelves) = std::fs::read_dir(home.join("blobs/sha256")) else { return Vec::new() };
    let files = shelves.flat_map(|shelf| std::fs::read_dir(shelf.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

fn a_sparse_terabyte_is_exported_as_its_data(files: Files) {
    let server = files.server();
    let session = limited(&server, files, "32M");
    bash(
        &server,
        &session,
        "printf start > big; printf middle | dd of=big bs=1M seek=1000 2>/dev/null; truncate -s 1T big 2>/dev/null; \
         dd if=/dev/null of=hole bs=4096 seek=1 2>/dev/null; head -c 1000000 /dev/zero | tr '\\0' x > dense; printf small > small",
    );
    let mut tar = Vec::new();
    server.client().download(&path(&session, "/export?format=tar"), |piece| tar.extend_from_slice(piece));
    assert!(tar.len() < 2 << 20, "the holes are not in the tar: {} bytes", tar.len());

    // GNU tar extracts the same files, including their holes.
    let scratch = tempfile::tempdir().unwrap();
    let mut unpack = Command::new("tar").args(["-x", "-C"]).arg(scratch.path()).stdin(Stdio::piped()).spawn().unwrap();
    unpack.stdin.take().unwrap().write_all(&tar).unwrap();
    assert!(unpack.wait().unwrap().success());
    let big = std::fs::File::open(scratch.path().join("big")).unwrap();
    let facts = big.metadata().unwrap();
    // The container image has no `truncate`, so its file ends where `dd` wrote.
    let length = if files == Files::Disk { TERABYTE } else { (1000 << 20) + 6 };
    assert_eq!(facts.len(), length);
    assert!(facts.blocks() * 512 < 1 << 20, "{} blocks", facts.blocks());
    let mut read = [0; 6];
    std::os::unix::fs::FileExt::read_exact_at(&big, &mut read, 1000 << 20).unwrap();
    assert_eq!(&read, b"middle");
    assert_eq!(std::fs::read(scratch.path().join("hole")).unwrap(), vec![0; 4096]);
    // The control: dense data is complete.
    assert_eq!(std::fs::read(scratch.path().join("dense")).unwrap(), vec![b'x'; 1_000_000]);
    assert_eq!(std::fs::read(scratch.path().join("small")).unwrap(), b"small");

    // A single file of that size is refused and not copied to the server's disk.
    if files == Files::Disk {
        let refused = server.client().bytes("GET", &path(&session, "/files/big"), &[], b"").reply();
        refused.problem(409, "conflict");
    }
    assert_eq!(server.client().bytes("GET", &path(&session, "/files/hole"), &[], b"").expect(200), vec![0; 4096]);
}

/// Number of pipes and of unlinked files that the server has open.
fn open_files(server: &TestServer) -> (usize, usize) {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", server.pid().unwrap())).unwrap();
    let targets: Vec<String> =
        fds.filter_map(|fd| Some(std::fs::read_link(fd.ok()?.path()).ok()?.to_string_lossy().into_owned())).collect();
    let count = |wanted: &dyn Fn(&str) -> bool| targets.iter().filter(|target| wanted(target)).count();
    (count(&|target| target.starts_with("pipe:")), count(&|target| target.ends_with(" (deleted)")))
}

fn an_export_is_not_spooled_and_ends_with_its_client(files: Files) {
    let server = files.server();
    let session = limited(&server, files, "64M");
    let bytes = vec![0xee; 1 << 20];
    for number in 0..16 {
        let file = path(&session, &format!("/files/f{number}"));
        server.client().bytes("PUT", &file, &[], &bytes).expect(201);
    }
    let (pipes, spools) = open_files(&server);
    let address = server.client().base().trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let mut client = TcpStream::connect(&address).unwrap();
    let token = std::fs::read_to_string(server.home().join("token")).unwrap();
    write!(
        client,
        "GET /api/v1{} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
        path(&session, "/files?format=tar"),
        token.trim()
    )
    .unwrap();
    let mut start = [0; 4096];
    client.read_exact(&mut start).unwrap();
    assert!(start.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&start));
    // The control: the export blocks on its client through a pipe, without a temporary file.
    let (waiting, spooled) = open_files(&server);
    assert!(waiting > pipes, "{waiting} pipes, {pipes} before");
    assert_eq!(spooled, spools, "no unlinked file");
    drop(client);
    until("the export to end with its client", || (open_files(&server).0 <= pipes).then_some(()));
    // A complete export still works.
    assert!(server.client().download(&path(&session, "/files?format=tar"), |_| ()) > 16 << 20);
}

#[test]
fn a_box_keeps_no_bytes_of_uploads_that_it_has_or_refused() {
    let server = Files::Disk.server();
    let session = limited(&server, Files::Disk, "32M");
    let (client, file) = (server.client(), path(&session, "/files/a.bin"));
    for number in 0..3 {
        client.bytes("PUT", &file, &[], &vec![0xf0 + number; 1 << 20]).reply();
    }
    client.bytes("PUT", &file, &[("if-match", "\"sha256:no\"")], &vec![0xe0; 1 << 20]).reply().problem(412, "stale");
    let detail = client.bytes("PUT", &file, &[], &vec![0xe1; 40 << 20]).reply().problem(409, "disk_limit");
    assert!(detail.contains("disk limit"), "{detail}");
    client
        .bytes("PUT", &path(&session, "/files/d?format=tar"), &[], &vec![0xe2; 1 << 20])
        .reply()
        .problem(422, "archive_refused");
    assert_eq!(blob_files(server.home()), Vec::<String>::new());
    assert_eq!(client.bytes("GET", &file, &[], b"").expect(200), vec![0xf2; 1 << 20], "the last that was taken");

    // The control: a session whose files are in the journal keeps the bytes.
    server.agent_type("m", json!({"enabled": true, "provider": "memory"}));
    let memory = server.session(json!({"agent_type": "m"}));
    client.bytes("PUT", &path(&memory, "/files/a.bin"), &[], &vec![0xee; 1 << 20]).expect(201);
    assert_eq!(blob_files(server.home()).len(), 1);
}

#[test]
fn blobs_that_nothing_names_go_while_the_server_runs() {
    let server = server_with(ServerOptions::default().env("STEAD_BLOB_GRACE_SECONDS", "1"));
    server.agent_type("m", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "m"}));
    let file = path(&session, "/files/a.bin");
    server.client().bytes("PUT", &file, &[], &vec![0xee; 100_000]).expect(201);
    let held = blob_files(server.home());
    let orphan = server.client().bytes("POST", "/blobs", &[], &vec![0xef; 100_000]).reply().expect(201);
    let orphan = format!("/blobs/{}", orphan["digest"].as_str().unwrap());
    until("the blob that nothing names to go", || {
        (server.client().bytes("GET", &orphan, &[], b"").status == 404).then_some(())
    });
    // The control: blobs that the session's journal names are still there.
    assert_eq!(blob_files(server.home()), held);
    assert_eq!(server.client().bytes("GET", &file, &[], b"").expect(200), vec![0xee; 100_000]);
}

mod disk {
    use super::*;

    #[test]
    fn a_sparse_terabyte_is_exported_as_its_data() {
        super::a_sparse_terabyte_is_exported_as_its_data(Files::Disk);
    }

    #[test]
    fn an_export_is_not_spooled_and_ends_with_its_client() {
        super::an_export_is_not_spooled_and_ends_with_its_client(Files::Disk);
    }
}

mod container {
    use super::*;

    #[test]
    fn a_sparse_terabyte_is_exported_as_its_data() {
        super::a_sparse_terabyte_is_exported_as_its_data(Files::Container);
    }
}

mod memory {
    use super::*;

    #[test]
    fn an_export_is_not_spooled_and_ends_with_its_client() {
        super::an_export_is_not_spooled_and_ends_with_its_client(Files::Memory);
    }
}
