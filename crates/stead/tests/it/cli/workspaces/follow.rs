//! `events -f`: in order, once each, across a server restart, until the session ends.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

use crate::cli::kit;

#[test]
fn a_follower_sees_everything_once() {
    let mut server = kit::server();
    let id = kit::session(&server);
    let mut child = kit::stead(server.home())
        .args(["events", &id, "--follow", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (send, lines) = mpsc::channel::<Value>();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let _ = send.send(serde_json::from_str(&line).unwrap());
        }
    });
    let next = || lines.recv_timeout(Duration::from_secs(30)).unwrap();
    let mut seen = Vec::new();
    while seen.last() != Some(&"SessionActivated".to_owned()) {
        seen.push(next()["type"].as_str().unwrap().to_owned());
    }
    // The server dies and returns on another port; the follower reconnects and misses nothing.
    server.restart(None);
    server.client().delete(&format!("/sessions/{id}")).expect(204);
    loop {
        let event = next();
        seen.push(event["type"].as_str().unwrap().to_owned());
        assert_eq!(event["seq"], seen.len(), "an event is missing or repeated");
        if event["type"] == "SessionClosed" {
            break;
        }
    }
    assert_eq!(kit::wait(&mut child), Some(0));
}
