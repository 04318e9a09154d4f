//! Images from local files: an import is atomic, both providers can use an image as a box's root,
//! and an image in use is kept.

use serde_json::{Value, json};
use stead_fs::ContentHash;
use stead_testkit::podman::{self, TOOLS};
use stead_testkit::{ServerOptions, TestServer};

use super::native::build_init;
use crate::rows::server_with;

pub(super) fn with_images() -> TestServer {
    build_init();
    let options = ServerOptions::default();
    server_with(options.env("PODMAN_BASE_URL", &podman::shared().url()).env("STEAD_PODMAN_IMAGE", TOOLS))
}

fn put(server: &TestServer, name: &str, archive: &[u8]) -> (u16, Value) {
    let reply = server.client().bytes("PUT", &format!("/images/{name}"), &[], archive).reply();
    (reply.status, serde_json::from_str(&reply.text).unwrap_or(Value::Null))
}

fn box_session(server: &TestServer, provider: &str, image: &str) -> Value {
    let limits = json!({"cpu": "1", "memory": "256M", "disk": "64M", "pids": 128});
    let config = json!({"enabled": true, "provider": provider, "workspace_policy": "empty", "require_workspace": true,
        "base_image": image, "resource_limits": limits});
    if server.client().get("/agent-types/i").status == 404 {
        server.agent_type("i", config);
    } else {
        server.client().put("/agent-types/i/workspace-config", config).expect(200);
    }
    let session = server.session(json!({"agent_type": "i"}));
    assert_eq!(
        (&session["status"], &session["workspace"]["provider"]),
        (&json!("active"), &json!(provider)),
        "{session}"
    );
    session
}

fn sh(server: &TestServer, session: &Value, command: &str) -> String {
    let answer = server.tool(session, "bash", json!({"command": command}));
    assert_eq!(answer["ok"], true, "{answer}");
    answer["result"]["stdout"].as_str().unwrap().to_owned()
}

fn close(server: &TestServer, session: &Value) {
    server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(204);
}

/// Names of the image trees that the server keeps.
fn trees(server: &TestServer) -> Vec<String> {
    let entries = std::fs::read_dir(server.home().join("layers")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("image-")).collect()
}

/// Returns true if this image was loaded into Podman.
fn lent(digest: &str) -> bool {
    let listed = podman::shared().run(&["images", "--format", "{{.Repository}}:{{.Tag}}"]);
    String::from_utf8_lossy(&listed.stdout).contains(digest.trim_start_matches("sha256:"))
}

enum Entry<'a> {
    File(&'a [u8], u32),
    Link(&'a str),
    Hard(&'a str),
    Device,
}
use Entry::{Device, File, Hard, Link};

/// Builds a tar without validating the names.
fn tar(entries: &[(&str, Entry<'_>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, entry) in entries {
        let mut header = tar::Header::new_gnu();
        let (kind, mode, link, bytes): (_, u32, &str, &[u8]) = match entry {
            File(bytes, mode) => (tar::EntryType::Regular, *mode, "", bytes),
            Link(target) => (tar::EntryType::Symlink, 0o777, target, &[]),
            Hard(target) => (tar::EntryType::Link, 0o644, target, &[]),
            Device => (tar::EntryType::Char, 0o600, "", &[]),
        };
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(bytes.len() as u64);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_link_name_literal(link).unwrap();
        header.set_cksum();
        builder.append(&header, bytes).unwrap();
    }
    builder.into_inner().unwrap()
}

fn busybox() -> Vec<u8> {
    let found = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find_map(|path| std::fs::read(path).ok());
    found.unwrap()
}

/// The first layer of every image in these tests.
fn bare() -> Vec<u8> {
    let program = busybox();
    let mut entries = vec![("usr/bin/busybox", File(&program, 0o755)), ("bin", Link("usr/bin"))];
    entries.extend(["sh", "cat", "ls", "echo", "env", "id"].map(|name| {
        let path: &str = match name {
            "sh" => "usr/bin/sh",
            "cat" => "usr/bin/cat",
            "ls" => "usr/bin/ls",
            "echo" => "usr/bin/echo",
            "env" => "usr/bin/env",
            _ => "usr/bin/id",
        };
        (path, Link("busybox"))
    }));
    entries.extend([("opt/old", File(b"old", 0o644)), ("opt/kept", File(b"kept", 0o644)), ("dev/null", Device)]);
    tar(&entries)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Builds an OCI archive of these layers; `spoil` may change a blob after its digest was computed.
fn oci(layers: &[Vec<u8>], spoil: impl Fn(&str, &mut Vec<u8>)) -> (Vec<u8>, String) {
    let mut blobs: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |kind: &str, media: &str, bytes: Vec<u8>| {
        let digest = ContentHash::of(&bytes).to_string();
        let descriptor = json!({"mediaType": media, "digest": digest, "size": bytes.len()});
        let mut kept = bytes;
        spoil(kind, &mut kept);
        blobs.push((format!("blobs/sha256/{}", digest.trim_start_matches("sha256:")), kept));
        descriptor
    };
    let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []},
        "config": {"Env": ["PATH=/bin", "OF_IMAGE=yes \"quoted\" $HOME"]}});
    let config = add("config", "application/vnd.oci.image.config.v1+json", config.to_string().into_bytes());
    let media = "application/vnd.oci.image.layer.v1.tar+gzip";
    let layers: Vec<Value> = layers.iter().map(|layer| add("layer", media, gzip(layer))).collect();
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string();
    let manifest = add("manifest", "application/vnd.oci.image.manifest.v1+json", manifest.into_bytes());
    let digest = manifest["digest"].as_str().unwrap().to_owned();
    let index = json!({"schemaVersion": 2, "manifests": [manifest]}).to_string();
    let mut entries = vec![
        ("oci-layout", File(br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)),
        ("index.json", File(index.as_bytes(), 0o644)),
    ];
    // An empty blob is one that `spoil` removed.
    entries.extend(
        blobs.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(name, bytes)| (name.as_str(), File(bytes, 0o644))),
    );
    (tar(&entries), digest)
}

fn whole(layers: &[Vec<u8>]) -> (Vec<u8>, String) {
    oci(layers, |_, _| {})
}

fn a_tar_is_the_root_of_a_box_and_stays_while_one_has_it(provider: &str) {
    let server = with_images();
    let name = "local/bare:1";
    let (status, image) = put(&server, name, &gzip(&bare()));
    assert_eq!((status, &image["left_out"]), (201, &json!(1)), "{image}");
    let session = box_session(&server, provider, name);
    let workspace = &session["workspace"];
    assert_eq!(workspace["image"], json!({"reference": name, "digest": image["digest"]}), "{session}");
    let seen = sh(&server, &session, "cat /opt/old; id -u; ls / | cat; echo x > /opt/new");
    assert!(seen.starts_with("old1000\n") && !seen.contains("boot") && seen.contains("workspace"), "{seen}");
    let refused = server.client().delete(&format!("/images/{name}")).expect(409);
    assert_eq!(refused["code"], "image_in_use", "{refused}");
    // Another name for the same bytes can be deleted.
    assert_eq!(put(&server, "other", &gzip(&bare())).0, 201);
    server.client().delete("/images/other").expect(204);
    assert_eq!(sh(&server, &session, "cat /opt/kept"), "kept");
    close(&server, &session);
    server.client().delete(&format!("/images/{name}")).expect(204);
    server.client().delete(&format!("/images/{name}")).expect(404);
    assert_eq!(server.client().get("/images").expect(200)["items"], json!([]));
    assert_eq!(trees(&server), Vec::<String>::new());
    assert!(provider != "podman" || !lent(image["digest"].as_str().unwrap()), "Podman keeps a copy");
    let failed = server.session(json!({"agent_type": "i"}));
    assert_eq!(failed["workspace"]["failures"][0]["code"], "image_missing", "{failed}");
}

#[test]
fn x7_a_tar_is_the_root_of_a_native_box() {
    a_tar_is_the_root_of_a_box_and_stays_while_one_has_it("native");
}

#[test]
fn x7_a_tar_is_the_root_of_a_podman_box() {
    a_tar_is_the_root_of_a_box_and_stays_while_one_has_it("podman");
}

#[test]
fn x7_layers_of_an_oci_archive_lie_over_each_other_the_same_on_both() {
    let server = with_images();
    let upper = tar(&[
        ("opt/.wh.old", File(b"", 0o644)),
        ("bin/hello", File(b"#!/bin/sh\necho from upper", 0o755)),
        ("opt/again", Hard("usr/bin/hello")),
        ("gone/x", File(b"x", 0o644)),
    ]);
    let top = tar(&[("gone/.wh..wh..opq", File(b"", 0o644)), ("gone/y", File(b"y", 0o644))]);
    let (archive, digest) = whole(&[bare(), upper, top]);
    let (status, image) = put(&server, "layered", &archive);
    assert_eq!((status, &image["digest"]), (201, &json!(digest)), "{image}");
    for provider in ["native", "podman"] {
        let session = box_session(&server, provider, "layered");
        assert_eq!(session["workspace"]["image"]["digest"], json!(digest), "{session}");
        let seen = sh(&server, &session, "ls /opt; ls /gone; hello; sh /opt/again; echo \"$OF_IMAGE\"");
        assert_eq!(seen, "again\nkept\ny\nfrom upper\nfrom upper\nyes \"quoted\" $HOME\n", "{provider}");
        close(&server, &session);
    }
    // A pinned reference matches that image only.
    let session = box_session(&server, "native", &format!("layered@{digest}"));
    close(&server, &session);
    put(&server, "layered", &bare());
    let failed = server.session(json!({"agent_type": "i"}));
    assert_eq!(failed["workspace"]["failures"][0]["code"], "image_missing", "{failed}");
}

#[test]
fn x7_a_name_that_moves_moves_no_box() {
    let mut server = with_images();
    assert_eq!(put(&server, "moving", &bare()).0, 201);
    let before = box_session(&server, "native", "moving");
    let (status, image) = put(&server, "moving", &root_saying("new"));
    assert_eq!(status, 200, "{image}");
    server.restart(None);
    assert_eq!(sh(&server, &before, "cat /opt/old"), "old");
    // A restarted box gets the same root.
    server.tool(&before, "write", json!({"path": "a", "content": "a"}));
    let kept = server.client().post(&format!("/sessions/{}/snapshots", before["id"].as_str().unwrap()), json!({}));
    kept.expect(201);
    assert_eq!(sh(&server, &before, "cat /opt/old"), "old");
    let after = box_session(&server, "native", "moving");
    assert_eq!(after["workspace"]["image"]["digest"], image["digest"]);
    assert_eq!(sh(&server, &after, "cat /opt/old"), "new");
    close(&server, &before);
    close(&server, &after);
}

/// A root in which `/opt/old` contains this word.
pub(super) fn root_saying(word: &str) -> Vec<u8> {
    tar(&[("opt/old", File(word.as_bytes(), 0o644)), ("bin/sh", File(&busybox(), 0o755)), ("bin/cat", Link("sh"))])
}

fn a_clone_has_the_image_of_its_source(provider: &str, name: &str, mut means: impl FnMut(&TestServer, &str)) {
    let server = with_images();
    means(&server, "old");
    let source = box_session(&server, provider, name);
    means(&server, "new");
    let other = box_session(&server, provider, name);
    assert_eq!(sh(&server, &other, "cat /opt/old"), "new");
    // The image is part of the fingerprint: the name is the same, the bytes are not.
    let fingerprint = |session: &Value| session["workspace"]["fingerprint"].clone();
    assert_ne!(fingerprint(&other), fingerprint(&source));
    assert_eq!(fingerprint(&box_session(&server, provider, name)), fingerprint(&other), "equal for equal");
    let path = |session: &Value| format!("/sessions/{}/clone?wait=60", session["id"].as_str().unwrap());
    let clone =
        |of: &Value| server.client().post(&path(of), json!({"isolation": "full"})).expect(201)["items"][0].clone();
    let first = clone(&source);
    close(&server, &source);
    // The same holds for a clone of a clone.
    for session in [&first, &clone(&first)] {
        assert_eq!(session["status"], "active", "{session}");
        assert_eq!(session["workspace"]["image"], source["workspace"]["image"], "{session}");
        assert_eq!(fingerprint(session), fingerprint(&source), "{session}");
        assert_eq!(sh(&server, session, "cat /opt/old"), "old");
    }
}

#[test]
fn x7_a_clone_has_the_imported_image_of_its_source() {
    for provider in ["native", "podman"] {
        let import = |server: &TestServer, word: &str| {
            assert!([200, 201].contains(&put(server, "moving", &root_saying(word)).0));
        };
        a_clone_has_the_image_of_its_source(provider, "moving", import);
    }
}

#[test]
fn x7_a_clone_has_the_podman_image_of_its_source() {
    let name = format!("localhost/stead-test/moving-{}:1", std::process::id());
    let scratch = tempfile::tempdir().unwrap();
    a_clone_has_the_image_of_its_source("podman", &name, |_, word| {
        let file = scratch.path().join(word);
        std::fs::write(&file, root_saying(word)).unwrap();
        let made = podman::shared().run(&["import", "--quiet", file.to_str().unwrap(), &name]);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    });
    podman::shared().run(&["rmi", "--force", &name]);
}

#[test]
fn s9_a_server_killed_in_mid_import_leaves_nothing_and_imports_again() {
    let mut server = with_images();
    let names: Vec<String> = (0..20_000).map(|number| format!("d{}/f{number}", number % 50)).collect();
    let many: Vec<(&str, Entry<'_>)> = names.iter().map(|name| (name.as_str(), File(b"x", 0o644))).collect();
    let archive = tar(&many);
    let making = server.home().join("layers/.making");
    let busy = || std::fs::read_dir(&making).is_ok_and(|mut entries| entries.next().is_some());
    std::thread::scope(|scope| {
        let client = server.client().clone();
        let archive = &archive;
        scope.spawn(move || drop(client.try_bytes("PUT", "/images/many", &[], archive)));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !busy() {
            assert!(std::time::Instant::now() < deadline, "the import never began");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        server.kill();
    });
    assert!(busy(), "killed in the middle");
    server.restart(None);
    assert_eq!(server.client().get("/images").expect(200)["items"], json!([]));
    assert!(!busy() && trees(&server).is_empty(), "{:?}", trees(&server));
    let (status, image) = put(&server, "many", &archive);
    assert_eq!((status, &image["files"]), (201, &json!(20_000)), "{image}");
    assert_eq!(put(&server, "many", &archive).0, 200);
    server.client().delete("/images/many").expect(204);
    assert!(!busy() && trees(&server).is_empty(), "{:?}", trees(&server));
}

#[test]
fn x7_what_is_hostile_or_damaged_is_refused_whole() {
    let server = with_images();
    let outside = tempfile::tempdir().unwrap();
    let canary = outside.path().join("canary");
    std::fs::write(&canary, "untouched").unwrap();
    let through = format!("out{}", canary.display());
    let spoiled = |kind: &'static str, with: &'static [u8]| {
        oci(&[bare()], move |this, bytes| {
            if this == kind {
                *bytes = with.to_vec();
            }
        })
        .0
    };
    let down = "d/".repeat(45);
    let deeper = ["a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/e", "a/b/c/d/e/f"].map(|name| (name, Link(&down)));
    for (what, archive) in [
        ("nothing", Vec::new()),
        ("no archive", b"hello".repeat(200)),
        ("climbs", tar(&[("../escape", File(b"x", 0o644))])),
        ("absolute", tar(&[("/etc/passwd", File(b"x", 0o644))])),
        ("a loop", tar(&[("a", Link("b")), ("b", Link("a")), ("a/x", File(b"x", 0o644))])),
        ("a link to nothing there", tar(&[("x", Hard("not/there"))])),
        ("cut short", bare()[..1000].to_vec()),
        ("cut short and packed", gzip(&bare())[..2000].to_vec()),
        ("takes its parent away", whole(&[bare(), tar(&[("opt/.wh...", File(b"", 0o644))])]).0),
        ("takes nothing away", whole(&[bare(), tar(&[("opt/.wh.", File(b"", 0o644))])]).0),
        ("a layer that is another", spoiled("layer", b"another")),
        ("a manifest that is another", spoiled("manifest", b"{}")),
        ("a configuration that is another", spoiled("config", b"{}")),
        ("no layer", spoiled("layer", b"")),
        ("no manifest", spoiled("manifest", b"")),
        ("a file below a file", tar(&[("a", File(b"x", 0o644)), ("a/b", File(b"x", 0o644))])),
        ("deeper with every link", tar(&deeper)),
    ] {
        let (status, answer) = put(&server, "hostile", &archive);
        assert_eq!((status, &answer["code"]), (422, &json!("image_refused")), "{what}: {answer}");
    }
    assert_eq!(server.client().get("/images").expect(200)["items"], json!([]));
    assert_eq!(trees(&server), Vec::<String>::new());
    // Links may point anywhere, but writes through them stay inside the image.
    let inside = tar(&[("out", Link("/")), ("up", Link("../../../..")), (through.as_str(), File(b"written", 0o644))]);
    let (status, image) = put(&server, "links", &inside);
    assert_eq!((status, &image["files"]), (201, &json!(1)), "{image}");
    assert_eq!(std::fs::read_to_string(&canary).unwrap(), "untouched");
    for name in ["%2e%2e", "A", "%2Fetc", "a@sha256:00", "a%00b"] {
        let (status, answer) = put(&server, name, &[]);
        assert_eq!((status, &answer["code"]), (400, &json!("invalid_request")), "{name}: {answer}");
    }
    let docker = tar(&[("manifest.json", File(br#"[{"Config":"c.json","Layers":["l/layer.tar"]}]"#, 0o644))]);
    let (_, answer) = put(&server, "docker", &docker);
    assert!(answer["detail"].as_str().unwrap().contains("--format oci-archive"), "{answer}");
}
