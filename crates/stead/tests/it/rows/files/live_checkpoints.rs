//! P8: checkpoints of a host directory that the agent changes itself.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::boxes::native;
use crate::rows::server;

struct Live {
    server: TestServer,
    folder: tempfile::TempDir,
    session: Value,
}

impl Live {
    /// A session that works on a git repository of the host.
    fn new() -> Self {
        Self::over(|project| {
            assert!(Command::new("git").args(["init", "-q"]).arg(project).status().unwrap().success());
            fs::write(project.join(".gitignore"), "build/\n").unwrap();
            fs::create_dir_all(project.join("build")).unwrap();
            fs::write(project.join("build/result"), "made\n").unwrap();
            fs::write(project.join("a.txt"), "one\n").unwrap();
            fs::write(project.join("b.txt"), "two\n").unwrap();
        })
    }

    fn over(fill: impl FnOnce(&Path)) -> Self {
        native::build_init();
        let (server, folder) = (server(), tempfile::tempdir().unwrap());
        let project = folder.path().join("project");
        fs::create_dir_all(&project).unwrap();
        fill(&project);
        let root = folder.path().to_str().unwrap();
        let platform = json!({"allowed_host_roots": [root], "allowed_root_owned_mounts": [root]});
        server.client().put("/platform", platform).expect(200);
        let live = json!({"enabled": true, "provider": "native", "rewind": {"points": "copies"}});
        server.agent_type("live", live);
        let policy = json!({"type": "mount", "host_path": project.to_str().unwrap(), "mode": "rw"});
        let session = server.session(json!({"agent_type": "live", "task": {"workspace_policy": policy}}));
        assert_eq!(session["status"], "active", "{session}");
        assert!(!session["warnings"].to_string().contains("checkpoints_unavailable"), "{session}");
        Self { server, folder, session }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("project").join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Runs a command of the agent and returns the number of its last event.
    #[track_caller]
    fn agent(&self, command: &str) -> u64 {
        let answer = self.server.tool(&self.session, "bash", json!({"command": command}));
        assert_eq!(answer["result"]["exit_code"], 0, "{answer}");
        answer["seq"].as_u64().unwrap()
    }

    fn rewind_path(&self) -> String {
        format!("/sessions/{}/rewind", self.session["id"].as_str().unwrap())
    }

    fn checkpoints(&self) -> Vec<Value> {
        self.server.client().get(&self.rewind_path()).expect(200)["items"].as_array().unwrap().clone()
    }

    #[track_caller]
    fn rewind(&self, to: &Value) -> Value {
        self.server.client().post(&self.rewind_path(), json!({"to": to})).expect(200)
    }
}

#[test]
fn p8_a_users_change_is_kept_before_the_agents_and_both_can_be_taken_back() {
    let mut live = Live::new();
    live.agent("echo agent > a.txt");
    // The user edits a file, and the agent overwrites it in its next call.
    fs::write(live.at("a.txt"), "the user's\n").unwrap();
    live.agent("echo again > a.txt; rm b.txt; echo new > c.txt");
    let checkpoints = live.checkpoints();
    let names: Vec<&Value> = checkpoints.iter().map(|checkpoint| &checkpoint["by"]["name"]).collect();
    assert_eq!(names, ["begin", "bash", "checkpoint", "bash"], "{checkpoints:?}");
    assert!(checkpoints.iter().all(|checkpoint| checkpoint["snapshot"].is_string()), "{checkpoints:?}");

    // A killed server loses nothing.
    live.server.kill();
    live.server.restart(None);
    let undo = live.rewind(&checkpoints[2]["seq"])["undo"].clone();
    assert_eq!((live.text("a.txt").as_str(), live.text("b.txt").as_str()), ("the user's\n", "two\n"));
    assert!(!live.at("c.txt").exists());
    live.rewind(&checkpoints[0]["seq"]);
    assert_eq!(live.text("a.txt"), "one\n");
    live.rewind(&undo);
    assert_eq!((live.text("a.txt").as_str(), live.text("c.txt").as_str()), ("again\n", "new\n"));
    assert!(!live.at("b.txt").exists());

    // A call that changes nothing costs no copy.
    let before = live.checkpoints().len();
    live.agent("true");
    assert_eq!(live.checkpoints().len(), before);
}

#[test]
fn p8_a_rewind_leaves_the_repository_ignored_files_and_modes_alone() {
    let live = Live::new();
    fs::set_permissions(live.at("b.txt"), Permissions::from_mode(0o600)).unwrap();
    let first = live.agent("printf '#!/bin/sh\\n' > run && chmod 750 run");
    assert!(Command::new("mkfifo").arg(live.at("pipe")).status().unwrap().success());
    live.agent(
        "echo x >> b.txt; chmod 644 run; mkdir -p deep/er build/more; echo 1 > deep/er/f; echo 2 > build/more/f",
    );
    fs::write(live.at("build/result"), "made again\n").unwrap();
    fs::write(live.at(".git/marker"), "a commit\n").unwrap();
    live.rewind(&json!(first));
    let mode = |path: &str| fs::metadata(live.at(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((live.text("b.txt").as_str(), mode("b.txt")), ("two\n", 0o600));
    assert_ne!(mode("run") & 0o100, 0, "the executable bit is restored");
    assert!(!live.at("deep").exists(), "directories that the agent made are removed");
    assert_eq!((live.text("build/result").as_str(), live.text("build/more/f").as_str()), ("made again\n", "2\n"));
    assert_eq!(live.text(".git/marker"), "a commit\n");
    assert!(live.at("pipe").exists(), "a FIFO belongs to the programs that use it");

    // Rules that ignore fewer files than at the checkpoint remove nothing that was ignored then.
    live.agent("echo > .gitignore");
    live.rewind(&json!(first));
    assert_eq!((live.text(".gitignore").as_str(), live.text("build/result").as_str()), ("build/\n", "made again\n"));
    // A removed secret does not come back readable for everyone.
    live.agent("rm b.txt");
    live.rewind(&json!(first));
    assert_eq!((live.text("b.txt").as_str(), mode("b.txt")), ("two\n", 0o600));
}

#[test]
fn p8_a_rewind_follows_no_link() {
    let live = Live::over(|project| {
        fs::create_dir_all(project.join("src")).unwrap();
        fs::write(project.join("src/a.txt"), "inside\n").unwrap();
        symlink("a.txt", project.join("src/link")).unwrap();
    });
    let outside = live.folder.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("a.txt"), "outside\n").unwrap();
    fs::write(outside.join("other"), "other\n").unwrap();
    let first = live.agent("true");
    live.agent(&format!("mv src old && ln -s {} src && ln -s {} more", outside.display(), outside.display()));
    let second = live.checkpoints().last().unwrap().clone();
    live.rewind(&json!(first));
    assert_eq!(live.text("src/a.txt"), "inside\n");
    assert_eq!(fs::read_link(live.at("src/link")).unwrap(), Path::new("a.txt"));
    assert!(!live.at("old").exists() && fs::symlink_metadata(live.at("more")).is_err());
    live.rewind(&second["seq"]);
    assert_eq!(fs::read_link(live.at("src")).unwrap(), outside);
    assert_eq!(fs::read_to_string(outside.join("a.txt")).unwrap(), "outside\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
}

#[test]
fn p8_a_directory_that_is_too_large_says_so() {
    let live = Live::new();
    let seq = live.agent("truncate -s 300M large");
    let checkpoints = live.checkpoints();
    assert_eq!(checkpoints.last().unwrap()["reason"], "too_large", "{checkpoints:?}");
    let refused = live.server.client().post(&live.rewind_path(), json!({"to": seq})).expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("256 MiB"), "{refused}");
    // Without the file there are checkpoints again, and ignored files do not count.
    let seq = live.agent("mv large build/; echo small > a.txt");
    live.agent("echo smaller > a.txt");
    live.rewind(&json!(seq));
    assert_eq!(
        (live.text("a.txt").as_str(), fs::metadata(live.at("build/large")).unwrap().len()),
        ("small\n", 300 << 20)
    );
}
