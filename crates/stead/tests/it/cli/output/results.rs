//! Commands that succeed, as text and as JSON.

use serde_json::{Value, json};

use crate::cli::kit::{self, normal, run};

/// The log shows the newest records, oldest of them first.
#[test]
fn the_newest_of_the_audit_log_are_shown() {
    let server = kit::server();
    for number in 0..5 {
        server.agent_type(&format!("t{number}"), serde_json::json!({}));
    }
    let ids = |args: &[&str]| -> Vec<u64> {
        let listed = kit::run(server.home(), &[&["audit", "--json"], args].concat()).json();
        listed["items"].as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect()
    };
    let all = ids(&[]);
    assert!(all.len() >= 6 && all.is_sorted(), "{all:?}");
    assert_eq!(ids(&["--limit", "2"]), all[all.len() - 2..]);
    assert_eq!(ids(&["--limit", "2", "--after", "0"]), all[..2]);
    assert_eq!(ids(&["--limit", "2", "--type", "admin_change", "--after", &all[1].to_string()]), all[2..4]);
    let shown = kit::run(server.home(), &["audit", "--limit", "2"]).ok();
    assert!(shown.contains("\"id\":\"t4\"") && !shown.contains("\"id\":\"t2\""), "{shown}");
}

#[test]
fn a_session_from_plan_to_close() {
    let server = kit::server();
    let home = server.home();
    let mut story = String::new();
    let mut tell = |args: &[&str]| {
        let ran = run(home, args);
        let command_line = normal(&format!("$ stead {}\n", args.join(" ")), home);
        story.push_str(&format!("{command_line}{}\n", ran.shown(home)));
        ran
    };
    tell(&["plan", "--agent-type", "coder", "--branch", "main", "--pull-request", "7", "-e", "A=1"]);
    let created = tell(&["session", "create", "--agent-type", "coder", "--task-id", "t-1"]);
    let id = created.out.trim().to_owned();
    tell(&["tool", "call", &id, "write", "--arg", "path=src/a.txt", "--arg", "content=one\ntwo\n"]);
    tell(&["tool", "call", &id, "read", "--arg", "path=src/a.txt"]);
    tell(&["tool", "call", &id, "read", "--args", r#"{"path":"src/a.txt"}"#, "--arg", "limit:=1"]);
    tell(&["tool", "call", &id, "ls", "--arg", "path=src"]);
    tell(&["tool", "call", &id, "grep", "--arg", "pattern=t.o"]);
    tell(&["tool", "call", &id, "glob", "--arg", "pattern=**/*.txt"]);
    tell(&["tool", "call", &id, "bash", "--arg", "command=id"]);
    tell(&["session", "ls"]);
    tell(&["session", "show", &id]);
    tell(&["state", &id]);
    tell(&["replay", &id]);
    tell(&["events", &id, "--limit", "4"]);
    tell(&["session", "close", &id]);
    tell(&["session", "close", &id]);
    tell(&["tool", "call", &id, "ls"]);
    tell(&["verify", &id]);
    // The numbers of ledger records and of signed ones depend on the timing.
    let settled = |line| if str::contains(line, " ledger records match") { "· ledger records match" } else { line };
    let story: String = story.lines().map(settled).flat_map(|line| [line, "\n"]).collect();
    insta::assert_snapshot!(story);
}

#[test]
fn what_is_declared() {
    let server = kit::server();
    let home = server.home();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, r#"{"enabled": true, "provider": "memory", "tools": ["ls"]}"#).unwrap();
    let file = file.display().to_string();

    assert_eq!(run(home, &["agent-type", "create", "--data", r#"{"id":"extra"}"#]).ok(), "declared extra\n");
    assert_eq!(run(home, &["agent-type", "set", "extra", &file]).json()["tools"], json!(["ls"]));
    assert_eq!(run(home, &["agent-type", "get", "extra", "--workspace-config"]).json()["tools"], json!(["ls"]));
    assert_eq!(run(home, &["agent-type", "get", "extra"]).json()["id"], "extra");
    insta::assert_snapshot!(normal(&run(home, &["agent-type", "ls"]).ok(), home));
    assert_eq!(run(home, &["agent-type", "rm", "extra"]).ok(), "removed extra\n");

    let project = run(home, &["project", "set", "web", "--data", r#"{"default_branch":"trunk"}"#]).json();
    assert_eq!(run(home, &["project", "get", "web"]).json(), project);
    let platform = run(home, &["platform", "set", "--data", r#"{"allowed_git_hosts":["git.example"]}"#]).json();
    assert_eq!(run(home, &["platform", "get"]).json(), platform);
    assert_eq!(platform["allowed_git_hosts"], json!(["git.example"]));
}

#[test]
fn the_rest_as_tables() {
    let server = kit::server();
    let home = server.home();
    let show = |args: &[&str]| run(home, args).shown(home);
    // The state of the other providers depends on the machine.
    let providers = show(&["providers"]);
    let row = |name: &str| providers.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    for words in [
        "memory    healthy",
        "git, empty, bundle",
        "ls, read, write, edit, glob, grep, rm, move, copy, mkdir, stat, multi_edit, eval",
    ] {
        assert!(row("memory").contains(words), "{words}: {providers}");
    }
    assert!(row("provider").contains("enforced limits") && !row("native").is_empty(), "{providers}");
    insta::assert_snapshot!("pool", show(&["pool"]));
    // The tools' descriptions come from the server; check only that they are shown.
    let tools = run(home, &["tools"]).ok();
    assert!(tools.starts_with("tool "), "{tools}");
    let write = tools.lines().find(|line| line.starts_with("write ")).unwrap_or_default();
    assert!(write.contains(" path* content* mode"), "{tools}");
    insta::assert_snapshot!("audit", show(&["audit"]));
}

#[test]
fn lists_are_followed_and_say_when_there_is_more() {
    let server = kit::server();
    let home = server.home();
    for _ in 0..5 {
        kit::session(&server);
    }
    let rows = |out: &str| out.lines().count() - 1;
    let three = run(home, &["session", "ls", "--limit", "3"]);
    assert_eq!(rows(&three.out), 3);
    assert_eq!(three.err, "only the first 3 are shown; --limit N shows up to N\n");
    let all = run(home, &["session", "ls"]);
    assert_eq!((rows(&all.out), all.err.as_str()), (5, ""));
    assert!(run(home, &["session", "ls", "--limit", "3", "--json"]).json()["next_cursor"].is_string());
    assert_eq!(rows(&run(home, &["session", "ls", "--status", "closed"]).ok()), 0);
}

#[test]
fn the_same_key_gives_the_same_session() {
    let server = kit::server();
    let create = ["session", "create", "-a", "coder", "--idempotency-key", "k1", "--json"];
    let id = |value: Value| value["id"].clone();
    assert_eq!(id(run(server.home(), &create).json()), id(run(server.home(), &create).json()));
}

#[test]
fn a_session_token_opens_its_session_only() {
    let server = kit::server();
    let (home, id, other) = (server.home(), kit::session(&server), kit::session(&server));
    let token = run(home, &["session", "token", &id]).ok();
    let with_token = |args: &[&str]| kit::finish(kit::stead(home).args(args).env("STEAD_TOKEN", token.trim()));
    with_token(&["tool", "call", &id, "ls"]).ok();
    with_token(&["events", &id, "--after", "0"]).ok();
    let refused = with_token(&["tool", "call", &other, "ls"]);
    assert_eq!(
        (refused.code, refused.err.lines().next()),
        (Some(1), Some(format!("error: there is no session '{other}'").as_str()))
    );
    assert_eq!(with_token(&["session", "ls"]).code, Some(1));
}

#[test]
fn a_files_content_goes_into_a_pipe_as_it_is() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    let content = "\u{1b}[31mred\u{1b}[0m\tand \u{7f}\n";
    run(home, &["tool", "call", &id, "write", "-a", "path=a", "-a", &format!("content={content}")]).ok();
    assert_eq!(run(home, &["tool", "call", &id, "read", "-a", "path=a"]).ok(), content);
    // A table contains no control characters.
    let events = run(home, &["events", &id]).ok();
    assert!(!events.chars().any(|c| c.is_control() && c != '\n'), "{events}");
}

#[test]
fn arguments_come_from_standard_input() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("args.json");
    std::fs::write(&file, r#"{"path": "a.txt", "content": "hi"}"#).unwrap();
    let input = std::fs::File::open(&file).unwrap();
    let ran = kit::finish(kit::stead(home).args(["tool", "call", &id, "write", "--args", "-"]).stdin(input));
    assert_eq!(ran.ok(), "Created a.txt (2 bytes).\n");
}
