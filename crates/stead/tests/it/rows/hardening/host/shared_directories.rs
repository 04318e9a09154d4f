//! A session cannot make a shared host directory unusable for later sessions.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::boxes::native;
use crate::rows::server;

struct Host {
    server: TestServer,
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        native::build_init();
        let (server, root) = (server(), folder.path().to_str().unwrap());
        let platform = json!({"allowed_host_roots": [root], "allowed_root_owned_mounts": [root]});
        server.client().put("/platform", platform).expect(200);
        for disk in ["16M", "64M"] {
            let limits = json!({"disk": disk});
            let workspace = json!({"enabled": true, "provider": "native", "require_workspace": true,
                "resource_limits": limits});
            server.agent_type(disk, workspace);
        }
        let host = Self { server, folder };
        fs::create_dir(host.directory()).unwrap();
        // An ordinary owner: the box runs as that user and cannot read other users' files.
        std::os::unix::fs::chown(host.directory(), Some(4_242), Some(4_242)).unwrap();
        host
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("d")
    }

    #[track_caller]
    fn mount(&self, mode: &str, disk: &str) -> Value {
        let policy = json!({"type": "mount", "host_path": self.directory().to_str().unwrap(), "mode": mode});
        let session = self.server.session(json!({"agent_type": disk, "task": {"workspace_policy": policy}}));
        assert_eq!(session["status"], "active", "{session}");
        session
    }

    #[track_caller]
    fn bash(&self, session: &Value, command: &str) {
        let answer = self.server.tool(session, "bash", json!({"command": command}));
        assert_eq!(answer["result"]["exit_code"], 0, "{command}: {answer}");
    }

    /// Returns the warning that the session has no diff, and checks that the diff route agrees.
    #[track_caller]
    fn no_diff(&self, session: &Value) -> Option<String> {
        let warned = session["warnings"].as_array().unwrap().iter().find(|it| it["code"] == "diff_unavailable");
        let diff = self.server.client().get(&format!("/sessions/{}/diff", session["id"].as_str().unwrap()));
        match warned {
            None => drop(diff.expect(200)),
            Some(_) => {
                let detail = diff.problem(409, "conflict");
                assert!(detail.contains("could not be copied"), "{detail}");
            }
        }
        warned.map(|warned| warned["message"].as_str().unwrap().to_owned())
    }
}

#[test]
fn files_that_a_box_cannot_read_do_not_refuse_the_next_session() {
    let host = Host::new();
    let first = host.mount("rw", "64M");
    host.bash(&first, "echo 1 > file && mkdir closed && echo 1 > closed/inner");
    // The control: while everything is readable, the session has a diff.
    assert_eq!(host.no_diff(&host.mount("rw", "64M")), None);
    for (hide, show, name) in
        [("chmod 000 file", "chmod 644 file", "file"), ("chmod 000 closed", "chmod 755 closed", "closed")]
    {
        host.bash(&first, hide);
        let next = host.mount("rw", "64M");
        let output = host.no_diff(&next).unwrap();
        assert!(output.contains(name) && output.contains("permission denied"), "{output}");
        host.bash(&next, "echo 2 > written && rm written");
        host.bash(&first, show);
    }
    let secret = host.directory().join("secret");
    fs::write(&secret, "of root").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let output = host.no_diff(&host.mount("rw", "64M")).unwrap();
    assert!(output.contains("secret"), "{output}");
}

#[test]
fn a_directory_larger_than_the_disk_limit_is_mounted_without_a_copy() {
    let host = Host::new();
    fs::write(host.directory().join("large"), vec![b'x'; 20 << 20]).unwrap();
    let output = host.no_diff(&host.mount("rw", "16M")).unwrap();
    assert!(output.contains("disk limit"), "{output}");
    // The control: a limit with room for the copy.
    assert_eq!(host.no_diff(&host.mount("rw", "64M")), None);
}

const TAKE_LEASE: &str = "import fcntl, os, signal, sys, time
file = os.open(sys.argv[1], os.O_RDWR)
def give_up(*_):
    time.sleep(0.5)
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    sys.exit(0)
signal.signal(signal.SIGIO, give_up)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('leased', flush=True)
time.sleep(60)
";

#[test]
fn a_lease_on_a_file_is_waited_for_and_no_box_can_take_one() {
    let host = Host::new();
    let file = host.directory().join("leased");
    fs::write(&file, "text").unwrap();
    // The control: outside a box the lease is granted, and a session that reads the file waits
    // until it ends.
    let mut holder = Command::new("python3")
        .args(["-c", TAKE_LEASE, file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut output).unwrap();
    assert_eq!(output, "leased\n");
    host.mount("overlay", "64M");
    assert!(holder.wait().unwrap().success(), "the holder was asked to give up its lease");

    let session = host.mount("rw", "64M");
    let take = "echo 1 > own && python3 -c 'import fcntl, os
try: fcntl.fcntl(os.open(\"own\", os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
except PermissionError: raise SystemExit(7)'";
    let answer = host.server.tool(&session, "bash", json!({"command": take}));
    assert_eq!(answer["result"]["exit_code"], 7, "{answer}");
}
