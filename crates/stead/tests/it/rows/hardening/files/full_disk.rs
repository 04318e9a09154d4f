//! A box with a full disk stays usable: read, delete, snapshot, restore and rewind work or fail
//! with a reason.

use serde_json::{Value, json};
use stead_testkit::{Reply, TestServer};

use crate::rows::Files;

/// More snapshots than the reserve of a volume allows while its disk is full.
const MOST_SNAPSHOTS: usize = 16;

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

fn limited(server: &TestServer, files: Files) -> Value {
    let workspace = json!({"enabled": true, "provider": files.provider(), "workspace_policy": "empty",
        "require_workspace": true, "resource_limits": {"disk": "16M"}, "rewind": {"points": "layers"}});
    server.agent_type("full", workspace);
    let session = server.session(json!({"agent_type": "full"}));
    assert_eq!(session["status"], "active", "{session}");
    session
}

#[track_caller]
fn bash(server: &TestServer, session: &Value, command: &str) -> Value {
    let answer = server.tool(session, "bash", json!({"command": command}));
    assert_eq!(answer["ok"], true, "{command}: {answer}");
    answer["result"].clone()
}

fn snapshot(server: &TestServer, session: &Value) -> Reply {
    server.client().post(&path(session, "/snapshots"), json!({}))
}

#[track_caller]
fn read(server: &TestServer, session: &Value) -> Vec<u8> {
    server.client().bytes("GET", &path(session, "/files/keep"), &[], b"").expect(200)
}

/// Writes until the disk is full.
const FILL_BLOCKS: &str = "dd if=/dev/zero of=fill bs=64k 2>/dev/null; dd if=/dev/zero of=rest bs=1k 2>/dev/null; \
                           echo x > more 2>/dev/null && cat more";
/// Creates empty files until no inode is left.
const FILL_INODES: &str = "mkdir -p many; seq 1 9000 | sed 's,^,many/,' | xargs touch 2>/dev/null; true";

/// More blocks and inodes than one start of the box frees.
const TAKES_TOO_MUCH: &str =
    "head -c 262144 /dev/zero > refused && mkdir t && cd t && touch 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16";

fn survives(files: Files, fill: &str, remove: &str) {
    let server = files.server();
    let session = limited(&server, files);
    server.tool(&session, "write", json!({"path": "keep", "content": "kept"}));
    let first = snapshot(&server, &session).expect(201);
    bash(&server, &session, fill);
    // The control: the disk is full for the agent.
    let refused = bash(&server, &session, TAKES_TOO_MUCH);
    assert_ne!(refused["exit_code"], 0, "{refused}");

    // The session works after every snapshot, until a snapshot is refused and changes nothing.
    let mut taken = Vec::new();
    let refusal = (0..MOST_SNAPSHOTS).find_map(|_| {
        let reply = snapshot(&server, &session);
        if reply.status != 201 {
            return Some(reply);
        }
        taken.push(reply.expect(201));
        assert_eq!(read(&server, &session), b"kept");
        // The new generation freed a share of the reserve. Use that up too.
        bash(&server, &session, fill);
        None
    });
    assert!(!taken.is_empty(), "a snapshot of a full disk is taken");
    if let Some(refusal) = refusal {
        let detail = refusal.problem(409, "disk_limit");
        assert!(detail.contains("remove files"), "{detail}");
    }
    assert_eq!(read(&server, &session), b"kept");
    let removed = bash(&server, &session, remove);
    // Known gap: in a container without a free inode, a file of a layer cannot be removed; a
    // restore helps.
    if files != Files::Container || fill != FILL_INODES {
        assert_eq!(removed["exit_code"], 0, "{removed}");
    }

    let restored = |snapshot: &Value| {
        let below = format!("/snapshots/{}/restore", snapshot["id"].as_str().unwrap());
        server.client().send("POST", &path(&session, &below), &[], None).expect(200);
        assert_eq!(read(&server, &session), b"kept");
    };
    restored(taken.last().unwrap());
    restored(&first);
    let works = bash(&server, &session, "ls; echo y > again && cat again");
    assert_eq!(works["stdout"], "keep\ny\n", "{works}");
}

fn a_disk_without_blocks_survives_snapshots_and_restores(files: Files) {
    survives(files, FILL_BLOCKS, "rm -f fill rest more");
}

fn a_disk_without_inodes_survives_snapshots_and_restores(files: Files) {
    // Removing a file of a lower layer creates a whiteout in the upper one: the first attempt frees
    // the inode for that.
    survives(files, FILL_INODES, "rm -rf many 2>/dev/null; rm -rf many");
}

fn a_full_disk_can_be_rewound(files: Files) {
    let server = files.server();
    let session = limited(&server, files);
    server.tool(&session, "write", json!({"path": "keep", "content": "kept"}));
    let before = server.client().get(&path(&session, "/state")).expect(200)["seq"].as_u64().unwrap();
    bash(&server, &session, FILL_BLOCKS);
    server.client().post(&path(&session, "/rewind"), json!({"to": before})).expect(200);
    assert_eq!(read(&server, &session), b"kept");
    let works = bash(&server, &session, "ls");
    assert_eq!((&works["exit_code"], &works["stdout"]), (&json!(0), &json!("keep\n")), "{works}");
}

mod disk {
    use super::*;

    #[test]
    fn a_disk_without_blocks_survives_snapshots_and_restores() {
        super::a_disk_without_blocks_survives_snapshots_and_restores(Files::Disk);
    }

    #[test]
    fn a_disk_without_inodes_survives_snapshots_and_restores() {
        super::a_disk_without_inodes_survives_snapshots_and_restores(Files::Disk);
    }

    #[test]
    fn a_full_disk_can_be_rewound() {
        super::a_full_disk_can_be_rewound(Files::Disk);
    }
}

mod container {
    use super::*;

    #[test]
    fn a_disk_without_blocks_survives_snapshots_and_restores() {
        super::a_disk_without_blocks_survives_snapshots_and_restores(Files::Container);
    }

    #[test]
    fn a_disk_without_inodes_survives_snapshots_and_restores() {
        super::a_disk_without_inodes_survives_snapshots_and_restores(Files::Container);
    }
}
