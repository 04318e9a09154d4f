//! The help of every command, and what a wrong command line says.

use std::path::Path;

use super::kit::{Ran, run};

const COMMANDS: &[&str] = &[
    "",
    "up",
    "serve",
    "run",
    "session",
    "session create",
    "session ls",
    "session show",
    "session close",
    "session clone",
    "session events",
    "session token",
    "session export",
    "events",
    "tool",
    "tool call",
    "tools",
    "eval",
    "exec",
    "shell",
    "cp",
    "diff",
    "apply",
    "export",
    "snapshot",
    "restore",
    "digest",
    "prompt",
    "blob",
    "blob put",
    "image",
    "image import",
    "image ls",
    "image rm",
    "plan",
    "agent-type",
    "agent-type ls",
    "agent-type get",
    "agent-type set",
    "agent-type create",
    "agent-type rm",
    "project",
    "project get",
    "project set",
    "platform",
    "platform get",
    "platform set",
    "content",
    "content push",
    "content ls",
    "content diff",
    "content validate",
    "sync",
    "apply-content",
    "runs",
    "runs start",
    "runs step",
    "runs call",
    "runs ls",
    "runs complete",
    "runs cancel",
    "state",
    "replay",
    "verify",
    "gc",
    "usage",
    "mcp",
    "mcp install",
    "audit",
    "providers",
    "pool",
    "token",
    "token show",
    "token new",
    "token session",
    "doctor",
    "openapi",
    "completions",
    "version",
];

fn help(command: &str) -> Ran {
    let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    run(Path::new("/nonexistent"), &args)
}

#[test]
fn every_command_explains_itself() {
    let mut all = String::new();
    for command in COMMANDS {
        let text = help(command).ok();
        // The same on every command; shown once, at the top.
        let own = if command.is_empty() { text.as_str() } else { text.split("Global options:").next().unwrap() };
        all.push_str(&format!("$ stead {command}\n{}\n\n", own.trim_end()));
    }
    insta::assert_snapshot!(all);
}

/// A command that is not in the list above would have its help unseen.
#[test]
fn the_list_of_commands_is_complete() {
    for group in COMMANDS {
        let text = help(group).ok();
        let Some((_, list)) = text.split_once("Commands:\n") else { continue };
        for line in list.lines().take_while(|line| line.starts_with("  ")) {
            let name = line.split_whitespace().next().unwrap();
            let full = format!("{group} {name}").trim().to_owned();
            assert!(name == "help" || COMMANDS.contains(&full.as_str()), "{full} is not in the list");
        }
    }
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
    assert_eq!(run(home, &["version"]).ok(), format!("stead {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(run(home, &["version", "--json"]).json()["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(run(home, &["--version"]).ok(), format!("stead {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(home, &["completions", shell]).ok();
        assert!(script.contains("agent-type"), "{shell}");
    }
}

#[test]
fn the_api_document_is_printed_the_same_every_time() {
    let home = Path::new("/nonexistent");
    let first = run(home, &["openapi"]).ok();
    assert!(first.ends_with("}\n"));
    assert!(serde_json::from_str::<serde_json::Value>(&first).unwrap()["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(first, run(home, &["openapi"]).ok());
}
