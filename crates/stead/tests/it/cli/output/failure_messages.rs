//! Failures: one sentence with the cause and what to do; never a stack trace or raw JSON.

use crate::cli::kit::{self, run};

#[test]
fn refusals_are_sentences() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    let mut story = String::new();
    for args in [
        &["session", "show", "nonsense"][..],
        &["session", "show", "../../platform"],
        &["session", "create", "-a", "nobody"],
        &["session", "create", "-a", "coder", "--policy", "teleport"],
        &["session", "create", "-a", "coder", "--repo", "not a url", "--branch", ".."],
        &["session", "ls", "--status", "sleepy"],
        &["tool", "call", &id, "dance"],
        &["tool", "call", &id, "read", "-a", "path=nowhere.txt"],
        &["tool", "call", &id, "read", "-a", "path=x", "-a", "limit=5"],
        &["tool", "call", &id, "read", "-a", "path"],
        &["tool", "call", &id, "read", "--args", "[1]"],
        &["agent-type", "set", "coder", "--data", "{"],
        &["agent-type", "set", "coder", "--data", r#"{"tools": ["ssh"], "provider": "cloud", "colour": "red"}"#],
        &["agent-type", "set", "coder", "/nonexistent.json"],
        &["agent-type", "create", "--data", r#"{"id": "coder"}"#],
        &["agent-type", "rm", "coder"],
        &["project", "get", "none"],
        &["replay", "ses_00000000000000000000000000"],
        &["events", "nonsense", "-f"],
        &["audit", "--session", "nonsense"],
        &["token", "new", "--name", "two words"],
        &["verify", "nonsense"],
    ] {
        let ran = run(home, args);
        assert!(matches!(ran.code, Some(1 | 2)), "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.starts_with("error: "), "{args:?}: {}", ran.err);
        story.push_str(&format!("$ stead {}\n{}\n", args.join(" ").replace(&id, "SES"), ran.shown(home)));
    }
    insta::assert_snapshot!(story);
}

#[test]
fn without_a_server_it_says_how_to_start_one() {
    let home = tempfile::tempdir().unwrap();
    let url = "http://127.0.0.1:9";
    let ran = kit::finish(kit::stead(home.path()).args(["session", "ls"]).env("STEAD_URL", url));
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.err,
        "error: no Stead server answers at http://127.0.0.1:9\n  because Connection refused (os error 111)\n\
         hint: start one with `stead up` or `stead serve`, or set STEAD_URL\n"
    );
}

#[test]
fn a_wrong_token_is_explained() {
    let server = kit::server();
    let ran = kit::finish(kit::stead(server.home()).args(["session", "ls"]).env("STEAD_TOKEN", "stead_wrong"));
    assert_eq!(ran.code, Some(1));
    insta::assert_snapshot!(ran.err);
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let home = tempfile::tempdir().unwrap();
    let with = |name: &str, value: &str, args: &[&str]| {
        let ran = kit::finish(kit::stead(home.path()).args(args).env(name, value));
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{name}={value}: {}", ran.err);
        ran.shown(home.path())
    };
    let mut story = String::new();
    for (name, value) in [
        ("STEAD_LISTEN", "nowhere"),
        ("STEAD_LISTEN", "0.0.0.0:0"),
        ("STEAD_DATABASE_URL", "mysql://root:s3cret@db"),
        ("STEAD_DATABASE_URL", "sqlite:/proc/nowhere/x.db"),
        ("WORKSPACE_DEFAULT_MEMORY", "lots"),
        ("WORKSPACE_DEFAULT_PROVIDER", "cloud"),
        ("WORKSPACE_MAX_CONCURRENT", "many"),
        ("STEAD_LOG", "stead=noisy=x"),
        ("STEAD_TOKEN", "two words"),
    ] {
        // The flag would override the variable.
        let args = if name == "STEAD_LISTEN" { &["serve"][..] } else { &["serve", "--listen", "127.0.0.1:0"] };
        let shown = with(name, value, args);
        assert!(!shown.contains("s3cret"), "{shown}");
        story.push_str(&format!("{name}={value}\n{shown}\n").replace("s3cret", "…"));
    }
    std::fs::write(home.path().join("stead.toml"), "listen = '127.0.0.1:0'\ntypo = 1\n").unwrap();
    story.push_str(&format!("stead.toml\n{}\n", with("X", "", &["session", "ls"])));
    insta::assert_snapshot!(story);
}
