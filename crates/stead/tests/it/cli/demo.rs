//! The first two minutes.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::kit::{self, run};

/// Without the one number that differs: how long the session took.
fn told(ran: &kit::Ran, home: &std::path::Path) -> String {
    let shown = ran.shown(home);
    let lines = shown.lines().map(|line| match (line.find("is active after "), line.find(" ms: ")) {
        (Some(from), Some(to)) => format!("{}is active after N{}", &line[..from], &line[to..]),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_demo_tells_the_whole_story_and_ends() {
    let home = tempfile::tempdir().unwrap();
    let ran = run(home.path(), &["up", "--demo", "--listen", "127.0.0.1:0"]);
    insta::assert_snapshot!(told(&ran, home.path()));
    assert!(!home.path().join("server.json").exists());
    // Again, on the same home: the agent type is there, everything else is new.
    let again = run(home.path(), &["up", "--demo", "--listen", "127.0.0.1:0"]).ok();
    assert!(again.contains("· the agent type `example` is there"), "{again}");
    let verified = run(home.path(), &["verify", "--json"]).json();
    assert_eq!(verified["sessions"], 2);
}

#[test]
fn the_demo_has_a_json_form() {
    let home = tempfile::tempdir().unwrap();
    let value = run(home.path(), &["up", "--demo", "--json", "--listen", "127.0.0.1:0"]).json();
    assert_eq!(value["replay"]["identical"], true, "{value}");
    assert!(value["session"].as_str().unwrap().starts_with("ses_"), "{value}");
}

#[test]
fn up_stays_until_it_is_told_to_stop_and_shares_its_server() {
    let home = tempfile::tempdir().unwrap();
    let mut up = kit::stead(home.path())
        .args(["up", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while run(home.path(), &["agent-type", "get", "example"]).code != Some(0) {
        assert!(Instant::now() < deadline, "the example agent type did not appear");
        std::thread::sleep(Duration::from_millis(20));
    }
    let demo = run(home.path(), &["up", "--demo"]).ok();
    assert!(demo.contains("a server already runs on this home"), "{demo}");
    assert!(demo.contains("✓ 15 events replayed"), "{demo}");
    run(home.path(), &["session", "ls"]).ok();
    kit::signal(&up, Signal::INT);
    assert_eq!(kit::wait(&mut up), Some(0));
    assert!(!home.path().join("server.json").exists());
}

#[test]
fn up_takes_another_port_when_its_own_is_taken() {
    let _alone = kit::default_port();
    // If this fails, somebody outside of these tests has it, which is as good.
    let _taken = std::net::TcpListener::bind("127.0.0.1:7717");
    let home = tempfile::tempdir().unwrap();
    let value = run(home.path(), &["up", "--demo", "--json"]).json();
    assert_ne!(value["url"], "http://127.0.0.1:7717");
}
