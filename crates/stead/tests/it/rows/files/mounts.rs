//! M1–M7: host mounts over HTTP.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::{Files, on_both, server};

/// A host directory that may be mounted, and one next to it that may not.
struct Host {
    server: TestServer,
    folder: tempfile::TempDir,
    made: std::cell::Cell<u32>,
    kept: Files,
}

impl Host {
    fn new(kept: Files) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for directory in ["allowed/project/src", "allowed/project/docs", "outside"] {
            fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        fs::write(folder.path().join("allowed/project/src/main.rs"), "fn main() {}\n").unwrap();
        fs::write(folder.path().join("allowed/project/docs/a.md"), "# a\n").unwrap();
        fs::write(folder.path().join("allowed/project/README"), "read me\n").unwrap();
        fs::write(folder.path().join("outside/secret"), "secret\n").unwrap();
        let host = Self { server: server(), folder, made: std::cell::Cell::new(0), kept };
        host.allow(&["allowed"]);
        host
    }

    fn path(&self, below: &str) -> String {
        self.folder.path().join(below).to_str().unwrap().to_owned()
    }

    fn allow(&self, roots: &[&str]) {
        let roots: Vec<String> = roots.iter().map(|root| self.path(root)).collect();
        self.server.client().put("/platform", json!({"allowed_host_roots": roots})).expect(200);
    }

    /// Starts a session of a new agent type with this one mount.
    fn mount(&self, mount: Value) -> Value {
        self.made.set(self.made.get() + 1);
        let id = format!("t{}", self.made.get());
        self.server.agent_type(&id, json!({"enabled": true, "provider": self.kept.provider(), "mounts": [mount]}));
        self.server.session(json!({"agent_type": id}))
    }

    fn files(&self, session: &Value) -> Value {
        self.server.tool(session, "glob", json!({"pattern": "**/*"}))["result"]["paths"].clone()
    }

    /// Asserts that the mount is refused before a session is created.
    #[track_caller]
    fn refused(&self, mount: Value, reason: &str) {
        self.made.set(self.made.get() + 1);
        let id = format!("t{}", self.made.get());
        self.server.agent_type(&id, json!({"enabled": true, "provider": self.kept.provider(), "mounts": [mount]}));
        let detail = self.server.client().post("/sessions", json!({"agent_type": id})).problem(422, "mount_refused");
        assert!(detail.contains(reason), "{detail}");
    }

    /// Asserts that the mount is refused during the copy: the session is degraded, has a warning
    /// and no workspace.
    #[track_caller]
    fn refused_at_provisioning(&self, mount: Value, reason: &str) {
        let session = self.mount(mount);
        assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(true)), "{session}");
        assert_eq!(session["workspace"], Value::Null);
        let warnings = session["warnings"].to_string();
        assert!(warnings.contains(reason), "{warnings}");
        let files = format!("/sessions/{}/files", session["id"].as_str().unwrap());
        self.server.client().get(&files).problem(404, "no_workspace");
    }
}

fn m1_fields_and_default_mount_path(files: Files) {
    let host = Host::new(files);
    let session = host.mount(json!({"host_path": host.path("allowed/project")}));
    assert_eq!(host.files(&session), json!(["project/README", "project/docs/a.md", "project/src/main.rs"]));
    let mount = &session["workspace"]["mounts"][0];
    assert_eq!(
        (&mount["mount_path"], &mount["files"], &mount["bytes_copied"]),
        (&json!("project"), &json!(3), &json!(25))
    );
    let session = host.mount(json!({
        "host_path": host.path("allowed/project"), "mount_path": "/workspace/code//here",
        "include_glob": ["*.rs", "*.md"], "exclude_glob": ["docs/**"],
    }));
    assert_eq!(host.files(&session), json!(["code/here/src/main.rs"]));
    // The mount is a copy.
    host.server.tool(
        &session,
        "edit",
        json!({"path": "code/here/src/main.rs", "old_string": "main", "new_string": "other"}),
    );
    assert_eq!(fs::read_to_string(host.path("allowed/project/src/main.rs")).unwrap(), "fn main() {}\n");
}

fn m2_only_from_allowed_roots(files: Files) {
    let host = Host::new(files);
    host.refused(json!({"host_path": host.path("outside")}), "is outside allowed roots");
    host.refused(json!({"host_path": host.path("allowed/../outside")}), "outside");
    host.refused(json!({"host_path": "/etc"}), "is outside allowed roots");
    host.refused(json!({"host_path": host.path("allowed/nothing")}), "Host path does not exist");
    host.allow(&[]);
    host.refused(json!({"host_path": host.path("allowed/project")}), "No allowed host roots configured for mounts.");
}

fn m3_links_are_not_followed_unless_they_stay_inside(files: Files) {
    let host = Host::new(files);
    let project = host.path("allowed/project");
    let link = |target: &str, name: &str| symlink(target, Path::new(&project).join(name)).unwrap();
    link("README", "inside");
    let session = host.mount(json!({"host_path": project}));
    assert_eq!(host.files(&session), json!(["project/README", "project/docs/a.md", "project/src/main.rs"]));
    assert_eq!(session["workspace"]["mounts"][0]["skipped"], 1);
    let session = host.mount(json!({"host_path": project, "follow_symlinks": true}));
    assert!(host.files(&session).to_string().contains("project/inside"));
    // The mount point itself is a symbolic link.
    symlink(&project, host.path("allowed/alias")).unwrap();
    host.refused(json!({"host_path": host.path("allowed/alias")}), "is a symbolic link");
    let session = host.mount(json!({"host_path": host.path("allowed/alias"), "follow_symlinks": true}));
    assert!(host.files(&session).to_string().contains("src/main.rs"));
    symlink(host.path("outside"), host.path("allowed/out")).unwrap();
    for follow in [false, true] {
        host.refused(json!({"host_path": host.path("allowed/out"), "follow_symlinks": follow}), "allowed/out");
    }
    link(&host.path("outside/secret"), "leak");
    host.refused_at_provisioning(json!({"host_path": project, "follow_symlinks": true}), "leads outside allowed roots");
    let session = host.mount(json!({"host_path": project}));
    assert!(!host.files(&session).to_string().contains("leak"));
}

fn m4_a_budget_is_all_or_nothing(files: Files) {
    let host = Host::new(files);
    let project = host.path("allowed/project");
    host.refused_at_provisioning(json!({"host_path": project, "max_bytes": 24}), "Mount exceeds byte budget: 25 > 24");
    host.refused_at_provisioning(json!({"host_path": project, "max_bytes": 0}), "Mount exceeds byte budget");
    let session = host.mount(json!({"host_path": project, "max_bytes": 25}));
    assert_eq!(host.files(&session).as_array().unwrap().len(), 3);
}

fn m5_a_mount_path_cannot_escape(files: Files) {
    let host = Host::new(files);
    let project = host.path("allowed/project");
    for escaping in ["../x", "a/../../x", "/..", "a/./b"] {
        let reason = format!("Mount path '{escaping}' escapes workspace directory");
        host.refused(json!({"host_path": project, "mount_path": escaping}), &reason);
    }
}

fn m6_previews_count_truly(files: Files) {
    let host = Host::new(files);
    fs::create_dir(host.path("allowed/many")).unwrap();
    for number in 0..35 {
        fs::write(host.path(&format!("allowed/many/f{number:02}")), "12345").unwrap();
    }
    let session = host.mount(json!({"host_path": host.path("allowed/many"), "mount_path": "deep/er"}));
    let mount = &session["workspace"]["mounts"][0];
    let shown = mount["entries"].as_array().unwrap();
    assert!(shown.len() < 35 && shown.is_sorted_by_key(|name| name.as_str().unwrap().to_owned()), "{mount}");
    assert_eq!(
        (&mount["mount_path"], &mount["total_entries"], &mount["files"], &mount["bytes_copied"]),
        (&json!("deep/er"), &json!(35), &json!(35), &json!(175))
    );
}

fn m7_the_fingerprint_changes_with_everything_and_with_nothing_else(files: Files) {
    let host = Host::new(files);
    let project = host.path("allowed/project");
    fs::create_dir_all(host.path("allowed/twin")).unwrap();
    let print = |mount: Value| {
        let session = host.mount(mount);
        let print = session["workspace"]["mount_fingerprint"].as_str();
        print.unwrap_or_else(|| panic!("{session}")).to_owned()
    };
    let plain = || json!({"host_path": project});
    let first = print(plain());
    assert_eq!(print(plain()), first);
    let mut seen = vec![first.clone()];
    for (field, value) in [
        ("mount_path", json!("elsewhere")),
        ("include_glob", json!(["*.rs", "*.md", "README"])),
        ("exclude_glob", json!(["nothing"])),
        ("max_bytes", json!(1000)),
        ("follow_symlinks", json!(true)),
        ("host_path", json!(host.path("allowed/twin"))),
    ] {
        let mut mount = plain();
        mount[field] = value;
        seen.push(print(mount));
    }
    fs::write(host.path("allowed/project/README"), "READ ME\n").unwrap();
    seen.push(print(plain()));
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count, "two of them are the same");
    fs::write(host.path("allowed/project/README"), "read me\n").unwrap();
    assert_eq!(print(plain()), first);
    let without = host.server.session(json!({"agent_type": "t1"}));
    assert_ne!(without["workspace"]["mount_fingerprint"], Value::Null);
}

on_both!(
    m1_fields_and_default_mount_path,
    m2_only_from_allowed_roots,
    m3_links_are_not_followed_unless_they_stay_inside,
    m4_a_budget_is_all_or_nothing,
    m5_a_mount_path_cannot_escape,
    m6_previews_count_truly,
    m7_the_fingerprint_changes_with_everything_and_with_nothing_else
);
