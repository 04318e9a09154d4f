//! Tars that two readers could interpret differently are read like GNU tar does, or refused.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

use serde_json::Value;
use stead_testkit::TestServer;

use crate::rows::{Files, on_both, writer};

on_both!(sparse_files_come_out_whole, a_member_with_two_names_is_refused);

fn put(server: &TestServer, session: &Value, tar: &[u8]) -> stead_testkit::Reply {
    let path = format!("/sessions/{}/files/in?format=tar", session["id"].as_str().unwrap());
    server.client().bytes("PUT", &path, &[], tar).reply()
}

fn sparse_files_come_out_whole(files: Files) {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("holey")).unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    file.write_all_at(b"end", 3 << 20).unwrap();
    let made = Command::new("tar")
        .args(["--format=posix", "--sparse-version=1.0", "-S", "-cf", "-", "-C"])
        .arg(folder.path())
        .arg("holey")
        .output()
        .unwrap();
    assert!(made.stdout.len() < 1 << 20, "the tar has no holes, so nothing is tested: {}", made.stdout.len());
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, &made.stdout).expect(200);
    let path = format!("/sessions/{}/files/in/holey", session["id"].as_str().unwrap());
    let came = server.client().bytes("GET", &path, &[], b"").expect(200);
    assert!(came == fs::read(folder.path().join("holey")).unwrap(), "{} bytes", came.len());
}

fn a_member_with_two_names_is_refused(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let tar = |names: &[&str]| {
        let mut tar = tar::Builder::new(Vec::new());
        tar.append_pax_extensions(names.iter().map(|name| ("path", name.as_bytes()))).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(1);
        header.set_mode(0o644);
        tar.append_data(&mut header, "header", &b"x"[..]).unwrap();
        tar.into_inner().unwrap()
    };
    let detail = put(&server, &session, &tar(&["one", "two"])).problem(422, "archive_refused");
    assert!(detail.contains("path"), "{detail}");
    // The control: with a single name, the file gets the name of the extended header.
    put(&server, &session, &tar(&["one"])).expect(200);
    let path = format!("/sessions/{}/files/in/one", session["id"].as_str().unwrap());
    assert_eq!(server.client().get(&path).text, "x");
}
