//! Every command with its input, exit code and output, once with success and once with a failure.
//!
//! The last test reads the snapshots and reports every command that is missing.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use stead_testkit::{TestServer, until};

use crate::cli::kit::{self, BINARY, Ran, commands, finish, normal, stead};
use crate::cli::terminal::Terminal;
use crate::rows::build_init;

/// A transcript of commands and their output.
struct Story<'a> {
    home: &'a Path,
    directory: tempfile::TempDir,
    text: String,
}

/// The part of the output that goes into the transcript.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    All,
    /// Only the first word, because the rest is long or depends on the machine.
    FirstWord,
}

impl<'a> Story<'a> {
    fn new(home: &'a Path) -> Self {
        Self { home, directory: tempfile::tempdir().unwrap(), text: String::new() }
    }

    /// Writes a file into the directory in which the commands run.
    fn file(&self, name: &str, content: &str) {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn tell(&mut self, line: &str) -> Ran {
        self.run(line, Show::All)
    }

    fn tell_briefly(&mut self, line: &str) -> Ran {
        self.run(line, Show::FirstWord)
    }

    fn run(&mut self, line: &str, show: Show) -> Ran {
        let ran = finish(&mut self.command(line));
        self.record(line, &ran, show);
        ran
    }

    /// Words between single quotes are one argument.
    fn command(&self, line: &str) -> Command {
        let mut words = Vec::new();
        for (number, part) in line.split('\'').enumerate() {
            match number % 2 {
                0 => words.extend(part.split_whitespace()),
                _ => words.push(part),
            }
        }
        let mut command = stead(self.home);
        command.args(words).current_dir(self.directory.path()).env("HOME", self.directory.path());
        command
    }

    fn record(&mut self, line: &str, ran: &Ran, show: Show) {
        let mut shown = ran.shown(self.home).replace(&self.directory.path().display().to_string(), "PLACE");
        if show == Show::FirstWord {
            let word = |line: &str| line.split("  ").next().unwrap_or_default().to_owned();
            shown = shown.lines().take(2).map(word).map(|line| format!("{line}\n")).collect::<String>() + "…\n";
        }
        self.text.push_str(&format!("{}{shown}\n", normal(&format!("$ stead {line}\n"), self.home)));
    }
}

fn id(ran: Ran) -> String {
    ran.ok().trim().to_owned()
}

#[test]
fn sessions() {
    let server = kit::server();
    let mut story = Story::new(server.home());
    let session = id(story.tell("session create --agent-type coder --task-id t-1"));
    story.tell(&format!("session events {session} --limit 2"));
    story.tell("session events nonsense");
    story.tell(&format!("session clone {session}"));
    story.tell("session clone nonsense");
    story.tell(&format!("session token {session}"));
    story.tell("session token nonsense");
    story.tell(&format!("session export {session} --output journal.ndjson"));
    story.tell("session export nonsense");
    story.tell(&format!("session update {session} --metadata ticket=OPS-1"));
    story.tell(&format!("session update {session}"));
    story.tell("session ls --metadata ticket=OPS-1 --search coder --owner admin:admin");
    story.tell("session ls --metadata ticket");
    story.tell(&format!("session pause {session}"));
    story.tell(&format!("session pause {session} --mode sleep"));
    story.tell(&format!("session resume {session}"));
    story.tell("session resume nonsense");
    story.tell("session close nonsense");
    story.tell("plan --agent-type nobody");
    story.tell("state nonsense");
    story.tell(&format!("digest {session}"));
    story.tell("digest nonsense");
    story.tell_briefly(&format!("prompt {session}"));
    story.tell(&format!("prompt {session} --flavor pirate"));
    story.tell_briefly("audit --limit 1");
    insta::assert_snapshot!(story.text);
}

#[test]
fn files() {
    let server = kit::server();
    let mut story = Story::new(server.home());
    story.file("a.txt", "one\ntwo\n");
    let session = kit::session(&server);
    story.tell(&format!("cp a.txt {session}:docs/"));
    story.tell(&format!("cp {session}:docs/a.txt -"));
    story.tell(&format!("cp nowhere.txt {session}:"));
    story.tell(&format!("diff {session}"));
    story.tell(&format!("diff {session} --name-only"));
    story.tell(&format!("diff {session} --name-status"));
    story.tell(&format!("diff {session} --stat"));
    story.tell("diff nonsense");
    let snap = id(story.tell(&format!("snapshot {session} --name first")));
    story.tell(&format!("snapshot {session} --list"));
    story.tell("snapshot nonsense");
    story.tell(&format!("restore {session} {snap}"));
    story.tell(&format!("restore {session} snap_nonsense"));
    story.tell_briefly(&format!("rewind {session}"));
    story.tell(&format!("rewind {session} --to 4000"));
    story.tell_briefly(&format!("blame {session} notes/a.txt"));
    story.tell(&format!("blame {session}"));
    story.file("out/other.txt", "");
    story.tell(&format!("apply {session} --to out --check"));
    story.tell(&format!("apply {session} --to out"));
    story.tell(&format!("apply {session} --to out"));
    story.tell(&format!("export {session} --format patch"));
    story.tell("export nonsense");
    story.tell("blob put a.txt");
    story.tell("blob put nowhere.txt");
    insta::assert_snapshot!(story.text);
}

#[test]
fn declarations() {
    let server = kit::server();
    let mut story = Story::new(server.home());
    story.tell(r#"agent-type create --data '{"id": "extra"}'"#);
    story.tell("agent-type ls");
    story.tell("agent-type ls extra");
    story.tell("agent-type get extra");
    story.tell("agent-type get codr");
    story.tell(r#"agent-type set extra --data '{"enabled": true, "tools": ["ls"], "provider": "memory"}'"#);
    story.tell("agent-type rm extra");
    story.tell(r#"project set web --data '{"default_branch": "trunk"}'"#);
    story.tell(r#"project set web --data '{"branch": "trunk"}'"#);
    story.tell("project get web");
    story.tell("project quota web --sessions 20 --memory 64G --creates-per-minute 0");
    story.tell("project quota web --sessions none --data '{}'");
    story.tell("project quota nowhere");
    story.tell("project get wbe");
    story.tell("project ls");
    story.tell("project ls --limit 0");
    story.tell("project rm web");
    story.tell("project rm web --yes");
    story.tell(r#"platform set --data '{"allowed_git_hosts": ["git.example"]}'"#);
    story.tell(r#"platform set --data '{"allowed_git_hosts": "git.example"}'"#);
    story.tell("platform get");
    story.tell("platform get me");
    insta::assert_snapshot!(story.text);
}

#[test]
fn content_and_runs() {
    let server = kit::server();
    let mut story = Story::new(server.home());
    story.file("c/agent.workspace.json", r#"{"schema_version": 1, "prompt_packs": {"p": "p.json"}, "tool_catalogs": {"t": "t.json"}, "defaults": {"prompt_pack": "p", "tool_catalog": "t"}}"#);
    story.file("c/p.json", r#"{"templates": [{"text": "Be brief.", "role": "system"}]}"#);
    story.file("c/t.json", r#"{"tools": [{"name": "ls", "description": "Lists.", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}]}"#);
    story.file("broken/agent.workspace.json", "{\n \"schema_version\": 2 }");
    story.file("keeper.json", r#"{"id": "keeper", "workspace": {"enabled": true, "provider": "memory", "tools": ["ls"]}, "content": {"workspace": "notes", "run": {"provider": "anthropic", "model": "m"}}}"#);
    story.tell("content validate c");
    story.tell("content validate broken");
    story.tell("content push c --name notes");
    story.tell("content push c --name notes --expected-head 7");
    story.tell("content ls");
    story.tell("content ls --limit 0");
    story.file("c/p.json", r#"{"templates": [{"text": "Be long.", "role": "system"}]}"#);
    story.tell("content push c --name notes --expected-head 1");
    story.tell("content diff notes --from 1 --to 2");
    story.tell("content diff notes --from 1 --to 9");
    story.tell("agent-type create keeper.json");
    let session = id(story.tell("session create --agent-type keeper --content notes@1"));
    story.tell(&format!("sync {session} notes@2"));
    story.tell(&format!("sync {session} other"));
    story.tell(&format!("apply-content {session}"));
    story.tell(&format!("apply-content {session} --mode soon"));
    let run = id(story.tell(&format!("runs start {session} --input hello")));
    story.tell(&format!("runs start {session} --input again"));
    story.tell_briefly(&format!("runs step {session} {run}"));
    story.tell(&format!("runs step {session} {run} --messages nonsense"));
    story.tell(&format!("runs call {session} {run} ls"));
    story.tell(&format!("runs call {session} {run} rm"));
    story.tell(&format!("runs ls {session}"));
    story.tell("runs ls nonsense");
    story.tell(&format!("runs complete {session} {run}"));
    story.tell(&format!("runs complete {session} {run}"));
    let run = id(story.tell(&format!("runs start {session} --input more")));
    story.tell(&format!("runs cancel {session} {run}"));
    story.tell(&format!("runs cancel {session} {run}"));
    insta::assert_snapshot!(story.text);
}

#[test]
fn this_program_and_its_server() {
    let mut server = kit::server();
    let session = kit::session(&server);
    let home = server.home().to_owned();
    let mut story = Story::new(&home);
    story.tell_briefly("tools");
    story.tell("tools extra");
    story.tell("eval '6 * 7'");
    story.tell("eval '6 *'");
    story.tell_briefly("providers");
    story.tell("providers extra");
    story.tell("pool");
    story.tell("pool extra");
    story.tell_briefly("usage");
    story.tell("usage extra");
    story.tell_briefly("usage history");
    story.tell("usage history --from yesterday");
    story.tell("config check");
    story.file("wrong.toml", "listen = 'nowhere'\n");
    story.tell("config check wrong.toml");
    story.tell_briefly("config show");
    story.tell("config show extra");
    story.file("empty/README.md", "");
    story.tell("config plan empty");
    story.tell("config apply empty");
    story.file("wrong/projects/web.toml", "colour = 1\n");
    story.tell("config plan wrong");
    story.tell("config apply wrong");
    let line = format!("login {} --token-stdin", kit::run(server.home(), &["status", "--field", "url"]).ok().trim());
    let token = std::fs::File::open(server.home().join("token")).unwrap();
    let ran = finish(story.command(&line).stdin(token));
    story.record(&line, &ran, Show::All);
    story.tell("login nowhere");
    story.tell("logout");
    story.tell("logout extra");
    story.tell("token show");
    story.tell("token show extra");
    story.tell_briefly("token new --name ci");
    story.tell_briefly("token create --name board --role viewer");
    story.tell("token create --name board --role king");
    story.tell_briefly("token create --name other --offline");
    story.tell_briefly("token ls");
    story.tell("token ls extra");
    let tokens = server.client().get("/api/v1/tokens").expect(200);
    let token = tokens["items"][0]["id"].as_str().unwrap().to_owned();
    story.tell_briefly(&format!("token rotate {token}"));
    story.tell("token rotate nonsense");
    story.tell(&format!("token revoke {token}"));
    story.tell(&format!("token revoke {token}"));
    story.tell_briefly("whoami");
    story.tell("whoami extra");
    story.tell("open --print");
    story.tell("open nonsense");
    story.tell("explain access sessions:create");
    story.tell("explain access sessions:fly");
    story.tell(&format!("token session {session}"));
    story.tell("token session nonsense");
    story.tell_briefly("status");
    story.tell("status --field home");
    story.tell("status --field colour");
    story.tell_briefly("doctor");
    story.tell_briefly("doctor --url nonsense");
    story.tell_briefly("openapi");
    story.tell("openapi extra");
    story.tell_briefly("completions bash");
    story.tell("completions tcsh9");
    story.tell_briefly("man");
    story.tell("man --dir /dev/null/x");
    story.tell("version");
    let commit = kit::run(server.home(), &["version", "--json"]).json()["commit"].as_str().unwrap().to_owned();
    story.text = story.text.replace(&commit, "COMMIT");
    story.tell("version extra");
    story.tell("mcp install claude-code");
    story.tell("mcp install emacs");
    story.tell(&format!("mcp --session {session}"));
    story.tell("mcp --session nonsense");
    let pid = server.pid().unwrap().to_string();
    story.tell("gc");
    story.text = story.text.replace(&format!("process {pid}"), "process PID");
    story.tell("serve --listen nowhere");
    story.tell("up --keep");
    story.tell("stop --wait soon");
    server.terminate();
    story.tell("stop");
    story.tell("gc --dry-run");
    insta::assert_snapshot!(story.text);
}

#[test]
fn networks() {
    build_init();
    let server = TestServer::start(BINARY);
    let platform =
        json!({"network": {"agent": {"allow": ["*.example.com", "other.example"]}, "deny": ["paste.example.com"]}});
    server.client().put("/platform", platform).expect(200);
    let network = json!({"agent": {"allow": ["api.example.com", "paste.example.com"]}});
    server
        .agent_type("n", json!({"enabled": true, "provider": "native", "require_workspace": true, "network": network}));
    let session = server.session(json!({"agent_type": "n"}))["id"].as_str().unwrap().to_owned();
    let mut story = Story::new(server.home());
    story.tell("plan --agent-type n --network");
    story.tell("explain network --agent-type n paste.example.com");
    story.tell(&format!("explain network {session} api.example.com:22"));
    story.tell("explain network api.example.com");
    story.tell(&format!("network {session}"));
    story.tell("network nonsense");
    story.tell(&format!("network narrow {session} api.example.com"));
    story.tell("network narrow nonsense api.example.com");
    story.tell_briefly(&format!("network grant {session} other.example --for 1h"));
    story.tell(&format!("network grant {session} elsewhere.example --for 1h"));
    story.tell("network presets");
    story.tell("network presets extra");
    insta::assert_snapshot!(story.text);
}

#[test]
fn boxes() {
    build_init();
    let server = TestServer::start(BINARY);
    server.agent_type("n", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let session = server.session(json!({"agent_type": "n"}))["id"].as_str().unwrap().to_owned();
    let mut story = Story::new(server.home());
    story.file("dir/a.txt", "one\n");
    story.tell(&format!("exec {session} -- sh -c 'echo out; echo err >&2; exit 3'"));
    story.tell(&format!("exec {session} -- echo hello"));
    story.tell(&format!("exec {session} -- no-such-program"));
    story.tell(&format!("exec ls {session}"));
    story.tell("exec ls ses_00000000000000000000000000");
    let listed = kit::run(story.home, &["--json", "exec", "ls", &session]).json();
    let first = listed["items"][0]["id"].as_str().unwrap().to_owned();
    story.tell(&format!("exec logs {session} {first}"));
    story.tell(&format!("exec logs --follow {session} {first}"));
    story.tell(&format!("exec logs {session} exec_00000000000000000000000000"));
    story.tell(&format!("exec kill {session} {first}"));
    story.tell(&format!("exec kill {session} exec_00000000000000000000000000"));
    story.tell("run --dir dir -- sh -c 'cat a.txt; echo two >> a.txt'");
    story.tell("run --dir nowhere -- true");
    story.tell("run");
    story.file("root/etc/motd", "hello\n");
    let digest = id(story.tell("image import root team/tools:1"));
    // The hash covers the files' times, so it differs per run.
    story.text = story.text.replace(&digest, "SHA256");
    story.tell("image import nowhere team/tools:1");
    story.tell_briefly("image ls");
    story.tell("image ls extra");
    story.tell("image rm team/tools:1");
    story.tell("image rm team/tools:1");
    story.file("value.txt", "a-secret-value\n");
    story.tell("secret set api --host api.example --agent-type n --file value.txt");
    story.tell("secret set api --host 'not a host' --file value.txt");
    story.tell_briefly("secret ls");
    story.tell("secret ls extra");
    story.tell("secret rekey");
    story.tell("secret rekey extra");
    story.tell("secret rm api");
    story.tell("secret rm api");
    let cached = json!({"enabled": true, "provider": "native", "setup_commands": ["true"], "setup_cache": true});
    server.agent_type("s", cached);
    server.session(json!({"agent_type": "s"}));
    story.tell_briefly("setup-cache ls");
    story.tell("setup-cache ls extra");
    let listed = kit::run(story.home, &["--json", "setup-cache", "ls"]).json();
    let result = listed["items"][0]["id"].as_str().unwrap().to_owned();
    story.tell(&format!("setup-cache rm {result}"));
    story.tell(&format!("setup-cache rm {result}"));
    story.text = story.text.replace(&result, "SETUP");
    story.tell(&format!("shell {session}"));
    let mut terminal = Terminal::new();
    let mut shell = terminal.spawn(story.command(&format!("shell {session}")));
    terminal.type_until("", "$ ");
    terminal.type_until("exit\n", "exit");
    let ran = Ran { code: kit::wait(&mut shell), out: String::new(), err: String::new() };
    story.record(&format!("shell {session}"), &ran, Show::All);
    insta::assert_snapshot!(story.text);
}

#[test]
fn ports() {
    build_init();
    let server = TestServer::start(BINARY);
    server.agent_type("n", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let session = server.session(json!({"agent_type": "n"}))["id"].as_str().unwrap().to_owned();
    let mut story = Story::new(server.home());
    story.tell(&format!("port ls {session}"));
    story.tell("port ls nonsense");
    let link = id(story.tell(&format!("port open {session} 8080")));
    // The link has the session's id and a ticket.
    story.text = story.text.replace(&link, "LINK");
    story.tell(&format!("port open {session} 0"));
    story.tell("forward nonsense 8080");
    let line = format!("forward {session} 8080 --unix box.sock");
    let mut forward = story.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let socket = story.directory.path().join("box.sock");
    until("it listens", || socket.exists().then_some(()));
    kit::signal(&forward, rustix::process::Signal::TERM);
    let ran = Ran { code: kit::wait(&mut forward), out: String::new(), err: String::new() };
    story.record(&line, &ran, Show::All);
    insta::assert_snapshot!(story.text);
}

#[test]
fn a_server_that_is_stopped() {
    let home = tempfile::tempdir().unwrap();
    let mut story = Story::new(home.path());
    let mut server = story.command("serve --listen 127.0.0.1:0").stderr(Stdio::null()).spawn().unwrap();
    until("the server has announced itself", || home.path().join("server.json").exists().then_some(()));
    kit::signal(&server, rustix::process::Signal::TERM);
    let ran = Ran { code: kit::wait(&mut server), out: String::new(), err: String::new() };
    story.record("serve --listen 127.0.0.1:0", &ran, Show::All);
    insta::assert_snapshot!(story.text);
}

/// Checks that the snapshots show every command with success and with failure.
#[test]
fn every_command_has_a_story() {
    let all = commands();
    let is_group = |name: &str| all.iter().any(|other| other.starts_with(&format!("{name} ")));
    let mut shown_outcomes: BTreeMap<&str, [bool; 2]> = BTreeMap::new();
    for name in all.iter().filter(|name| !name.is_empty()) {
        // `mcp` is a group that is also a command.
        if !is_group(name) || name == "mcp" {
            shown_outcomes.insert(name, [false, false]);
        }
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli");
    let folders = [tests.join("output/snapshots"), tests.join("servers/snapshots")];
    for file in folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()) {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.windows(2) {
            let (Some(line), Some(code)) = (pair[0].strip_prefix("$ stead "), pair[1].strip_prefix("exit ")) else {
                continue;
            };
            let words: Vec<&str> = line.split_whitespace().collect();
            let mut known = (1..=words.len().min(3)).rev().map(|depth| words[..depth].join(" "));
            let name = known.find(|name| shown_outcomes.contains_key(name.as_str()));
            if let Some(outcomes) = name.and_then(|name| shown_outcomes.get_mut(name.as_str())) {
                outcomes[usize::from(code != "0")] = true;
            }
        }
    }
    let missing: Vec<String> = shown_outcomes
        .iter()
        .flat_map(|(name, [good, bad])| {
            let lacks = [(good, "as it works"), (bad, "as it fails")];
            lacks.into_iter().filter(|(shown, _)| !**shown).map(move |(_, how)| format!("{name}, {how}"))
        })
        .collect();
    assert!(missing.is_empty(), "no snapshot tells of these; add them to a story:\n{}", missing.join("\n"));
}
