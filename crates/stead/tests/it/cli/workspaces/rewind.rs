//! Rewind, blame and clones of past states from the command line.

use crate::cli::kit::{self, run};

#[test]
fn going_back_and_forth() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    let write = |content: &str| {
        let content = format!("content={content}");
        let call = ["--json", "tool", "call", &id, "write", "-a", "path=a.txt", "-a", &content, "-a", "mode=overwrite"];
        run(home, &call).json()["seq"].to_string()
    };
    let (first, second) = (write("one"), write("two"));
    let text = || run(home, &["cp", &format!("{id}:a.txt"), "-"]).ok();
    let answer = run(home, &["blame", &id, "/a.txt"]).ok();
    assert!(answer.starts_with(&format!("a.txt: written by tool write (admin:admin) at event {second}, ")), "{answer}");
    assert_eq!(run(home, &["blame", &id, "b"]).ok(), "b: not changed since the session started\n");
    let listed = run(home, &["rewind", &id]).ok();
    assert_eq!(listed.lines().filter(|line| line.contains("kept")).count(), 3, "{listed}");

    let went = run(home, &["rewind", &id, "--to", &first]);
    assert!(went.err.contains("undoes it") || went.err.is_empty(), "{}", went.err);
    assert_eq!(went.ok(), format!("the files are as they were at event {first}\n"));
    assert_eq!(text(), "one");
    let back = run(home, &["--json", "rewind", &id, "--to", &second]).json();
    assert_eq!((back["to"].to_string(), text()), (second.clone(), "two".to_owned()));
    let clone = run(home, &["--json", "session", "clone", &id, "--at", &first]).json();
    let clone = clone["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(run(home, &["cp", &format!("{clone}:a.txt"), "-"]).ok(), "one");

    let refused = run(home, &["rewind", &id, "--to", "4000"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("the session has no event 4000: its last is"), "{}", refused.err);
    assert_eq!(run(home, &["rewind", &id, "--to", "0"]).code, Some(2));
    assert_eq!(run(home, &["blame", &id]).code, Some(2));
}
