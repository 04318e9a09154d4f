//! First use: `stead up --demo`.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cli::kit::{self, Ran, run};
use crate::rows::build_init;

/// Runs `stead up …` with memory as the default provider, so the output does not depend on the
/// machine.
fn up(home: &Path, args: &[&str]) -> Ran {
    kit::finish(kit::stead(home).arg("up").args(args).env("WORKSPACE_DEFAULT_PROVIDER", "memory"))
}

/// Replaces the duration of the session start, which differs per run.
fn without_durations(ran: &Ran, home: &Path) -> String {
    let shown = ran.shown(home);
    let lines = shown.lines().map(|line| match (line.find("is active after "), line.find(" ms: ")) {
        (Some(from), Some(to)) => format!("{}is active after N{}", &line[..from], &line[to..]),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_demo_shows_the_whole_life_of_a_session_and_ends() {
    let home = tempfile::tempdir().unwrap();
    let ran = up(home.path(), &["--demo", "--listen", "127.0.0.1:0"]);
    insta::assert_snapshot!(format!("$ stead up --demo\n{}", without_durations(&ran, home.path())));
    assert!(!home.path().join("server.json").exists());
    // A second run on the same home: the agent type exists, everything else is new.
    let again = up(home.path(), &["--demo", "--listen", "127.0.0.1:0"]).ok();
    assert!(again.contains("· the agent type `example` exists already"), "{again}");
    let verified = run(home.path(), &["verify", "--json"]).json();
    assert_eq!(verified["sessions"], 2);
}

#[test]
fn the_demo_has_a_json_form() {
    let home = tempfile::tempdir().unwrap();
    let value = up(home.path(), &["--demo", "--json", "--listen", "127.0.0.1:0"]).json();
    assert_eq!(value["replay"]["identical"], true, "{value}");
    assert!(value["session"].as_str().unwrap().starts_with("ses_"), "{value}");
}

#[test]
fn up_runs_until_it_is_stopped_and_other_commands_use_its_server() {
    let home = tempfile::tempdir().unwrap();
    let mut server = kit::stead(home.path())
        .args(["up", "--listen", "127.0.0.1:0"])
        .env("WORKSPACE_DEFAULT_PROVIDER", "memory")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while run(home.path(), &["agent-type", "get", "example"]).code != Some(0) {
        assert!(Instant::now() < deadline, "the example agent type did not appear");
        std::thread::sleep(Duration::from_millis(20));
    }
    let demo = up(home.path(), &["--demo"]).ok();
    assert!(demo.contains("a server already runs on this home"), "{demo}");
    assert!(demo.contains("✓ 15 events replayed"), "{demo}");
    run(home.path(), &["session", "ls"]).ok();
    kit::signal(&server, Signal::INT);
    assert_eq!(kit::wait(&mut server), Some(0));
    assert!(!home.path().join("server.json").exists());
}

#[test]
fn up_takes_another_port_when_its_own_is_taken() {
    let _alone = kit::default_port();
    // If the bind fails, another process already has the port, which serves the test as well.
    let _taken = std::net::TcpListener::bind("127.0.0.1:7717");
    let home = tempfile::tempdir().unwrap();
    let value = up(home.path(), &["--demo", "--json"]).json();
    assert_ne!(value["url"], "http://127.0.0.1:7717");
}

#[test]
fn the_example_runs_commands_where_this_machine_can() {
    build_init();
    let home = tempfile::tempdir().unwrap();
    let answer = run(home.path(), &["up", "--demo", "--listen", "127.0.0.1:0"]).ok();
    assert!(answer.contains("✓ declared the agent type `example`: workspaces by native\n"), "{answer}");
    assert!(answer.contains("provider native\n"), "{answer}");
}

/// Without `stead-init` there are no boxes; the first start says so and continues.
#[test]
fn the_example_is_in_memory_where_it_cannot_and_says_why() {
    let scratch = tempfile::tempdir().unwrap();
    let alone = scratch.path().join("stead");
    std::fs::copy(kit::BINARY, &alone).unwrap();
    let mut command = std::process::Command::new(&alone);
    command.env_clear().env("STEAD_HOME", scratch.path().join("home")).stdin(Stdio::null());
    let answer = kit::finish(command.args(["up", "--demo", "--listen", "127.0.0.1:0"])).ok();
    let why = format!(
        "! declared the agent type `example`: workspaces in memory, without commands, because no native box can be made here: there is no {}/stead-init",
        scratch.path().display()
    );
    assert!(answer.contains(&why) && answer.contains("provider memory\n"), "{answer}");
}
