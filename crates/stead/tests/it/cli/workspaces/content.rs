//! `stead content …` and the runnable example.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::kit::{self, BINARY, finish, run, server};

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/content-bot").canonicalize().unwrap()
}

/// A13: external update, sync, apply and run with replay parity, as a user would do it.
#[test]
fn a13_the_example_runs() {
    let server = server();
    let mut command = Command::new(example().join("run.sh"));
    command.env_clear().env("STEAD_HOME", server.home()).env("STEAD", BINARY);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let out = finish(&mut command).ok();
    for line in [
        "pushed notes@1",
        "pushed notes@2",
        "step 2 is made from the same inputs",
        "version 2 is adopted at: next_step_boundary",
        "step 3 is not",
        "events replayed to the live state, byte for byte",
        "4 decisions, the first that differs is event",
        "events replayed to the state they were exported with, byte for byte",
    ] {
        assert!(out.contains(line), "{line:?} is not in:\n{out}");
    }
}

#[test]
fn faults_are_shown_at_their_lines() {
    let nowhere = Path::new("/nonexistent");
    let good = example().join("content");
    run(nowhere, &["content", "validate", good.to_str().unwrap()]).ok();
    let bad = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(bad.path().join(name), text).unwrap();
    write(
        "agent.workspace.json",
        "{\n  \"schema_version\": 1,\n  \"prompt_packs\": {\"p\": \"p.json\"},\n  \"colour\": 1\n}",
    );
    write("p.json", "{}");
    let ran = run(nowhere, &["content", "validate", bad.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("agent.workspace.json:4:3: colour: unknown field"), "{}", ran.out);
    write(
        "agent.workspace.json",
        "{\n  \"schema_version\": 1,\n  \"prompt_packs\": {\"p\": \"p.json\"},\n  \"tool_catalogs\": {\"c\": \"c.json\"}\n}",
    );
    write("p.json", "{\n  \"templates\": [\n    \"none.md\"\n  ]\n}");
    write("c.json", "[\n  {\"name\": \"a\", \"parameters\": {\"type\": \"object\", \"required\": \"x\"}}\n]");
    let ran = run(nowhere, &["content", "validate", bad.path().to_str().unwrap()]);
    assert!(ran.out.contains("p.json:3:5: templates[0]: there is no file 'none.md'"), "{}", ran.out);
    write("none.md", "x");
    let ran = run(nowhere, &["content", "validate", bad.path().to_str().unwrap()]);
    assert!(ran.out.contains("c.json:2:3: [0]: the parameters of 'a'"), "{}", ran.out);
    std::os::unix::fs::symlink("/etc/passwd", bad.path().join("link")).unwrap();
    let ran = run(nowhere, &["content", "validate", bad.path().to_str().unwrap()]);
    assert!(ran.out.contains("link: is not a plain file"), "{}", ran.out);
}

#[test]
fn an_altered_export_is_found() {
    let server = server();
    let session = kit::session(&server);
    run(server.home(), &["tool", "call", &session, "write", "-a", "path=a", "-a", "content=hello"]).ok();
    let text = run(server.home(), &["session", "export", &session]).ok();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("j");
    let replay = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(Path::new("/nonexistent"), &["replay", file.to_str().unwrap()])
    };
    assert!(replay(&text).ok().contains("byte for byte"));
    let altered = replay(&text.replace("hello", "hullo"));
    assert_eq!(altered.code, Some(1));
    assert!(altered.err.contains("altered"), "{}", altered.err);
    let cut: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
    assert!(replay(&cut).err.contains("cut off"));
    assert!(replay("{}").err.contains("not an exported journal"));
    let then = run(server.home(), &["replay", &session, "--at", "2", "--json"]).json();
    assert_eq!(then["seq"], 2);
}
