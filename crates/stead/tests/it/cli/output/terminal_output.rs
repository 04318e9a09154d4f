//! Output for terminals only: progress, colours and tables that fit; pipes get none of it.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{Fault, GitServer, TestServer};

use crate::cli::kit::{self, run, stead};
use crate::cli::terminal::Terminal;
use crate::rows::build_init;

const HIDDEN: [&str; 2] = ["\u{1b}[", "━"];

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = stead(home);
    command.args(args);
    command
}

/// Everything that a successful command shows on a terminal.
#[track_caller]
fn shown(command: Command) -> String {
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(command);
    assert_eq!(terminal.until_end(&mut child), Some(0), "{}", terminal.seen);
    terminal.seen
}

/// Asserts that the progress bar was cleared.
#[track_caller]
fn cleared(seen: &str) {
    let last = seen.rsplit("\u{1b}[2K").next().unwrap();
    assert!(!last.contains('━'), "{seen:?}");
}

#[test]
fn a_large_file_is_sent_under_a_bar() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    let folder = tempfile::tempdir().unwrap();
    let (large, small) = (folder.path().join("large.bin"), folder.path().join("small.txt"));
    std::fs::write(&large, vec![7; 8 << 20]).unwrap();
    std::fs::write(&small, "small").unwrap();
    let (large, small) = (large.to_str().unwrap(), small.to_str().unwrap());
    let target = format!("{id}:in/");
    for args in [&["cp", large, &target][..], &["blob", "put", large]] {
        let seen = shown(command(home, args));
        assert!(seen.contains("of 8.00 MiB"), "{seen:?}");
        cleared(&seen);
        for quiet in [run(home, args), run(home, &[args, &["--json"]].concat())] {
            let both = format!("{}{}", quiet.out, quiet.err);
            assert!(!HIDDEN.iter().any(|sign| both.contains(sign)), "{both:?}");
        }
    }
    let back = folder.path().join("back.bin");
    let seen = shown(command(home, &["cp", &format!("{id}:in/large.bin"), back.to_str().unwrap()]));
    assert!(seen.contains("receiving in/large.bin") && seen.contains("of 8.00 MiB"), "{seen:?}");
    cleared(&seen);
    let seen = shown(command(home, &["--json", "cp", large, &target]));
    assert_eq!(serde_json::from_str::<Value>(&seen).unwrap()["bytes"], 8 << 20, "{seen:?}");
    assert_eq!(shown(command(home, &["cp", small, &target])), "");
    let mut dumb = command(home, &["cp", large, &target]);
    dumb.env("TERM", "dumb");
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn_as(dumb);
    assert_eq!((terminal.until_end(&mut child), terminal.seen.as_str()), (Some(0), ""));
}

#[test]
fn a_directory_is_sent_under_a_bar() {
    build_init();
    let (home, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(dir.path().join("large.bin"), vec![7; 8 << 20]).unwrap();
    let seen = shown(command(home.path(), &["run", "--dir", dir.path().to_str().unwrap(), "--", "echo", "done"]));
    assert!(seen.contains("sending ") && seen.contains("of 8.00 MiB"), "{seen:?}");
    let after = seen.rsplit("\u{1b}[2K").next().unwrap();
    assert!(after.contains("done"), "{seen:?}");
}

#[test]
fn a_session_with_a_repository_shows_how_far_it_is() {
    let git = GitServer::start();
    git.repository("r.git", &[("a.txt", "one\n")]);
    let server = TestServer::start(kit::BINARY);
    server.client().put("/platform", json!({"allowed_git_hosts": [git.host()]})).expect(200);
    server.agent_type("g", json!({"enabled": true, "provider": "memory", "setup_commands": []}));
    let home = server.home();
    let args = ["session", "create", "-a", "g", "--repo", &git.url("r.git")];
    git.fault(Fault::Held);
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(command(home, &args));
    terminal.type_until("", "clone repository");
    // Git's stage, the percentage and the message.
    terminal.type_until("", " objects ");
    terminal.type_until("", "% ");
    git.fault(Fault::None);
    assert_eq!(terminal.until_end(&mut child), Some(0), "{}", terminal.seen);
    let seen = terminal.seen;
    cleared(&seen);
    let table = seen.rsplit("\u{1b}[2K").next().unwrap();
    assert!(table.contains("status") && table.contains("active"), "{table:?}");
    let quiet = run(home, &args);
    assert!(quiet.out.starts_with("ses_") && quiet.err.is_empty(), "{}{}", quiet.out, quiet.err);
}

#[test]
fn a_patch_has_colours_unless_somebody_says_no() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    server.client().bytes("PUT", &format!("/sessions/{id}/files/a.txt"), &[], b"one\n").reply();
    let diff = ["diff", &id];
    let seen = shown(command(home, &diff));
    assert!(seen.contains("\u{1b}[32m+one\u{1b}[0m"), "{seen:?}");
    let mut plain = command(home, &diff);
    plain.env("NO_COLOR", "1");
    let seen = shown(plain);
    assert!(seen.contains("+one") && !seen.contains('\u{1b}'), "{seen:?}");
    assert!(!run(home, &diff).ok().contains('\u{1b}'));
}

#[test]
fn tables_fit_the_terminal() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    for args in [
        &["session", "ls"][..],
        &["session", "show", &id],
        &["events", &id],
        &["tools"],
        &["providers"],
        &["audit"],
        &["agent-type", "ls"],
        &["plan", "-a", "coder"],
    ] {
        let mut terminal = Terminal::new();
        terminal.resize(40, 72);
        let mut quiet = command(home, args);
        quiet.env("NO_COLOR", "1");
        let mut child = terminal.spawn(quiet);
        assert_eq!(terminal.until_end(&mut child), Some(0), "{}", terminal.seen);
        // The terminal itself wraps sentences.
        for line in terminal.seen.replace('\r', "").lines().filter(|line| !line.starts_with(['!', '·', '✗', '✓']))
        {
            assert!(line.chars().count() <= 72, "{args:?}: {line}");
        }
    }
}

/// `script` and some CI terminals report 0 rows of 0 columns.
#[test]
fn a_terminal_of_no_known_width_gets_whole_words() {
    let server = kit::server();
    let id = kit::session(&server);
    let mut terminal = Terminal::new();
    terminal.resize(0, 0);
    let mut child = terminal.spawn(command(server.home(), &["session", "show", &id]));
    assert_eq!(terminal.until_end(&mut child), Some(0), "{}", terminal.seen);
    assert!(terminal.seen.contains(&id) && terminal.seen.contains("agent type  coder"), "{}", terminal.seen);
}
