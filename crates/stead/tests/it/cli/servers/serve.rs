//! `stead serve` as a process: one per home, announced in `server.json`, stopped cleanly.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::kit::{self, run};

/// Starts a server on a free port and waits until it has announced itself.
fn serve(home: &Path) -> Child {
    announced(home, kit::stead(home).args(["serve", "--listen", "127.0.0.1:0"]))
}

/// Starts a server and waits until `server.json` names its process.
fn announced(home: &Path, command: &mut Command) -> Child {
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let pid = || -> Option<u64> {
        let text = std::fs::read_to_string(home.join("server.json")).ok()?;
        serde_json::from_str::<Value>(&text).ok()?["pid"].as_u64()
    };
    while pid() != Some(u64::from(child.id())) {
        assert!(child.try_wait().unwrap().is_none(), "the server ended");
        assert!(Instant::now() < deadline, "the server did not announce itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_signal_ends_it_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = tempfile::tempdir().unwrap();
        let mut child = serve(home.path());
        run(home.path(), &["session", "ls"]).ok();
        kit::signal(&child, signal);
        assert_eq!(kit::wait(&mut child), Some(0));
        assert!(!home.path().join("server.json").exists());
    }
}

#[test]
fn it_says_where_it_is_and_keeps_its_files_to_itself() {
    let parent = tempfile::tempdir().unwrap();
    let home = parent.path().join("deep/home");
    let mut child = serve(&home);
    let record: Value = serde_json::from_str(&std::fs::read_to_string(home.join("server.json")).unwrap()).unwrap();
    assert_eq!(record["pid"], child.id());
    assert!(record["url"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{record}");
    assert!(record["started_at"].as_str().unwrap().ends_with('Z'), "{record}");
    for (name, mode) in [("", 0o700), ("token", 0o600), ("stead.db", 0o600), ("server.json", 0o600), ("lock", 0o600)] {
        let found = home.join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name}");
    }
    assert_eq!(std::fs::read_to_string(home.join("token")).unwrap().trim().len(), "stead_".len() + 64);
    kit::signal(&child, Signal::TERM);
    assert_eq!(kit::wait(&mut child), Some(0));
}

#[test]
fn a_second_server_on_the_same_home_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut first = serve(home.path());
    let second = run(home.path(), &["serve", "--listen", "127.0.0.1:0"]);
    let shown = second.shown(home.path()).replace(&first.id().to_string(), "PID");
    insta::assert_snapshot!(shown);
    run(home.path(), &["session", "ls"]).ok();
    // After a crash another server can use the home, and the stale `server.json` is not trusted.
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(home.path().join("server.json").exists());
    let left = std::fs::read_to_string(home.path().join("server.json")).unwrap();
    let left: Value = serde_json::from_str(&left).unwrap();
    let port = kit::default_port();
    let nobody = run(home.path(), &["session", "ls"]);
    drop(port);
    assert_eq!(nobody.code, Some(1));
    assert!(!nobody.err.contains(left["url"].as_str().unwrap()), "{}", nobody.err);
    let mut third = serve(home.path());
    kit::signal(&third, Signal::TERM);
    assert_eq!(kit::wait(&mut third), Some(0));
}

#[test]
fn an_address_that_is_taken_is_named() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = run(home.path(), &["serve", "--listen", &address]);
    assert_eq!(ran.code, Some(1));
    insta::assert_snapshot!(ran.shown(home.path()));
}

#[test]
fn it_starts_again_with_the_same_token() {
    let home = tempfile::tempdir().unwrap();
    let token = || std::fs::read_to_string(home.path().join("token")).unwrap();
    let mut child = serve(home.path());
    let first = token();
    kit::signal(&child, Signal::TERM);
    kit::wait(&mut child);
    let mut child = serve(home.path());
    assert_eq!(token(), first);
    kit::signal(&child, Signal::TERM);
    assert_eq!(kit::wait(&mut child), Some(0));
}

#[test]
fn a_configured_token_opens_a_server_that_others_can_reach() {
    let home = tempfile::tempdir().unwrap();
    let made = run(home.path(), &["token", "create", "--name", "ci", "--offline", "--json"]).json();
    let entry = format!("[[tokens]]\nname = \"ci\"\nhash = {}\n", made["hash"]);
    std::fs::write(home.path().join("stead.toml"), format!("listen = \"0.0.0.0:0\"\n{entry}")).unwrap();
    let mut child = announced(home.path(), kit::stead(home.path()).arg("serve"));
    let token = made["token"].as_str().unwrap();
    kit::finish(kit::stead(home.path()).args(["session", "ls"]).env("STEAD_TOKEN", token)).ok();
    kit::signal(&child, Signal::TERM);
    assert_eq!(kit::wait(&mut child), Some(0));
}

/// Logs are JSON lines if standard error is not a terminal, and never contain a token.
#[test]
fn the_log_is_json_lines_without_secrets() {
    let server = kit::server();
    run(server.home(), &["session", "ls"]).ok();
    let token = std::fs::read_to_string(server.home().join("token")).unwrap();
    let log = server.log();
    assert!(!log.contains(token.trim()));
    let lines = log.lines().filter(|line| !line.starts_with('→'));
    for line in lines {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value["level"].is_string(), "{line}");
    }
}

/// When `server.json` appears, the agent type exists too.
/// A shell, a CI runner or `time -o` can leave open files to the programs that it starts.
#[test]
fn files_that_a_server_inherited_do_not_reach_its_boxes() {
    crate::rows::build_init();
    let home = tempfile::tempdir().unwrap();
    let stead = kit::stead(home.path());
    let run = "ls /proc/self/fd | wc -l; echo made";
    let mut shell = Command::new("sh");
    shell.env_clear().envs(stead.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    shell.args(["-c", &format!("exec 3</dev/null 4</dev/null 9</dev/null; exec \"$0\" run -- sh -c '{run}'")]);
    let printed = kit::finish(shell.arg(stead.get_program())).ok();
    // Standard files, and the directory that `ls` reads.
    assert_eq!(printed, "4\nmade\n");
}

#[test]
fn up_is_announced_with_its_agent_type() {
    let home = tempfile::tempdir().unwrap();
    crate::rows::build_init();
    let mut child =
        announced(home.path(), kit::stead(home.path()).args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::null()));
    let shown = run(home.path(), &["agent-type", "get", "example"]);
    kit::signal(&child, Signal::TERM);
    assert_eq!(kit::wait(&mut child), Some(0));
    shown.ok();
}

#[test]
fn a_git_credential_with_a_wrong_field_stops_the_start() {
    for (line, expected) in [
        ("project = 'a/b'", "the git credential for \"git.example\" has no valid project"),
        ("project = ''", "the git credential for \"git.example\" has no valid project"),
        ("projekt = 'web'", "unknown field `projekt`"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let text = format!("[[git_credentials]]\nhost = 'git.example'\ntoken_file = '/nonexistent'\n{line}\n");
        let file = home.path().join("credentials.toml");
        std::fs::write(&file, &text).unwrap();
        let mut from_file = kit::stead(home.path());
        let in_file =
            kit::finish(from_file.args(["serve", "--listen", "127.0.0.1:0"]).env("STEAD_GIT_CREDENTIALS", &file));
        std::fs::write(home.path().join("stead.toml"), &text).unwrap();
        let in_settings = run(home.path(), &["serve", "--listen", "127.0.0.1:0"]);
        for (ran, path) in [(in_file, "credentials.toml"), (in_settings, "stead.toml")] {
            assert!(ran.code != Some(0) && ran.err.contains(expected) && ran.err.contains(path), "{line}: {}", ran.err);
        }
    }
}
