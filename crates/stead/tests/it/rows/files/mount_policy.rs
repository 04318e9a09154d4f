//! P8: a host directory as the workspace: a copy (`overlay`), read-only (`ro`) or writable (`rw`).
//! P4: all four policies end writable.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::boxes::native;
use crate::rows::{put, server};

struct Host {
    server: TestServer,
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("allowed/project/src")).unwrap();
        fs::create_dir_all(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("allowed/project/src/a.txt"), "host\n").unwrap();
        fs::write(folder.path().join("allowed/project/gone.txt"), "gone\n").unwrap();
        fs::write(folder.path().join("outside/secret"), "secret\n").unwrap();
        let server = server();
        native::build_init();
        let root = folder.path().join("allowed").to_str().unwrap().to_owned();
        let platform = json!({"allowed_host_roots": [root], "allowed_root_owned_mounts": [root]});
        server.client().put("/platform", platform).expect(200);
        server.agent_type("h", json!({"enabled": true, "provider": "native", "require_workspace": true}));
        Self { server, folder }
    }

    fn project(&self) -> std::path::PathBuf {
        self.folder.path().join("allowed/project")
    }

    /// Starts a session whose task asks for this directory.
    fn mount(&self, path: &Path, mode: Option<&str>) -> Value {
        let mut policy = json!({"type": "mount", "host_path": path.to_str().unwrap()});
        if let Some(mode) = mode {
            policy["mode"] = json!(mode);
        }
        self.server.session(json!({"agent_type": "h", "task": {"workspace_policy": policy}}))
    }

    #[track_caller]
    fn active(&self, mode: Option<&str>) -> Value {
        let session = self.mount(&self.project(), mode);
        assert_eq!(session["status"], "active", "{session}");
        let policy = &session["workspace"]["policy"];
        assert_eq!((&policy["policy"], &policy["source"]), (&json!("mount"), &json!("task")), "{session}");
        session
    }

    fn sh(&self, session: &Value, command: &str) -> (i64, String) {
        let answer = self.server.tool(session, "bash", json!({"command": command}));
        let result = &answer["result"];
        (result["exit_code"].as_i64().unwrap(), result["stdout"].as_str().unwrap().to_owned())
    }

    fn host(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.project().join(path)).ok()
    }
}

const CHANGE: &str = "echo agent > src/a.txt && rm gone.txt && echo new > new.txt";

#[test]
fn p8_overlay_is_the_default_and_changes_nothing_of_the_hosts() {
    let host = Host::new();
    for mode in [None, Some("overlay")] {
        let session = host.active(mode);
        assert_eq!(host.sh(&session, "cat src/a.txt gone.txt"), (0, "host\ngone\n".to_owned()));
        assert_eq!(host.sh(&session, CHANGE).0, 0);
        put(&host.server, &session, "put.bin", b"\0\x01");
        assert_eq!(host.sh(&session, "cat src/a.txt; ls"), (0, "agent\nnew.txt\nput.bin\nsrc\n".to_owned()));
        let diff = host.server.client().get(&format!("/sessions/{}/diff", session["id"].as_str().unwrap())).expect(200);
        assert_eq!(diff["changed"], json!(["gone.txt", "new.txt", "put.bin", "src/a.txt"]), "{diff}");
        host.server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(204);
        assert_eq!(
            (host.host("src/a.txt").as_deref(), host.host("gone.txt").as_deref()),
            (Some("host\n"), Some("gone\n"))
        );
        assert!(host.host("new.txt").is_none() && !host.project().join("put.bin").exists());
    }
    // Changes on the host after the start do not reach the session.
    let session = host.active(None);
    fs::write(host.project().join("src/a.txt"), "later\n").unwrap();
    assert_eq!(host.sh(&session, "cat src/a.txt"), (0, "host\n".to_owned()));
}

#[test]
fn p8_ro_can_be_read_and_not_written_by_any_door() {
    let host = Host::new();
    let session = host.active(Some("ro"));
    assert_eq!(host.sh(&session, "cat src/a.txt"), (0, "host\n".to_owned()));
    // The mount shows the directory itself, so the change is visible.
    fs::write(host.project().join("src/a.txt"), "later\n").unwrap();
    assert_eq!(host.sh(&session, "cat src/a.txt"), (0, "later\n".to_owned()));
    for command in ["echo x > src/a.txt", "rm gone.txt", "touch new.txt", "chmod 777 src", "mv src other"] {
        assert_ne!(host.sh(&session, command).0, 0, "{command}");
    }
    let written = host.server.tool(&session, "write", json!({"path": "new.txt", "content": "x"}));
    assert_eq!(written["ok"], false, "{written}");
    let edited =
        host.server.tool(&session, "edit", json!({"path": "gone.txt", "old_string": "gone", "new_string": "x"}));
    assert_eq!(edited["ok"], false, "{edited}");
    for (tool, arguments) in [
        ("move", json!({"source": "gone.txt", "destination": "other.txt"})),
        ("move", json!({"source": "src", "destination": "other"})),
        ("copy", json!({"source": "gone.txt", "destination": "other.txt"})),
        ("copy", json!({"source": "src", "destination": "other"})),
        ("mkdir", json!({"path": "other"})),
    ] {
        let refused = host.server.tool(&session, tool, arguments);
        assert_eq!(refused["error"]["code"], "read_only", "{tool}: {refused}");
    }
    let path = format!("/sessions/{}/files/new.txt", session["id"].as_str().unwrap());
    let put = host.server.client().bytes("PUT", &path, &[], b"x").reply();
    assert!(put.status >= 400, "{}", put.text);
    let names: Vec<_> = fs::read_dir(host.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(
        (host.host("gone.txt").as_deref(), host.host("src/a.txt").as_deref()),
        (Some("gone\n"), Some("later\n"))
    );
    let diff = host.server.client().get(&format!("/sessions/{}/diff", session["id"].as_str().unwrap())).expect(200);
    assert_eq!(diff["changed"], json!([]));
}

#[test]
fn p8_rw_is_the_hosts_own_directory() {
    let host = Host::new();
    let session = host.active(Some("rw"));
    assert_eq!(session["warnings"][0]["code"], "checkpoints_unavailable", "{session}");
    assert_eq!(host.active(Some("overlay"))["warnings"], json!([]));
    assert_eq!(host.sh(&session, CHANGE).0, 0);
    put(&host.server, &session, "put.bin", b"\0\x01");
    assert_eq!(host.host("src/a.txt").as_deref(), Some("agent\n"));
    assert!(host.host("gone.txt").is_none());
    assert_eq!(fs::read(host.project().join("put.bin")).unwrap(), b"\0\x01");
    host.server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(204);
    assert_eq!(host.host("new.txt").as_deref(), Some("new\n"), "what was written stays when the session goes");
}

#[test]
fn p8_only_what_is_inside_the_allowed_roots() {
    let host = Host::new();
    std::os::unix::fs::symlink(host.folder.path().join("outside"), host.folder.path().join("allowed/link")).unwrap();
    for (path, mode) in
        [("outside", "rw"), ("outside", "overlay"), ("allowed/link", "ro"), ("allowed/../outside", "rw")]
    {
        let path = host.folder.path().join(path);
        let policy = json!({"type": "mount", "host_path": path.to_str().unwrap(), "mode": mode});
        let body = json!({"agent_type": "h", "task": {"workspace_policy": policy}});
        let reply = host.server.client().post("/sessions?wait=30", body);
        let refused = reply.status >= 400 || reply.json()["status"] == "failed";
        assert!(refused, "{path:?} {mode}: {}", reply.text);
    }
    assert_eq!(fs::read_to_string(host.folder.path().join("outside/secret")).unwrap(), "secret\n");
}

#[test]
fn p4_all_four_policies_have_a_writable_directory() {
    let host = Host::new();
    let git = stead_testkit::GitServer::start();
    git.repository("app", &[("given", "1\n")]);
    let root = host.folder.path().join("allowed");
    let platform = json!({"allowed_host_roots": [root.to_str().unwrap()], "allowed_git_hosts": [git.host()]});
    host.server.client().put("/platform", platform).expect(200);
    let mut bundle = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    header.set_mode(0o644);
    bundle.append_data(&mut header, "given", &b"1\n"[..]).unwrap();
    let bundle = bundle.into_inner().unwrap();
    let stored = host.server.client().bytes("POST", "/blobs", &[], &bundle).reply().expect(201);
    let project = host.project();
    fs::write(project.join("given"), "1\n").unwrap();
    for (policy, given) in [
        (json!("empty"), false),
        (json!({"type": "git", "url": git.url("app")}), true),
        (json!({"type": "mount", "host_path": project.to_str().unwrap()}), true),
        (json!({"type": "bundle", "source": {"blob": stored["digest"]}}), true),
    ] {
        let session = host.server.session(json!({"agent_type": "h", "task": {"workspace_policy": policy}}));
        assert_eq!(session["status"], "active", "{session}");
        let (code, _) = host.sh(&session, "touch /workspace/made && test -w /workspace");
        assert_eq!(code, 0, "{policy}");
        assert_eq!(host.sh(&session, "cat given 2>/dev/null").1, if given { "1\n" } else { "" }, "{policy}");
        host.server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(204);
    }
}
