//! A box cannot make the machine write back other boxes' files. `sync` succeeds and does nothing;
//! `fsync` and `syncfs` write the box's own volume.

use std::io::Write as _;
use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use crate::rows::boxes::{native, podman};

/// Prints how many pages of a file are not yet written to its disk (`cachestat`).
const DIRTY: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
span, stat = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
answer = libc.syscall(451, os.open(sys.argv[1], os.O_RDONLY), span, stat, 0)
print(stat[1] if answer == 0 else -ctypes.get_errno())
"#;

fn dirty_pages(file: &std::path::Path) -> i64 {
    let asked = Command::new("python3").args(["-c", DIRTY]).arg(file).output().unwrap();
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    text.trim().parse().unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&asked.stderr)))
}

/// Writes to a file of the host, runs a command in the box, and returns the number of pages that
/// are still dirty.
fn left_dirty(server: &TestServer, session: &Value, command: &str) -> i64 {
    let mut file = tempfile::Builder::new().prefix("stead-canary-").tempfile_in(server.home()).unwrap();
    file.write_all(&vec![7; 1 << 20]).unwrap();
    let answer = server.tool(session, "bash", json!({"command": command}));
    assert_eq!(answer["result"]["exit_code"], 0, "{answer}");
    dirty_pages(file.path())
}

fn sync_leaves_the_host_alone(server: &TestServer, session: &Value) {
    // The kernel may write pages back at any moment, so one attempt with dirty pages left is the
    // proof.
    until("pages of the host that a sync in the box did not write", || {
        (left_dirty(server, session, "for i in 1 2 3; do sync; done") > 0).then_some(())
    });
    // The control: the same measurement detects a sync outside of a box.
    let mut file = tempfile::Builder::new().prefix("stead-canary-").tempfile_in(server.home()).unwrap();
    file.write_all(&vec![7; 1 << 20]).unwrap();
    file.as_file().sync_all().unwrap();
    assert_eq!(dirty_pages(file.path()), 0);
    // The box's own files can be written back.
    let own = "echo x > /workspace/x && sync /workspace/x && sync -f /workspace && dd if=/dev/zero of=/workspace/y bs=4k count=4 conv=fsync";
    let answer = server.tool(session, "bash", json!({"command": own}));
    assert_eq!(answer["result"]["exit_code"], 0, "{answer}");
}

#[test]
fn sync_in_a_native_box_does_not_write_back_the_host() {
    let server = native::with_boxes();
    let session = native::box_session(&server, json!({}));
    sync_leaves_the_host_alone(&server, &session);
}

#[test]
fn sync_in_a_container_does_not_write_back_the_host() {
    let service = podman::service("runc");
    let server = podman::under(&service, "runc");
    let session = podman::box_session(&server, json!({}));
    sync_leaves_the_host_alone(&server, &session);
}
