//! Runs the binary, and replaces the parts of its output that differ from run to run.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::TestServer;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_stead");

/// The result of one run of the binary.
#[derive(Debug)]
pub(in crate::cli) struct Ran {
    pub(in crate::cli) code: Option<i32>,
    pub(in crate::cli) out: String,
    pub(in crate::cli) err: String,
}

impl Ran {
    #[track_caller]
    pub(in crate::cli) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    pub(in crate::cli) fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("not JSON ({error}): {out}"))
    }

    /// The exit code and both outputs, normalised.
    pub(in crate::cli) fn shown(&self, home: &Path) -> String {
        let code = self.code.map_or("a signal".to_owned(), |code| code.to_string());
        normal(&format!("exit {code}\n{}{}", self.out, self.err), home)
    }
}

/// The binary with this home; from the environment it gets only `PATH`.
pub(in crate::cli) fn stead(home: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.env_clear().env("STEAD_HOME", home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.stdin(Stdio::null());
    command
}

pub(in crate::cli) fn run(home: &Path, args: &[&str]) -> Ran {
    finish(stead(home).args(args))
}

pub(in crate::cli) fn finish(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// A server with an agent type `coder`.
pub(in crate::cli) fn server() -> TestServer {
    let server = TestServer::start(BINARY);
    server.agent_type(
        "coder",
        json!({"enabled": true, "provider": "memory", "workspace_policy": "empty", "tools": ["ls", "read", "write", "grep", "glob", "rm"]}),
    );
    server
}

/// Returns the id of a new active session of `coder`.
pub(in crate::cli) fn session(server: &TestServer) -> String {
    server.session(json!({"agent_type": "coder"}))["id"].as_str().unwrap().to_owned()
}

/// Lock for tests that use or occupy the default port.
pub(in crate::cli) fn default_port() -> MutexGuard<'static, ()> {
    static PORT: Mutex<()> = Mutex::new(());
    PORT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a child to end by itself.
pub(in crate::cli) fn wait(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the program did not end within 30 s");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every command and command group, read from the program's help; the first entry is the program
/// itself.
pub(crate) fn commands() -> Vec<String> {
    let mut found = vec![String::new()];
    let mut next = 0;
    while let Some(group) = found.get(next).cloned() {
        next += 1;
        let text = help(&group);
        let Some((_, list)) = text.split_once("Commands:\n") else { continue };
        // Continuation lines of a description are indented further.
        let names = list.lines().take_while(|line| line.starts_with("  ")).filter(|line| !line.starts_with("   "));
        let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
        found.extend(names.map(|name| format!("{group} {name}").trim().to_owned()));
    }
    found
}

/// The help text of a command.
pub(crate) fn help(command: &str) -> String {
    let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    run(Path::new("/nonexistent"), &args).ok()
}

pub(in crate::cli) fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

/// Replaces paths, ids, hashes, times and process ids by placeholders.
pub(in crate::cli) fn normal(text: &str, home: &Path) -> String {
    let text = text.replace(&home.display().to_string(), "HOME").replace(BINARY, "stead");
    let mut shown = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, from) = rest.split_at(start);
        shown.push_str(before);
        let end = from
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | ':' | '.' | '-'))
            .unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let (word, tail) = match word.strip_suffix([':', '.']) {
            Some(bare) => (bare, &word[bare.len()..]),
            None => (word, ""),
        };
        let unit = after.strip_prefix(" ms").or(after.strip_prefix(" s"));
        let unit = unit.filter(|more| more.is_empty() || more.starts_with('\n'));
        if let (Some(more), true) = (unit, word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')) {
            shown.push_str("TIME");
            rest = more;
            continue;
        }
        shown.push_str(&name_of(word));
        shown.push_str(tail);
        rest = after;
    }
    shown.push_str(rest);
    without_durations(&shown)
}

/// Replaces durations by a placeholder.
fn without_durations(text: &str) -> String {
    let mut parts = text.split(" ms");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let bare = shown.trim_end_matches(|c: char| c.is_ascii_digit());
        shown = if bare.len() < shown.len() { format!("{bare}N ms{part}") } else { format!("{shown} ms{part}") };
    }
    shown
}

fn name_of(word: &str) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let prefixes = [
        ("ses_", 30),
        ("ws_", 29),
        ("call_", 31),
        ("sst_", 107),
        ("tok_", 30),
        ("stead_", 70),
        ("link_", 69),
        ("blake3:", 71),
        ("run_", 30),
        ("snap_", 31),
        ("exec_", 31),
    ];
    for (prefix, length) in prefixes {
        if word.starts_with(prefix) && word.len() == length {
            return prefix.to_uppercase().trim_end_matches([':', '_']).to_owned();
        }
    }
    // A session with a path, as in the arguments of `cp`.
    if let Some((session, path)) = word.split_once(':').filter(|(session, _)| session.len() == 30) {
        return format!("{}:{path}", name_of(session));
    }
    // A timestamp in the API's format.
    if word.len() == 24 && word.ends_with('Z') && word.get(10..11) == Some("T") {
        return "yyyy-mm-ddThh:mm:ss.mmmZ".to_owned();
    }
    let mut parts = word.split([':', '.', '-']);
    let shape: Vec<usize> = parts.clone().map(str::len).collect();
    match (parts.all(digits), &shape[..]) {
        (true, [2, 2, 2, 3]) => "hh:mm:ss.mmm".to_owned(),
        (true, [2, 2, 2]) => "hh:mm:ss".to_owned(),
        (true, [4, 2, 2]) => "yyyy-mm-dd".to_owned(),
        (true, [2, 2]) => if word.contains(':') { "hh:mm" } else { "mm-dd" }.to_owned(),
        (true, [3, 1, 1, 1, _]) => "127.0.0.1:PORT".to_owned(),
        _ => word.to_owned(),
    }
}

#[test]
fn what_differs_is_named() {
    let text = "at 2026-11-15 09:30:00 (09:30:00.123) http://127.0.0.1:4711: ses_01m7gpj79zefqvayz8yajwcrf1, 12 events.\ntook 12 ms\n1.5 s\n";
    assert_eq!(
        normal(text, Path::new("/nowhere")),
        "at yyyy-mm-dd hh:mm:ss (hh:mm:ss.mmm) http://127.0.0.1:PORT: SES, 12 events.\ntook TIME\nTIME\n"
    );
}
