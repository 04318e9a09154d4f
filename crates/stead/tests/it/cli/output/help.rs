//! The help of every command, and the errors for a wrong command line.

use std::path::Path;

use crate::cli::kit::{self, commands, help, run};

/// The reference page of the command line. `STEAD_UPDATE_REFERENCE=1` writes it again.
#[test]
fn the_reference_page_has_the_help_of_every_command() {
    let mut page = String::from(
        "# Command line\n\nThe help of every command, as `stead help COMMAND` prints it.\n\
         The global options are the same on every command, so they are shown only once.\n",
    );
    for command in &commands() {
        let text = help(command);
        let own = if command.is_empty() { text.as_str() } else { text.split("Global options:").next().unwrap() };
        let title = format!("stead {command}");
        page.push_str(&format!("\n## {}\n\n```text\n{}\n```\n", title.trim_end(), own.trim_end()));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    if std::env::var_os("STEAD_UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let first = committed.lines().zip(page.lines()).find(|(committed, page)| committed != page);
    assert!(
        committed == page,
        "docs/reference/cli.md is out of date, first at {first:?}; STEAD_UPDATE_REFERENCE=1 writes it again"
    );
}

#[test]
fn a_wrong_command_line_is_usage() {
    for args in [
        &[][..],
        &["dance"],
        &["session"],
        &["session", "show"],
        &["session", "create"],
        &["session", "ls", "--limit", "0"],
        &["session", "create", "-a", "x", "--wait", "301"],
        &["tool", "call", "s"],
        &["agent-type", "set", "x"],
        &["agent-type", "set", "x", "file", "--data", "{}"],
        &["up", "--keep"],
        &["completions", "tcsh9"],
        &["token", "new"],
    ] {
        let ran = run(Path::new("/nonexistent"), args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.out.is_empty(), "{args:?} printed to stdout");
        assert!(!ran.err.is_empty(), "{args:?} said nothing");
    }
}

#[test]
fn version_and_completions_need_no_server() {
    let home = Path::new("/nonexistent");
    let version = run(home, &["version", "--json"]).json();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let commit = version["commit"].as_str().unwrap();
    assert!(commit.len() == 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
    let line = format!("stead {} ({commit})\n", env!("CARGO_PKG_VERSION"));
    assert_eq!([run(home, &["version"]).ok(), run(home, &["--version"]).ok()], [line.clone(), line]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(home, &["completions", shell]).ok();
        assert!(script.contains("agent-type"), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let answer = run(Path::new("/nonexistent"), &["man", "--dir", folder.path().to_str().unwrap(), "--json"]).json();
    for command in commands() {
        let page = format!("stead {command}").trim().replace(' ', "-") + ".1";
        assert!(answer["pages"].as_array().unwrap().iter().any(|name| *name == page), "{page}: {answer}");
        let text = std::fs::read_to_string(folder.path().join(&page)).unwrap();
        assert!(text.contains(".TH") && text.contains("SYNOPSIS"), "{page}: {text}");
    }
}

#[test]
fn alone_it_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let answer = run(home.path(), &[]);
    let server = kit::server();
    let there = run(server.home(), &[]);
    let shown = format!("without a server\n{}\nwith one\n{}", answer.shown(home.path()), there.shown(server.home()));
    insta::assert_snapshot!(shown);
    // Without agent types, only commands that would succeed are suggested.
    let empty = stead_testkit::TestServer::start(kit::BINARY);
    let answer = run(empty.home(), &[]).err;
    assert!(answer.contains("stead up ") && !answer.contains("--agent-type"), "{answer}");
}

#[test]
fn the_api_document_is_printed_the_same_every_time() {
    let home = Path::new("/nonexistent");
    let first = run(home, &["openapi"]).ok();
    assert!(first.ends_with("}\n"));
    assert!(serde_json::from_str::<serde_json::Value>(&first).unwrap()["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(first, run(home, &["openapi"]).ok());
}
