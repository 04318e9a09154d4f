//! `--json`: every command has a JSON answer, and prints nothing else on standard output.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::kit::{self, commands, finish, stead};
use crate::rows::build_init;

/// Commands without a JSON answer, with the reason.
const WITHOUT: &[(&str, &str)] = &[
    ("serve", "is the server: what it says is its log"),
    ("shell", "is a terminal"),
    ("completions", "is a script for a shell"),
    ("mcp", "carries another protocol's messages"),
    ("login", "reads a token; the story of the command shows its answer"),
    ("forward", "runs until it is interrupted"),
];

struct Asked<'a> {
    home: &'a Path,
    directory: &'a Path,
    done: Vec<String>,
}

impl Asked<'_> {
    /// Runs a command with `--json`, which must print one JSON object.
    #[track_caller]
    fn ask(&mut self, line: &str) -> Value {
        // Words between single quotes are one argument.
        let mut words: Vec<&str> = vec!["--json"];
        for (number, part) in line.split('\'').enumerate() {
            match number % 2 {
                0 => words.extend(part.split_whitespace()),
                _ => words.push(part),
            }
        }
        let ran = finish(stead(self.home).args(&words).current_dir(self.directory).env("HOME", self.directory));
        let value = ran.json();
        assert!(value.is_object(), "{line}: {value}");
        self.done.push(line.to_owned());
        value
    }

    #[track_caller]
    fn id(&mut self, line: &str) -> String {
        self.ask(line)["id"].as_str().unwrap().to_owned()
    }
}

#[test]
fn every_command_answers_programs() {
    build_init();
    let mut server = kit::server();
    let home = server.home().to_owned();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.txt"), "one\n").unwrap();
    for folder in ["out", "root", "declared"] {
        std::fs::create_dir(directory.path().join(folder)).unwrap();
    }
    let content = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/content-bot/content");
    let mut asked = Asked { home: &home, directory: directory.path(), done: Vec::new() };
    let a = &mut asked;
    let session = a.id("session create -a coder");
    files(a, &session);
    sessions(a, &session);
    a.ask(&format!("content validate {content}"));
    a.ask(&format!("content push {content} --name notes"));
    a.ask("content ls");
    a.ask("content diff notes");
    declarations(a);
    runs(a);
    for line in [
        "up --demo",
        "status",
        "tools",
        "providers",
        "pool",
        "usage",
        "usage history",
        "config check",
        "config show",
        "config plan declared",
        "config apply declared",
        "logout",
        "audit",
        "doctor",
        "verify",
        "version",
        "openapi",
        "man --dir man",
        "image import root team/empty:1",
        "image ls",
        "image rm team/empty:1",
        "mcp install zed --file settings.json",
        "token show",
        "whoami",
        "explain access sessions:create",
        "network presets",
        "token ls",
        "eval '6 * 7'",
        "run --dir out -- true",
    ] {
        a.ask(line);
    }
    let token = a.id("token create --name ci --role viewer");
    a.ask(&format!("token rotate {token}"));
    a.ask(&format!("token revoke {token}"));
    a.ask(&format!("token session {session}"));
    a.ask(&format!("session close {session}"));
    server.terminate();
    for line in ["stop", "gc --dry-run", "up --demo --listen 127.0.0.1:0"] {
        a.ask(line);
    }
    complete(&asked.done);
}

fn files(a: &mut Asked<'_>, session: &str) {
    for line in [
        format!("cp a.txt {session}:in/"),
        "blob put a.txt".to_owned(),
        format!("diff {session}"),
        format!("apply {session} --to out"),
        format!("export {session} --output all.tar"),
        format!("session export {session} --output journal.ndjson"),
        format!("tool call {session} ls"),
        format!("digest {session}"),
        format!("prompt {session}"),
        format!("snapshot {session} --list"),
        format!("rewind {session}"),
        format!("blame {session} in/a.txt"),
    ] {
        a.ask(&line);
    }
    let snap = a.id(&format!("snapshot {session}"));
    a.ask(&format!("restore {session} {snap}"));
}

fn sessions(a: &mut Asked<'_>, session: &str) {
    for line in ["session ls", "plan -a coder"] {
        a.ask(line);
    }
    a.ask(&format!("session update {session} --ttl 1h --metadata ticket=OPS-1"));
    a.ask(&format!("session pause {session}"));
    a.ask(&format!("session resume {session}"));
    for command in ["session show", "session token", "session clone", "session events", "events", "state", "replay"] {
        a.ask(&format!("{command} {session}"));
    }
    a.ask("agent-type create --data '{\"id\": \"n\", \"workspace\": {\"enabled\": true, \"provider\": \"native\", \"setup_commands\": [\"true\"], \"setup_cache\": true}}'");
    let with_box = a.id("session create -a n");
    let exec = a.ask(&format!("exec {with_box} -- echo hi"));
    assert_eq!(exec["stdout"], json!("hi\n"));
    a.ask(&format!("exec ls {with_box}"));
    for verb in ["logs", "kill"] {
        a.ask(&format!("exec {verb} {with_box} {}", exec["id"].as_str().unwrap()));
    }
    a.ask(&format!("port ls {with_box}"));
    a.ask(&format!("port open {with_box} 8080"));
    a.ask(&format!("open {with_box}"));
    let kept = a.ask("setup-cache ls");
    a.ask(&format!("setup-cache rm {}", kept["items"][0]["id"].as_str().unwrap()));
    a.ask(&format!("session close {with_box}"));
    networks(a);
    secrets(a);
}

fn secrets(a: &mut Asked<'_>) {
    std::fs::write(a.directory.join("value.txt"), "a-secret-value").unwrap();
    a.ask("secret set api --host api.example --file value.txt");
    for line in ["secret ls", "secret rekey", "secret rm api"] {
        a.ask(line);
    }
}

fn networks(a: &mut Asked<'_>) {
    a.ask("platform set --data '{\"network\": {\"agent\": {\"allow\": [\"a.example\", \"b.example\"]}}}'");
    let network = "{\"agent\": {\"allow\": [\"a.example\"]}}";
    a.ask(&format!(
        "agent-type create --data '{{\"id\": \"net\", \"workspace\": {{\"enabled\": true, \"provider\": \"native\", \"network\": {network}}}}}'"
    ));
    a.ask("plan -a net --network");
    let explained = a.ask("explain network -a net a.example");
    assert_eq!(explained["phases"][1]["allowed"], json!(true), "{explained}");
    let session = a.id("session create -a net");
    a.ask(&format!("network {session}"));
    a.ask(&format!("network narrow {session} a.example"));
    a.ask(&format!("network grant {session} b.example --for 1h"));
    a.ask(&format!("session close {session}"));
}

fn declarations(a: &mut Asked<'_>) {
    for line in [
        "agent-type ls",
        "agent-type get coder",
        "agent-type set coder --data '{\"enabled\": true, \"provider\": \"memory\"}'",
        "agent-type create --data '{\"id\": \"extra\"}'",
        "agent-type rm extra",
        "project set web --data {}",
        "project get web",
        "project quota web",
        "project ls",
        "project rm web --yes",
        "platform set --data {}",
        "platform get",
        "agent-type create --data '{\"id\": \"keeper\", \"workspace\": {\"enabled\": true, \"provider\": \"memory\", \"tools\": [\"ls\"]}, \"content\": {\"workspace\": \"notes\", \"run\": {\"provider\": \"anthropic\", \"model\": \"m\"}}}'",
    ] {
        a.ask(line);
    }
}

fn runs(a: &mut Asked<'_>) {
    let session = a.id("session create -a keeper");
    a.ask(&format!("sync {session} notes"));
    a.ask(&format!("apply-content {session}"));
    let run = a.id(&format!("runs start {session} --input hello"));
    a.ask(&format!("runs step {session} {run}"));
    a.ask(&format!("runs call {session} {run} ls"));
    a.ask(&format!("runs ls {session}"));
    a.ask(&format!("runs complete {session} {run}"));
    let run = a.id(&format!("runs start {session} --input more"));
    a.ask(&format!("runs cancel {session} {run}"));
}

/// Asserts that every command was run or is known to have no JSON answer.
fn complete(done: &[String]) {
    let all = commands();
    let is_group = |name: &str| all.iter().any(|other| other.starts_with(&format!("{name} ")));
    let was_asked = |name: &str| done.iter().any(|line| line == name || line.starts_with(&format!("{name} ")));
    let left: Vec<&String> = all
        .iter()
        .filter(|name| !name.is_empty() && !is_group(name))
        .filter(|name| !was_asked(name) && !WITHOUT.iter().any(|(known, _)| known == name))
        .collect();
    assert!(left.is_empty(), "asked with --json by nobody: {left:?}");
}
