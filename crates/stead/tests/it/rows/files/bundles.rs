//! P7: workspaces that start from a bundle, either uploaded or read from a host path.

use std::io::Write;

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use crate::rows::{Files, on_both, server, server_with};

/// One entry of a hand-made tar, which may be malformed on purpose.
struct Raw {
    name: &'static str,
    kind: u8,
    target: &'static str,
    content: Vec<u8>,
}

fn file(name: &'static str, content: &[u8]) -> Raw {
    Raw { name, kind: b'0', target: "", content: content.to_vec() }
}

fn tar(entries: &[Raw]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        {
            let fields = header.as_gnu_mut().unwrap();
            fields.name[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
            fields.linkname[..entry.target.len()].copy_from_slice(entry.target.as_bytes());
            fields.typeflag = [entry.kind];
        }
        header.set_mode(0o644);
        header.set_size(entry.content.len() as u64);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&entry.content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn decent() -> Vec<u8> {
    tar(&[
        file("a.txt", b"ay\n"),
        Raw { name: "empty/", kind: b'5', target: "", content: Vec::new() },
        file("src/b", b"bee"),
    ])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zip() -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (name, content) in [("a.txt", "ay\n"), ("src/b", "bee")] {
        writer.start_file(name, options).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.add_directory("empty/", options).unwrap();
    writer.finish().unwrap().into_inner()
}

fn upload(server: &TestServer, bytes: &[u8]) -> String {
    let stored = server.client().bytes("POST", "/blobs", &[], bytes).reply().expect(201);
    assert_eq!(stored["bytes"], bytes.len());
    stored["digest"].as_str().unwrap().to_owned()
}

fn bundler(server: &TestServer, files: Files) {
    server.agent_type("b", json!({"enabled": true, "provider": files.provider()}));
}

fn session(server: &TestServer, policy: Value) -> Value {
    server.session(json!({"agent_type": "b", "task": {"workspace_policy": policy}}))
}

fn from_blob(server: &TestServer, bytes: &[u8]) -> Value {
    let digest = upload(server, bytes);
    session(server, json!({"type": "bundle", "source": {"blob": digest}}))
}

fn p7_every_format_from_an_upload(files: Files) {
    let server = server();
    bundler(&server, files);
    for bytes in [decent(), gzip(&decent()), zstd::encode_all(&decent()[..], 3).unwrap(), zip()] {
        let session = from_blob(&server, &bytes);
        assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(false)), "{session}");
        let paths = server.tool(&session, "glob", json!({"pattern": "**/*"}))["result"]["paths"].clone();
        assert_eq!(paths, json!(["a.txt", "src/b"]));
        let root = server.tool(&session, "ls", json!({}))["result"]["entries"].clone();
        assert!(root.to_string().contains("\"empty\""), "{root}");
        let digest = upload(&server, &bytes);
        assert_eq!(session["workspace"]["base"]["digest"], digest);
        let again = server.client().bytes("GET", &format!("/blobs/{digest}"), &[], &[]).expect(200);
        assert_eq!(again, bytes);
        let clean = server.client().get(&format!("/sessions/{}/diff", session["id"].as_str().unwrap())).expect(200);
        assert_eq!(clean["changed"], json!([]), "the bundle is the base");
    }
    server.client().get(&format!("/blobs/sha256:{}", "0".repeat(64))).problem(404, "not_found");
    server.client().get("/blobs/..%2f..%2ftoken").problem(404, "not_found");
}

fn p7_from_a_host_path_inside_the_roots(files: Files) {
    let server = server();
    bundler(&server, files);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let (inside, outside) = (folder.path().join("in/bundle.tgz"), folder.path().join("out.tar"));
    std::fs::write(&inside, gzip(&decent())).unwrap();
    std::fs::write(&outside, decent()).unwrap();
    std::os::unix::fs::symlink(&outside, folder.path().join("in/link.tar")).unwrap();
    let policy = |path: &std::path::Path| json!({"type": "bundle", "source": {"path": path}});
    let refused = |path: &std::path::Path| {
        let body = json!({"agent_type": "b", "task": {"workspace_policy": policy(path)}});
        server.client().post("/sessions", body).problem(422, "bundle_refused")
    };
    let detail = refused(&inside);
    assert!(detail.contains("No allowed host roots"), "{detail}");
    let roots = json!([folder.path().join("in")]);
    server.client().put("/platform", json!({"allowed_host_roots": roots})).expect(200);
    let made = session(&server, policy(&inside));
    assert_eq!(server.tool(&made, "read", json!({"path": "a.txt"}))["result"]["content"], "ay\n");
    for wrong in
        [outside, folder.path().join("in/link.tar"), folder.path().join("in/../out.tar"), folder.path().join("in/none")]
    {
        refused(&wrong);
    }
}

fn p7_what_is_refused_leaves_nothing(files: Files) {
    let server = server();
    bundler(&server, files);
    let special = |kind: u8| Raw { name: "device", kind, target: "", content: Vec::new() };
    let link = |target: &'static str| Raw { name: "link", kind: b'2', target, content: Vec::new() };
    let good = || file("good", b"fine");
    let bomb = gzip(&tar(&[good(), file("zeros", &vec![0; 64 << 20])]));
    let mut trailing = decent();
    trailing.extend_from_slice(b"and more");
    let mut cut = decent();
    cut.truncate(700);
    for (bytes, reason) in [
        (tar(&[good(), file("../out", b"x")]), "leads out of the workspace"),
        (tar(&[good(), file("a/../../out", b"x")]), "leads out of the workspace"),
        (tar(&[good(), file("/etc/out", b"x")]), "leads out of the workspace"),
        (tar(&[good(), link("../../etc/passwd")]), "leads out of the archive"),
        (tar(&[good(), link("/etc/passwd")]), "leads out of the archive"),
        (tar(&[good(), special(b'3')]), "is a device"),
        (tar(&[good(), special(b'6')]), "is a device"),
        (tar(&[good(), file("good", b"again")]), "is there twice"),
        (tar(&[good(), file("good/below", b"x")]), "contradicts another entry"),
        (bomb, "times the bytes of the archive"),
        (trailing, "after the end of the archive"),
        (cut, "archive"),
        (b"this is no archive".to_vec(), "not a tar, tar.gz, tar.zst or zip archive"),
    ] {
        let session = from_blob(&server, &bytes);
        assert_eq!((&session["degraded"], &session["workspace"]), (&json!(true), &Value::Null), "{reason}: {session}");
        let warnings = session["warnings"].to_string();
        assert!(warnings.contains(reason), "{reason}: {warnings}");
        let files = format!("/sessions/{}/files/good", session["id"].as_str().unwrap());
        server.client().get(&files).problem(404, "no_workspace");
    }
    let digest = upload(&server, &decent());
    let other = format!("sha256:{}", "1".repeat(64));
    let wrong = session(&server, json!({"type": "bundle", "source": {"blob": digest}, "digest": other}));
    assert!(wrong["warnings"].to_string().contains("the archive's digest is"), "{wrong}");
}

fn p7_a_start_taken_up_again_has_the_same_bundle(files: Files) {
    // The first two steps create the directory and unpack the bundle; the step after them hangs.
    let mut server = server_with(ServerOptions::default().failpoints("provision.step=2*off->sleep(60000)"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle.tar");
    std::fs::write(&path, decent()).unwrap();
    server.client().put("/platform", json!({"allowed_host_roots": [folder.path()]})).expect(200);
    bundler(&server, files);
    let task = json!({"workspace_policy": {"type": "bundle", "source": {"path": path}}, "context": {"pull_request_number": 7}});
    let session = server.client().post("/sessions", json!({"agent_type": "b", "task": task})).expect(201);
    let id = session["id"].as_str().unwrap().to_owned();
    let begun = |step: u64| {
        let at = format!("/sessions/{id}/events?limit=500");
        let events = server.client().send("GET", &at, &[("accept", "application/json")], None).expect(200);
        let mut events = events["items"].as_array().unwrap().clone().into_iter();
        events.any(|event| event["type"] == "InitStepStarted" && event["step"] == step)
    };
    until("the third step of the init plan begins", || begun(3).then_some(()));
    // The bundle is replaced while the server is down.
    server.kill();
    std::fs::write(&path, tar(&[file("other", b"another bundle")])).unwrap();
    server.restart(None);
    let settled = until("the session is provisioned", || {
        let session = server.client().get(&format!("/sessions/{id}")).expect(200);
        (session["status"] != "provisioning").then_some(session)
    });
    assert_eq!((&settled["status"], &settled["degraded"]), (&json!("active"), &json!(false)), "{settled}");
    let paths = server.tool(&settled, "glob", json!({"pattern": "**/*"}))["result"]["paths"].clone();
    assert_eq!(paths, json!(["a.txt", "src/b"]));
    assert_eq!(server.tool(&settled, "read", json!({"path": ".stead/task.json"}))["ok"], true);
}

on_both!(
    p7_every_format_from_an_upload,
    p7_from_a_host_path_inside_the_roots,
    p7_what_is_refused_leaves_nothing,
    p7_a_start_taken_up_again_has_the_same_bundle
);
