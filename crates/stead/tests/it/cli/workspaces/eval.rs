//! `stead eval`, with a session and without a server.

use crate::cli::kit::{self, run};

#[test]
fn without_a_server_a_directory_can_be_read() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("a.txt"), "one\ntwo\n").unwrap();
    let dir = home.path().to_str().unwrap().to_owned();
    let eval = |args: &[&str]| run(home.path(), &[&["eval"], args].concat());
    assert_eq!(eval(&["print('hi'); 6 * 7"]).ok(), "hi\n42\n");
    assert_eq!(eval(&["--dir", &dir, "read_text('a.txt').split()"]).ok(), "['one', 'two']\n");
    let json = eval(&["--json", "-g", "x=[1, 2]", "y = sum(x)"]).json();
    assert_eq!((&json["ok"], &json["result"]["globals"]["y"]), (&true.into(), &"3".into()), "{json}");
    for (args, output) in [
        (
            &["--dir", &dir, "write_text('b.txt', 'x')"][..],
            "PermissionError: b.txt: without --session nothing can be written.",
        ),
        (&["--dir", &dir, "read_text('../b.txt')"], "ValueError: "),
        (&["1 / 0"], "ZeroDivisionError: division by zero"),
        (&["import os"], "NotImplementedError: import is not available here"),
        (&["-g", "x=nope", "x"], "globals.x is not JSON text"),
        (&["--dir", "/nonexistent", "1"], "cannot open /nonexistent"),
    ] {
        let ran = eval(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(output), "{args:?}: {}", ran.err);
    }
    assert!(!home.path().join("b.txt").exists());
    assert_eq!(eval(&["-g", "x", "1"]).code, Some(2));
}

#[test]
fn with_a_session_its_files_change() {
    let server = kit::server();
    let config = serde_json::json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"});
    server.agent_type("thinker", config);
    let session = server.session(serde_json::json!({"agent_type": "thinker"}));
    let id = session["id"].as_str().unwrap();
    let eval = |code: &str| run(server.home(), &["eval", "--session", id, code]);
    assert_eq!(eval("write_text('made.txt', 'by eval')\nlen(read_text('made.txt'))").ok(), "7\n");
    let failed = eval("write_text('other.txt', 'x')\nraise ValueError('no')");
    assert_eq!(failed.code, Some(1));
    assert!(
        failed.err.contains("ValueError: no") && failed.err.contains("pending file writes were discarded"),
        "{}",
        failed.err
    );
    // The output of code whose declared write is refused is printed.
    let writes = r#"writes:=[{"path": "made.txt", "content": "x"}]"#;
    let refused = run(server.home(), &["tool", "call", id, "eval", "--arg", "code=print('seen')", "--arg", writes]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(1), "seen\n"), "{}", refused.err);
    assert!(refused.err.contains("No file was changed."), "{}", refused.err);
    let listed = run(server.home(), &["tool", "call", id, "glob", "--arg", "pattern=*.txt"]).ok();
    assert_eq!(listed, "made.txt\n");
}
