//! Many boxes at once, many in sequence, and many that are killed. The counts are small here;
//! `cargo xtask nightly` raises them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use stead_testkit::{Client, TestServer};

use super::native::with_boxes;

fn size(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn declare(server: &TestServer) {
    let limits = json!({"cpu": "1", "memory": "256M", "disk": "64M", "pids": 64});
    let workspace = json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "require_workspace": true,
        "resource_limits": limits});
    server.agent_type("n", workspace);
}

/// Returns the init process of every box of a home, as recorded in `box.json`.
fn inits(home: &Path) -> Vec<i32> {
    let boxes = std::fs::read_dir(home.join("boxes")).into_iter().flatten().flatten();
    let record = |path: &Path| serde_json::from_slice::<Value>(&std::fs::read(path.join("box.json")).ok()?).ok();
    boxes.filter_map(|entry| record(&entry.path())?["init"]["pid"].as_i64()?.try_into().ok()).collect()
}

/// Private memory of a process in bytes.
fn private_bytes(pid: impl std::fmt::Display) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let private = text.lines().filter(|line| line.starts_with("Private_Clean:") || line.starts_with("Private_Dirty:"));
    private.filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>() << 10
}

/// Calls `work` with each of `0..count`, on up to eight threads.
fn several(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8.min(count) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}

fn bash(client: &Client, session: &str, command: &str) -> Value {
    client.post(&format!("/sessions/{session}/tools/bash"), json!({"command": command})).expect(200)
}

/// `STEAD_BOXES` sets the number of boxes.
#[test]
fn x4_a_crowd_of_idle_boxes_costs_little_and_answers() {
    let count = size("STEAD_BOXES", 12);
    let server = with_boxes();
    declare(&server);
    let begun = Instant::now();
    let sessions = std::sync::Mutex::new(Vec::new());
    several(count, |_| {
        let session = server.client().post("/sessions?wait=300", json!({"agent_type": "n"})).expect(201);
        assert_eq!(session["status"], "active", "{session}");
        sessions.lock().unwrap().push(session["id"].as_str().unwrap().to_owned());
    });
    let (sessions, made) = (sessions.into_inner().unwrap(), begun.elapsed());
    let inits = inits(server.home());
    assert_eq!(inits.len(), count);
    let of_boxes = inits.iter().map(private_bytes).sum::<u64>();
    let of_server = private_bytes(server.pid().unwrap());
    let each = (of_boxes + of_server) / count as u64;
    several(count, |number| {
        let answer = bash(server.client(), &sessions[number], &format!("echo {number}"));
        assert_eq!(answer["result"]["stdout"], format!("{number}\n"), "{answer}");
    });
    let answered = begun.elapsed() - made;
    several(count, |number| {
        assert_eq!(server.client().delete(&format!("/sessions/{}", sessions[number])).status, 204);
    });
    let closed = begun.elapsed() - made - answered;
    eprintln!(
        "{count} boxes: made in {made:.1?}, {} KiB private each, {} KiB with the server, all answered in {answered:.1?}, closed in {closed:.1?}",
        (of_boxes / count as u64) >> 10,
        each >> 10
    );
    assert!(of_boxes / count as u64 <= 2 << 20, "{of_boxes} bytes for {count} boxes");
    // The server's own memory does not grow with the number of boxes.
    assert!(count < 100 || each <= 2 << 20, "{each} bytes each");
}

/// Counts directories, mounts, devices and init processes of this home. The test server checks its
/// cgroups when it is dropped.
fn census(server: &TestServer) -> BTreeMap<&'static str, usize> {
    let home = server.home().to_str().unwrap();
    let names = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found = BTreeMap::new();
    for directory in ["boxes", "volumes", "uids", "spool"] {
        found.insert(directory, names(&server.home().join(directory)).count());
    }
    let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", server.pid().unwrap())).unwrap();
    found.insert("mounts", mounts.matches(home).count());
    let backing = |path: std::path::PathBuf| std::fs::read_to_string(path.join("loop/backing_file")).ok();
    let devices = names(Path::new("/sys/block")).filter_map(backing);
    found.insert("devices", devices.filter(|file| file.contains(home)).count());
    found.insert("inits", inits(server.home()).len());
    found
}

fn open_files(server: &TestServer) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid().unwrap())).unwrap().count()
}

/// `STEAD_CYCLES` sets the number of cycles.
#[test]
fn s9_cycles_over_http_leave_the_host_as_it_was() {
    let cycles = size("STEAD_CYCLES", 12);
    let server = with_boxes();
    declare(&server);
    let cycle = |number: usize| {
        let client = server.client();
        let session = client.post("/sessions?wait=60", json!({"agent_type": "n"})).expect(201);
        let id = session["id"].as_str().unwrap();
        let answer = bash(client, id, &format!("echo {number} > a; (setsid sleep 600 >/dev/null 2>&1 &); cat a"));
        assert_eq!(answer["result"]["stdout"], format!("{number}\n"), "{answer}");
        assert_eq!(client.delete(&format!("/sessions/{id}")).status, 204);
    };
    // One session stays open, so the counts before and after both include it.
    let kept = server.session(json!({"agent_type": "n"}));
    bash(server.client(), kept["id"].as_str().unwrap(), "true");
    several(8, cycle);
    let (before, files) = (census(&server), open_files(&server));
    several(cycles, cycle);
    assert_eq!(census(&server), before);
    assert_eq!((before["boxes"], before["inits"]), (1, 1), "{before:?}");
    // Connections of this test and their buffers come and go.
    let deadline = Instant::now() + Duration::from_secs(30);
    while open_files(&server) > files + 8 {
        assert!(Instant::now() < deadline, "{} files are open, {files} were", open_files(&server));
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!("{cycles} cycles: {before:?}, {files} open files, then {}", open_files(&server));
}

/// A session and the writes that the server acknowledged.
#[derive(Default)]
struct AcknowledgedFiles {
    id: String,
    files: BTreeMap<String, String>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Kills the server or a box's init process at a random moment. Acknowledged writes must survive
/// and nothing else may be left behind. `STEAD_KILLS` sets the number of kills.
#[test]
fn s9_kills_of_servers_and_inits_lose_nothing_and_leave_nothing() {
    let kills = size("STEAD_KILLS", 6);
    let mut random = Random(u64::from(std::process::id()) << 16 | 0x5eed);
    let mut server = with_boxes();
    declare(&server);
    let mut acknowledged_files: Vec<AcknowledgedFiles> = Vec::new();
    let (mut servers, mut acknowledged) = (0, 0);
    for round in 0..kills {
        while acknowledged_files.len() < 3 {
            let session = server.session(json!({"agent_type": "n"}));
            assert_eq!(session["status"], "active", "{session}");
            acknowledged_files
                .push(AcknowledgedFiles { id: session["id"].as_str().unwrap().to_owned(), files: BTreeMap::new() });
        }
        let server_dies = random.below(2) == 0;
        servers += usize::from(server_dies);
        let (pause, victim) = (Duration::from_millis(random.below(400)), random.below(64));
        let stop = AtomicBool::new(false);
        let (home, pid, client) = (server.home().to_owned(), server.pid().unwrap(), server.client().clone());
        std::thread::scope(|scope| {
            for acknowledged_files in &mut acknowledged_files {
                scope.spawn(|| write_until(&client, acknowledged_files, round, &stop));
            }
            // Other sessions are created and closed meanwhile, so kills also hit boxes in
            // transition.
            scope.spawn(|| churn_until(&client, &stop));
            std::thread::sleep(pause);
            if server_dies {
                kill(i32::try_from(pid).unwrap());
            } else {
                let inits = inits(&home);
                kill(inits[usize::try_from(victim).unwrap() % inits.len()]);
            }
            stop.store(true, Ordering::SeqCst);
        });
        if server_dies {
            server.restart(None);
        }
        acknowledged +=
            acknowledged_files.iter().map(|acknowledged_files| acknowledged_files.files.len()).sum::<usize>();
        for acknowledged_files in &acknowledged_files {
            check(&server, acknowledged_files);
        }
        let old = acknowledged_files.remove(usize::try_from(random.below(3)).unwrap());
        assert_eq!(server.client().delete(&format!("/sessions/{}", old.id)).status, 204);
    }
    eprintln!(
        "{kills} kills, {servers} of servers; {acknowledged} times something acknowledged was looked for and found"
    );
    // Dropping the server closes the remaining sessions and checks for leaks.
}

fn kill(pid: i32) {
    let Some(pid) = Pid::from_raw(pid) else { return };
    // A process that no longer exists was closed normally.
    if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

fn write_until(client: &Client, acknowledged_files: &mut AcknowledgedFiles, round: usize, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let (path, content) = (format!("r{round}-{number}"), format!("{round} {number}"));
        let body = json!({"path": path, "content": content}).to_string();
        let sent =
            client.try_send("POST", &format!("/sessions/{}/tools/write", acknowledged_files.id), &[], Some(body));
        if sent.is_ok_and(|reply| reply.status == 200 && reply.json()["ok"] == true) {
            acknowledged_files.files.insert(path, content);
        }
    }
}

fn churn_until(client: &Client, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let body = json!({"agent_type": "n"}).to_string();
        let Ok(reply) = client.try_send("POST", "/sessions?wait=60", &[], Some(body)) else { return };
        if let Some(id) = reply.json()["id"].as_str() {
            let _ = client.try_send("DELETE", &format!("/sessions/{id}"), &[], None);
        }
    }
}

/// Checks that every acknowledged file is there; a dead box is started again by the call.
fn check(server: &TestServer, acknowledged_files: &AcknowledgedFiles) {
    let shown = server.client().get(&format!("/sessions/{}", acknowledged_files.id)).expect(200);
    assert_eq!(shown["status"], "active", "{shown}");
    let answer = bash(
        server.client(),
        &acknowledged_files.id,
        "for f in r*; do printf '%s=%s\\n' \"$f\" \"$(cat $f)\"; done | sort",
    );
    let printed = answer["result"]["stdout"].as_str().unwrap_or_else(|| panic!("{answer}"));
    if answer["result"]["truncated"] == true {
        // The output was truncated, so read the files one by one.
        for (path, content) in &acknowledged_files.files {
            let reply =
                server.client().post(&format!("/sessions/{}/tools/read", acknowledged_files.id), json!({"path": path}));
            assert_eq!(reply.expect(200)["result"]["content"], json!(content), "{path}");
        }
        return;
    }
    let there: BTreeMap<&str, &str> = printed.lines().filter_map(|line| line.split_once('=')).collect();
    for (path, content) in &acknowledged_files.files {
        assert_eq!(there.get(path.as_str()), Some(&content.as_str()), "{path} was acknowledged");
    }
}
