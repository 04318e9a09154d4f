//! The sessions that `stead mcp` creates: an agent's changes stay reachable after it exits.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use crate::cli::kit::{BINARY, run, stead};
use crate::rows::build_init;

/// Starts `stead mcp`, calls these tools, closes its input, and returns its standard error.
fn agent(home: &Path, arguments: &[&str], calls: &[(&str, Value)]) -> String {
    let mut command = stead(home);
    command.arg("mcp").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let calls = calls.iter().map(|(name, given)| ("tools/call", json!({"name": name, "arguments": given})));
    for (id, (method, params)) in [("initialize", hello)].into_iter().chain(calls).enumerate() {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).unwrap();
        let answer = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| serde_json::from_str::<Value>(line).is_ok_and(|message| message["id"] == json!(id)));
        let answer: Value = serde_json::from_str(&answer.unwrap_or_else(|| panic!("no answer to {method}"))).unwrap();
        assert!(answer["result"].is_object() && answer["result"]["isError"] != json!(true), "{answer}");
        if method == "initialize" {
            writeln!(input, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
        }
    }
    drop(input);
    let done = child.wait_with_output().unwrap();
    let output = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{output}");
    output
}

fn project() -> tempfile::TempDir {
    let project = tempfile::tempdir().unwrap();
    fs::write(project.path().join("a.txt"), "one\n").unwrap();
    project
}

fn write(content: &str) -> (&'static str, Value) {
    ("write", json!({"path": "a.txt", "content": content, "mode": "overwrite"}))
}

/// The id of the session that the notes name.
fn kept(notes: &str) -> String {
    let id = notes.split_whitespace().find(|word| word.starts_with("ses_"));
    id.unwrap_or_else(|| panic!("no session: {notes}")).to_owned()
}

#[test]
fn changes_stay_after_the_agent_and_a_session_without_changes_ends() {
    let server = TestServer::start(BINARY);
    let project = project();
    let root = project.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    let arguments = ["--dir", root, "--provider", "memory"];
    let notes = agent(server.home(), &arguments, &[("read", json!({"path": "a.txt"}))]);
    assert_eq!(notes, "");
    let notes = agent(server.home(), &arguments, &[write("two\n")]);
    let id = kept(&notes);
    assert!(notes.contains(&format!("the session {id} keeps 1 change until ")), "{notes}");
    assert!(notes.contains(&format!("stead apply {id} --to {root}\n")), "{notes}");
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "one\n");
    run(server.home(), &["apply", &id, "--to", root]).ok();
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "two\n");
    run(server.home(), &["session", "close", &id]).ok();
    let open = server.client().get("/sessions?status=active").expect(200);
    assert_eq!(open["items"], json!([]), "the session without changes ended");
}

#[test]
fn changes_stay_after_a_server_of_the_agents_own() {
    let (home, project) = (tempfile::tempdir().unwrap(), project());
    let home = home.path().join("home");
    let root = project.path().to_str().unwrap();
    let notes = agent(&home, &["--dir", root, "--provider", "memory"], &[write("two\n")]);
    assert!(notes.contains("start a server to use it: stead up"), "{notes}");
    let server = TestServer::start_at(BINARY, &home, ServerOptions::default());
    run(server.home(), &["apply", &kept(&notes), "--to", root]).ok();
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "two\n");
}

#[test]
fn a_live_agent_works_on_the_directory_itself() {
    build_init();
    let server = TestServer::start(BINARY);
    let project = project();
    let root = project.path().canonicalize().unwrap();
    let arguments = ["--dir", root.to_str().unwrap(), "--live"];
    let refused = run(server.home(), &[&["mcp"], &arguments[..]].concat());
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("allowed_host_roots (stead platform set)"), "{}", refused.err);
    let platform = json!({"allowed_host_roots": [root], "allowed_root_owned_mounts": [root]});
    server.client().put("/platform", platform).expect(200);
    let notes = agent(server.home(), &arguments, &[write("live\n")]);
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "live\n");
    let id = kept(&notes);
    assert!(notes.contains(&format!("the session {id} keeps 2 checkpoints until ")), "{notes}");
    assert!(notes.contains(&format!("take changes back: stead rewind {id} --to EVENT\n")), "{notes}");
    let listed = run(server.home(), &["rewind", &id, "--json"]).ok();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let first = listed["items"][0]["seq"].to_string();
    run(server.home(), &["rewind", &id, "--to", &first]).ok();
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "one\n");
    run(server.home(), &["session", "close", &id]).ok();
    // An agent that changes nothing leaves no session behind.
    let notes = agent(server.home(), &arguments, &[("read", json!({"path": "a.txt"}))]);
    assert!(!notes.contains("ses_"), "{notes}");
    let shown = run(server.home(), &["mcp", "install", "claude-code", "--live", "--file", "none/mcp.json"]).ok();
    assert!(shown.contains("\"--live\""), "{shown}");
    let usage = run(server.home(), &["mcp", "--live"]);
    assert_eq!(usage.code, Some(2), "{}", usage.err);
}

#[test]
fn settings_with_comments_get_a_hint_in_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    fs::write(&file, "// a comment\n{}\n").unwrap();
    let refused = run(folder.path(), &["mcp", "install", "cursor", "--file", file.to_str().unwrap()]);
    assert!(refused.err.contains("hint: add this yourself:\n{\n"), "{}", refused.err);
    assert!(!refused.err.contains("\\n"), "{}", refused.err);
}
