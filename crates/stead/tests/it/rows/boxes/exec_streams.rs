//! Output as numbered chunks: no loss and no repetition across dropped connections and server
//! restarts, bounded memory, slow readers.

use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::{EventStream, StreamEvent, TestServer};

use super::execs::{at, begin, ended, exec};
use super::native::{box_session, with_boxes};

fn stream(server: &TestServer, session: &Value, exec: &str, after: Option<u64>) -> EventStream {
    server.client().events(&at(session, &format!("/{exec}/stream")), after)
}

/// Collects the output of a stream and the number of its last chunk.
struct Reader {
    text: String,
    last: u64,
    finished: Option<Value>,
    missed: u64,
}

impl Reader {
    fn new() -> Self {
        Self { text: String::new(), last: 0, finished: None, missed: 0 }
    }

    fn take(&mut self, event: StreamEvent) {
        match event.event.as_str() {
            "output" => {
                let seq = event.data["seq"].as_u64().unwrap();
                assert_eq!(event.id, Some(seq.to_string()));
                assert_eq!(seq, self.last + 1, "a chunk is missing or repeated");
                self.last = seq;
                self.text += event.data["data"].as_str().unwrap();
            }
            "missed" => {
                assert_eq!(event.data["from"], self.last + 1);
                let to = event.data["to"].as_u64().unwrap();
                self.missed += to - self.last;
                self.last = to;
            }
            "finished" => self.finished = Some(event.data),
            other => panic!("{other}"),
        }
    }
}

const COUNT: &str = "for i in $(seq 60); do echo line $i; sleep 0.02; done; echo err >&2; exit 4";

fn expected() -> String {
    (1..=60).map(|i| format!("line {i}\n")).collect::<String>() + "err\n"
}

#[test]
fn x3_a_lost_connection_loses_and_repeats_nothing() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let id = begin(&server, &session, COUNT);
    let mut reader = Reader::new();
    while reader.finished.is_none() {
        let after = (reader.last > 0).then_some(reader.last);
        // Drops each connection after three events.
        stream(&server, &session, &id, after).take(3).for_each(|event| reader.take(event));
    }
    assert_eq!((reader.text.as_str(), reader.missed), (expected().as_str(), 0));
    let finished = reader.finished.unwrap();
    assert_eq!((&finished["exit_code"], &finished["chunks"]), (&json!(4), &json!(reader.last)));
    assert_eq!(finished, ended(&server, &session, &id));
    // The finished output can be read again, whole and from the middle.
    let mut again = Reader::new();
    stream(&server, &session, &id, None).for_each(|event| again.take(event));
    assert_eq!(again.text, expected());
    let mut rest = Reader { last: reader.last - 1, ..Reader::new() };
    let path = at(&session, &format!("/{id}/stream?after={}", rest.last));
    server.client().events(&path, None).for_each(|event| rest.take(event));
    assert_eq!(rest.text, "err\n");
}

#[test]
fn x3_a_killed_server_loses_and_repeats_nothing() {
    let mut server = with_boxes();
    let session = box_session(&server, json!({}));
    let command = COUNT.replace("0.02", "0.1");
    let id = begin(&server, &session, &command);
    let quick = begin(&server, &session, "sleep 0.5; echo quick; exit 9");
    let mut reader = Reader::new();
    stream(&server, &session, &id, None).take(5).for_each(|event| reader.take(event));
    server.kill();
    // One of the commands ends while the server is down.
    std::thread::sleep(Duration::from_secs(1));
    server.restart(None);
    let answer = ended(&server, &session, &quick);
    assert_eq!(
        (&answer["status"], &answer["exit_code"], &answer["stdout"]),
        (&json!("finished"), &json!(9), &json!("quick\n"))
    );
    while reader.finished.is_none() {
        let last = reader.last;
        stream(&server, &session, &id, Some(last)).for_each(|event| reader.take(event));
    }
    assert_eq!((reader.text.as_str(), reader.missed), (expected().as_str(), 0));
    assert_eq!(reader.finished.unwrap()["exit_code"], 4);
}

/// A snapshot may end an idle box whose only state is exec output; later readers still get all of
/// it. The disk limit leaves no room for a copy of this tree.
#[test]
fn x3_a_snapshot_after_a_command_copies_nothing_and_loses_no_output() {
    let server = with_boxes();
    let limits = json!({"disk": "128M"});
    let session = box_session(&server, json!({"resource_limits": limits}));
    exec(&server, &session, json!({"command": "head -c 70M /dev/zero > large"}));
    for round in 0..3 {
        let id = begin(&server, &session, &format!("echo {round} > small; seq 100"));
        ended(&server, &session, &id);
        let path = format!("/sessions/{}/snapshots", session["id"].as_str().unwrap());
        server.client().post(&path, json!({})).expect(201);
        let mut reader = Reader::new();
        stream(&server, &session, &id, None).for_each(|event| reader.take(event));
        let all: String = (1..=100).map(|i| format!("{i}\n")).collect();
        assert_eq!((reader.text, reader.missed), (all, 0));
        assert_eq!(reader.finished.unwrap()["exit_code"], 0);
    }
}

#[test]
fn x3_a_box_that_died_is_reported_with_the_reason() {
    let mut server = with_boxes();
    let session = box_session(&server, json!({}));
    let id = begin(&server, &session, "sleep 300");
    server.kill();
    kill_init(&server);
    server.restart(None);
    let answer = ended(&server, &session, &id);
    assert_eq!(answer["status"], "interrupted", "{answer}");
    assert_eq!(answer["error"]["message"], "its box ended while the server was away", "{answer}");
    // The same with the server running.
    let id = begin(&server, &session, "sleep 300");
    kill_init(&server);
    let answer = ended(&server, &session, &id);
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("its box ended"), "{answer}");
    let mut reader = Reader::new();
    stream(&server, &session, &id, None).for_each(|event| reader.take(event));
    assert_eq!(reader.finished.unwrap()["status"], "interrupted");
}

/// Kills the init process of the server's only box, which `box.json` names.
fn kill_init(server: &TestServer) {
    let boxes: Vec<_> = walk(server.home(), "boxes");
    let record = std::fs::read_to_string(boxes[0].join("box.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let pid = i32::try_from(record["init"]["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    rustix::process::pidfd_send_signal(&handle, rustix::process::Signal::KILL).unwrap();
    // The pidfd becomes readable when the process ends, before it is reaped.
    let mut ends = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut ends, None).unwrap();
}

fn walk(home: &std::path::Path, name: &str) -> Vec<std::path::PathBuf> {
    let find = |directory: &std::path::Path| {
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let native = find(home).into_iter().find(|path| path.join(name).is_dir()).unwrap_or_else(|| home.to_owned());
    find(&native.join(name))
}

#[test]
fn x3_a_gigabyte_costs_bounded_memory_and_a_slow_reader_learns_of_losses() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let before = memory(&server);
    // `STEAD_FLOOD_GIB` sets the size.
    let gib: u64 = std::env::var("STEAD_FLOOD_GIB").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let body = json!({"command": format!("sleep 0.3; head -c {gib}G /dev/zero"), "background": true});
    let id = exec(&server, &session, body)["id"].as_str().unwrap().to_owned();
    let mut slow = stream(&server, &session, &id, None);
    let mut reader = Reader::new();
    reader.take(slow.next().unwrap());
    let answer = ended(&server, &session, &id);
    assert_eq!(
        (&answer["exit_code"], &answer["stdout_total"]),
        (&json!(0), &json!(gib << 30)),
        "a slow reader stalls nobody"
    );
    assert_eq!(answer["truncated"], true);
    slow.for_each(|event| reader.take(event));
    assert!(reader.missed > 0, "it learns what it missed");
    assert_eq!(Some(reader.last), answer["chunks"].as_u64(), "and every chunk is accounted for");
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 64 << 20, "the server grew by {grown} bytes");
}

#[test]
fn x3_a_command_may_wait_for_its_reader() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let body = json!({"command": "seq 4000000", "background": true, "unread": "wait"});
    let id = exec(&server, &session, body)["id"].as_str().unwrap().to_owned();
    std::thread::sleep(Duration::from_millis(300));
    let (mut bytes, mut reader) = (0, Reader::new());
    for event in stream(&server, &session, &id, None) {
        reader.take(event);
        bytes += reader.text.len();
        reader.text.clear();
    }
    assert_eq!((bytes, reader.missed), (30_888_896, 0), "nothing is dropped before a reader that comes late");
}

/// Resident memory of the server process in bytes.
fn memory(server: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().unwrap())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
