//! `exec`, `shell` and `run`, with pipes and with a real terminal.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use stead_testkit::{GitServer, TestServer};

use crate::cli::kit::{self, BINARY, finish, run, signal, stead, wait};
use crate::cli::terminal::Terminal;
use crate::rows::build_init;

fn server_with_box() -> (TestServer, String) {
    build_init();
    let server = TestServer::start(BINARY);
    server.agent_type("n", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let session = server.session(json!({"agent_type": "n"}))["id"].as_str().unwrap().to_owned();
    (server, session)
}

#[test]
fn exec_streams_feeds_and_ends_as_the_command_does() {
    let (server, session) = server_with_box();
    let home = server.home();
    let ran = run(home, &["exec", &session, "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(7), "out\n", "err\n"));
    let mut child = stead(home);
    child.args(["exec", &session, "--", "sh", "-c", "wc -c; head -c 3000000 /dev/zero | wc -c"]);
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&vec![b'x'; 200_000]).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "200000\n3000000\n");
    let answer = run(home, &["--json", "exec", &session, "--", "echo", "hi"]).json();
    assert_eq!((&answer["exit_code"], &answer["stdout"]), (&json!(0), &json!("hi\n")));
    let ran = run(home, &["exec", &session, "--", "no-such-program"]);
    assert_eq!(ran.code, Some(127));
    assert!(ran.err.starts_with("cannot run \"no-such-program\": "), "{}", ran.err);
    assert_eq!(run(home, &["exec", &session, "--", "/etc"]).code, Some(126));
    let answer = run(home, &["--json", "exec", &session, "--", "no-such-program"]);
    let exec: serde_json::Value =
        serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {}", answer.out));
    assert_eq!((answer.code, &exec["exit_code"]), (Some(127), &json!(127)), "{exec}");
    let ran = run(home, &["exec", "ses_00000000000000000000000000", "--", "true"]);
    assert_eq!(ran.code, Some(125), "{}", ran.err);
    assert_eq!(run(home, &["exec", &session]).code, Some(2));
}

#[test]
fn execs_are_listed_read_and_ended() {
    let (server, session) = server_with_box();
    let home = server.home();
    let body = json!({"command": "echo one; echo two >&2; sleep 300", "background": true});
    let begun = server.client().post(&format!("/sessions/{session}/execs"), body).expect(201);
    let id = begun["id"].as_str().unwrap();
    let listed = run(home, &["exec", "ls", &session]).ok();
    assert!(listed.contains(id) && listed.contains("running"), "{listed}");
    let read = || run(home, &["exec", "logs", &session, id]);
    let logs = stead_testkit::until("the output of the exec", || {
        let logs = read();
        (logs.out == "one\n" && logs.err == "two\n").then_some(logs)
    });
    assert_eq!(logs.code, Some(0));
    let page = run(home, &["--json", "exec", "logs", &session, id]).json();
    assert_eq!((&page["status"], &page["more"]), (&json!("running"), &json!(false)), "{page}");
    let mut child = stead(home);
    let mut child = child.args(["exec", "logs", "--follow", &session, id]).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(run(home, &["exec", "kill", &session, id]).code, Some(0));
    assert_eq!(wait(&mut child), Some(0), "the reader ends with the exec");
    let ended = run(home, &["--json", "exec", "ls", &session]).json();
    assert_eq!(ended["items"][0]["killed"], true, "{ended}");
    assert_eq!(run(home, &["exec", "kill", &session, "exec_00000000000000000000000000"]).code, Some(1));
}

#[test]
fn an_interrupt_is_the_commands() {
    let (server, session) = server_with_box();
    let script = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let mut child = stead(server.home());
    let mut child = child.args(["exec", &session, "--", "bash", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut output = [0; 6];
    out.read_exact(&mut output).unwrap();
    signal(&child, rustix::process::Signal::INT);
    assert_eq!(wait(&mut child), Some(9));
}

#[test]
fn a_shell_is_a_terminal_that_follows_this_one_and_gives_it_back() {
    let (server, session) = server_with_box();
    let mut terminal = Terminal::new();
    let mut command = stead(server.home());
    command.args(["shell", &session]);
    let mut child = terminal.spawn(command);
    terminal.type_until("", "$ ");
    terminal.type_until("echo size $(stty size) $((40 + 2))\n", "size 33 101 42");
    assert!(terminal.is_raw());
    terminal.resize(50, 140);
    // This is not the child's controlling terminal, so the kernel sends no signal.
    signal(&child, rustix::process::Signal::WINCH);
    let wait_for_it = "until [ \"$(stty size)\" = '50 140' ]; do sleep 0.1; done; echo now it is $((100 + 40))\n";
    terminal.type_until(wait_for_it, "now it is 140");
    terminal.type_until("exit 6\n", "exit");
    assert_eq!(terminal.until_end(&mut child), Some(6));
    assert!(!terminal.is_raw(), "the terminal is as it was");
    let refused = run(server.home(), &["shell", &session]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
}

#[test]
fn a_shell_is_left_and_found_again() {
    let (server, session) = server_with_box();
    let shell = |more: &[&str]| {
        let mut command = stead(server.home());
        command.args(["shell", &session]).args(more);
        command
    };
    let mut terminal = Terminal::new();
    let mut child = terminal.spawn(shell(&[]));
    terminal.type_until("", "$ ");
    terminal.type_until("kept=$((40 + 2)); echo set $kept\n", "set 42");
    terminal.type_until("\u{1d}", "To come back: ");
    assert_eq!(terminal.until_end(&mut child), Some(0));
    assert!(!terminal.is_raw(), "the terminal is as it was");
    let answer = terminal.seen.rsplit("To come back: ").next().unwrap().trim().to_owned();
    let exec = answer.strip_prefix(&format!("stead shell {session} --attach ")).unwrap_or_else(|| panic!("{answer}"));

    // Another terminal of another size shows the same shell with its previous output.
    let mut other = Terminal::new();
    other.resize(20, 60);
    let mut child = other.spawn(shell(&["--attach", exec]));
    other.type_until("", "set 42");
    let wait_for_it = "until [ \"$(stty size)\" = '20 60' ]; do sleep 0.1; done; echo again $((kept + 1))\n";
    other.type_until(wait_for_it, "again 43");
    other.type_until("exit 3\n", "exit");
    assert_eq!(other.until_end(&mut child), Some(3));
    let mut second = Terminal::new();
    let mut child = second.spawn(shell(&["--attach", exec]));
    assert_eq!(second.until_end(&mut child), Some(1), "{}", second.seen);
}

#[test]
fn run_works_on_a_copy_and_applies_all_or_nothing() {
    build_init();
    let scratch = tempfile::tempdir().unwrap();
    let (home, dir) = (scratch.path().join("home"), scratch.path().join("dir"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("a.txt"), "one\n").unwrap();
    std::fs::write(dir.join("image"), [0, 159, 146, 150]).unwrap();
    let root = dir.to_str().unwrap();
    let change = "cat a.txt; echo two >> a.txt; printf '\\0\\1\\2' > image; printf '\\0\\377' > new; echo x > t; exit";
    let go = |more: &[&str], script: &str| {
        let mut args = vec!["run", "--dir", root];
        args.extend(more);
        args.extend(["--", "sh", "-c", script]);
        finish(stead(&home).args(args))
    };
    // Without a running server, `run` starts its own. The directory does not change.
    let ran = go(&[], &format!("{change} 5"));
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), "one\n"), "{}", ran.err);
    assert!(ran.err.contains("+two") && ran.err.contains("GIT binary patch"), "{}", ran.err);
    let note = format!("{root} is unchanged; run with --apply to apply 4 changes");
    assert!(ran.err.contains(&note), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(dir.join("a.txt")).unwrap(), "one\n");
    // The changes of a failed command are not applied; those of a successful one are, including
    // binary files.
    assert_eq!(go(&["--apply"], &format!("{change} 1")).code, Some(1));
    assert!(!dir.join("t").exists());
    let ran = go(&["--apply"], &format!("{change} 0"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(dir.join("a.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(std::fs::read(dir.join("image")).unwrap(), [0, 1, 2]);
    assert_eq!(std::fs::read(dir.join("new")).unwrap(), [0, 255]);
    // The binary file changes meanwhile: nothing is applied.
    let watched = dir.join("image");
    let mut slow = stead(&home);
    slow.args(["run", "--dir", root, "--apply", "--", "sh", "-c"]);
    slow.arg("echo three >> a.txt; printf '\\0\\7' > image; echo ready; cat");
    let mut slow = slow.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    slow.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    std::fs::write(&watched, [9, 0, 9]).unwrap();
    // `wait_with_output` closes standard input, which ends the command.
    let ran = slow.wait_with_output().unwrap();
    let output = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(125), "{output}");
    assert!(output.contains("image is not what the session began with"), "{output}");
    assert_eq!(std::fs::read_to_string(dir.join("a.txt")).unwrap(), "one\ntwo\n", "nothing half done");
    assert_eq!(leftovers(&dir), ["a.txt", "image", "new", "t"]);
    assert_eq!(go(&["--repo", "https://x/y"], "true").code, Some(2));
}

fn leftovers(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_the_git_tool_says_is_shown_and_where_the_session_began() {
    let (git, server) = (GitServer::start(), TestServer::start(BINARY));
    let commit = git.repository("app", &[("a.txt", "one\n")]).remote("main");
    build_init();
    server.client().put("/platform", json!({"allowed_git_hosts": [git.host()]})).expect(200);
    server.agent_type("g", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let id = run(server.home(), &["session", "create", "-a", "g", "--repo", &git.url("app")]).ok();
    let call = |arguments: &str| run(server.home(), &["tool", "call", id.trim(), "git", "--args", arguments]);
    assert!(call(r#"{"command": "status"}"#).ok().contains("working tree clean"));
    let failed = call(r#"{"command": "checkout", "args": ["--", "nothing"]}"#);
    assert!(failed.out.contains("nothing") && failed.err.contains("exit code"), "{}{}", failed.out, failed.err);
    assert!(run(server.home(), &["session", "show", id.trim()]).ok().contains(&commit));
}

#[test]
fn run_warns_about_missing_parts_of_a_repository() {
    build_init();
    let (git, server) = (GitServer::start(), TestServer::start(BINARY));
    git.repository("app", &[(".gitattributes", "*.bin filter=lfs\n"), ("a.bin", &git.keep("kept", b"content"))]);
    server.client().put("/platform", json!({"allowed_git_hosts": [git.host()]})).expect(200);
    let ran = run(server.home(), &["run", "--repo", &git.url("app"), "--", "cat", "a.bin"]);
    assert!(ran.out.starts_with("version https://git-lfs") && ran.err.contains("left as pointers"), "{}", ran.err);
}

/// Requests that the server has answered so far, without those for its metrics.
fn requests(server: &TestServer) -> u64 {
    let metrics = server.client().get("/metrics").text;
    let lines = metrics.lines().filter(|line| line.starts_with("stead_http_requests_total{"));
    let others = lines.filter(|line| !line.contains("route=\"/metrics\""));
    others.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).map(|count| count as u64).sum()
}

#[test]
fn run_and_exec_need_few_requests() {
    build_init();
    let server = kit::server();
    let home = server.home();
    let counted = |args: &[&str]| {
        let before = requests(&server);
        run(home, args).ok();
        requests(&server) - before
    };
    // The first run on a server also declares the agent type.
    counted(&["run", "--", "true"]);
    // Create, start, follow, diff and close. A busy machine may need further requests to wait.
    let ran = counted(&["run", "--", "true"]);
    assert!((5..=7).contains(&ran), "stead run made {ran} requests");
    let session = run(home, &["session", "create", "--agent-type", "stead-run-native"]).ok();
    // Start and follow: /dev/null has no input to send.
    assert_eq!(counted(&["exec", session.trim(), "--", "true"]), 2);
    assert_eq!(run(home, &["exec", session.trim(), "--", "cat"]).ok(), "");
}
