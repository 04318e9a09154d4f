//! A box gets host directories only from inside the allowed roots, even if their path changes
//! during the start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::rows::boxes::native;
use crate::rows::server;

const CANARY: &str = "outside the roots";

/// Few rounds, because each creates a session. `stead-fs` repeats the same race thousands of times.
const ROUNDS: usize = 8;
/// An implementation that opens the path twice loses the race in about one of fifty starts.
const IMAGE_ROUNDS: usize = 60;

#[test]
fn a_host_directory_that_is_swapped_for_a_link_is_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    for (directory, content) in [(&root.join("project"), "inside"), (&outside, CANARY)] {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("file"), content).unwrap();
    }
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o700)).unwrap();
    let (project, link) = (root.join("project"), root.join("link"));
    symlink(&outside, &link).unwrap();
    native::build_init();
    let server = server();
    server.client().put("/platform", json!({"allowed_host_roots": [root.to_str().unwrap()]})).expect(200);
    server.agent_type("h", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let (done, mut seen) = (AtomicBool::new(false), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &link, CWD, &project, RenameFlags::EXCHANGE);
            }
        });
        for round in 0..ROUNDS {
            let mode = ["overlay", "ro"][round % 2];
            let policy = json!({"type": "mount", "host_path": project.to_str().unwrap(), "mode": mode});
            let reply = server
                .client()
                .post("/sessions?wait=30", json!({"agent_type": "h", "task": {"workspace_policy": policy}}));
            if reply.status == 201 && reply.json()["status"] == "active" {
                let path = format!("/sessions/{}/files/file", reply.json()["id"].as_str().unwrap());
                seen.push(server.client().get(&path).text);
            }
        }
        // The control: opening the path without the server's checks leads outside.
        let naive = (0..100_000).any(|_| fs::read_to_string(project.join("file")).is_ok_and(|text| text == CANARY));
        done.store(true, Ordering::Relaxed);
        assert!(naive, "the control never read the canary, so the race proves nothing");
    });
    assert!(seen.iter().all(|text| !text.contains(CANARY)), "{seen:?}");
}

/// Creates a directory that a box can use as its root: a shell with its libraries.
fn small_root(at: &Path) {
    for directory in ["bin", "lib64", "lib"] {
        fs::create_dir_all(at.join(directory)).unwrap();
    }
    let listed = Command::new("ldd").arg("/bin/bash").output().unwrap();
    let libraries = String::from_utf8(listed.stdout).unwrap();
    let words = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    for file in words.chain(["/bin/bash"]) {
        let to = at.join(file.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }
    fs::write(at.join("marker"), "of this root").unwrap();
}

#[test]
fn a_base_image_that_is_a_host_directory_needs_an_allowed_root() {
    let folder = tempfile::tempdir().unwrap();
    let (allowed, outside) = (folder.path().join("allowed"), folder.path().join("outside"));
    small_root(&allowed.join("root"));
    small_root(&outside);
    symlink(&outside, allowed.join("link")).unwrap();
    native::build_init();
    let server = server();
    let config = |image: &str| {
        json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "require_workspace": true,
            "base_image": image})
    };
    server.agent_type("i", config("/"));
    let set = |image: &Path| {
        server.client().put("/agent-types/i/workspace-config", config(image.to_str().unwrap())).expect(200);
    };
    let refused = || {
        for path in ["/sessions?wait=30", "/sessions:plan"] {
            let detail = server.client().post(path, json!({"agent_type": "i"})).problem(422, "base_image_refused");
            assert!(detail.contains("allowed_host_roots"), "{detail}");
        }
    };
    for image in [Path::new("/"), Path::new("/etc"), &allowed.join("root"), &allowed.join("../outside")] {
        set(image);
        refused();
    }
    server.client().put("/platform", json!({"allowed_host_roots": [allowed.to_str().unwrap()]})).expect(200);
    for image in [Path::new("/"), &outside, &allowed.join("../outside")] {
        set(image);
        refused();
    }
    // The path is inside by name but leads outside. The server notices when it opens it.
    set(&allowed.join("link"));
    let session = server.session(json!({"agent_type": "i"}));
    assert_eq!(session["status"], "failed", "{session}");
    assert!(session.to_string().contains("base_image_refused"), "{session}");
    // The control: a directory inside becomes the root of the box, and the session names it.
    set(&allowed.join("root"));
    let session = server.session(json!({"agent_type": "i"}));
    assert_eq!(session["status"], "active", "{session}");
    let named: &Value = &session["workspace"]["image"]["reference"];
    assert_eq!(named, allowed.join("root").to_str().unwrap(), "{session}");
    let answer = server.tool(&session, "bash", json!({"command": "echo \"$(</marker)\""}));
    assert_eq!(answer["result"]["stdout"], "of this root\n", "{answer}");
}

/// Swaps the directory above a base image with a link out of the roots while boxes start from it.
#[test]
fn a_base_image_below_a_directory_that_is_swapped_for_a_link_is_never_left() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    let (middle, link) = (root.join("middle"), root.join("link"));
    for (directory, content) in [(middle.join("image"), "inside"), (outside.join("image"), CANARY)] {
        small_root(&directory);
        fs::create_dir(directory.join("etc")).unwrap();
        fs::write(directory.join("etc/canary"), content).unwrap();
    }
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&outside, &link).unwrap();
    native::build_init();
    let server = server();
    server.client().put("/platform", json!({"allowed_host_roots": [root.to_str().unwrap()]})).expect(200);
    let image = middle.join("image");
    let config = json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "require_workspace": true,
        "base_image": image.to_str().unwrap()});
    server.agent_type("i", config);
    let (done, mut seen) = (AtomicBool::new(false), Vec::new());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &link, CWD, &middle, RenameFlags::EXCHANGE);
            }
        });
        for _ in 0..IMAGE_ROUNDS {
            let reply = server.client().post("/sessions?wait=30", json!({"agent_type": "i"}));
            if reply.status == 201 && reply.json()["status"] == "active" {
                let answer = server.tool(&reply.json(), "bash", json!({"command": "echo \"$(</etc/canary)\""}));
                seen.push(answer["result"]["stdout"].clone());
            }
        }
        // The control: opening the path without the server's checks leads outside.
        let naive = (0..100_000).any(|_| fs::read_to_string(image.join("etc/canary")).is_ok_and(|text| text == CANARY));
        done.store(true, Ordering::Relaxed);
        assert!(naive, "the control never read the canary, so the race proves nothing");
    });
    assert!(seen.iter().all(|text| *text == "inside\n"), "{seen:?}");
    // The control: without the race a box starts from the image.
    if fs::symlink_metadata(&middle).unwrap().is_symlink() {
        renameat_with(CWD, &link, CWD, &middle, RenameFlags::EXCHANGE).unwrap();
    }
    let session = server.session(json!({"agent_type": "i"}));
    let answer = server.tool(&session, "bash", json!({"command": "echo \"$(</etc/canary)\""}));
    assert_eq!(answer["result"]["stdout"], "inside\n", "{answer}");
}
