//! Rewind to any checkpoint, blame, and clones of past states.

use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use crate::rows::boxes::native::{bash, with_boxes};
use crate::rows::{Files, events, on_both, on_podman, put};

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

/// A session that keeps a checkpoint layer after each call if its files are in a box; in-memory
/// files are always kept.
fn keeper(server: &TestServer, files: Files, rewind: Value) -> Value {
    server.agent_type("k", json!({"enabled": true, "provider": files.provider(), "rewind": rewind}));
    server.session(json!({"agent_type": "k"}))
}

fn checkpoint_settings(files: Files) -> Value {
    match files {
        Files::Memory => Value::Null,
        Files::Disk => json!({"points": "layers"}),
        Files::Container => json!({"points": "copies"}),
    }
}

#[track_caller]
fn write(server: &TestServer, session: &Value, at: &str, content: &str) -> u64 {
    let reply = server.tool(session, "write", json!({"path": at, "content": content, "mode": "overwrite"}));
    assert_eq!(reply["ok"], true, "{reply}");
    reply["seq"].as_u64().unwrap()
}

#[track_caller]
fn rewind(server: &TestServer, session: &Value, to: u64) -> Value {
    server.client().post(&path(session, "/rewind"), json!({"to": to})).expect(200)
}

/// Names and contents of the top-level files.
#[track_caller]
fn files(server: &TestServer, session: &Value) -> Vec<(String, String)> {
    let listed = server.tool(session, "ls", json!({}));
    let entries = listed["result"]["entries"].as_array().unwrap().clone();
    let named = entries.iter().filter(|entry| entry["kind"] == "file").map(|entry| {
        let name = entry["path"].as_str().unwrap();
        let bytes = server.client().bytes("GET", &path(session, &format!("/files/{name}")), &[], &[]).expect(200);
        (name.to_owned(), String::from_utf8(bytes).unwrap())
    });
    named.collect()
}

fn journal(server: &TestServer, session: &Value) -> String {
    let at = path(session, "/events?limit=500");
    server.client().send("GET", &at, &[("accept", "application/json")], None).expect(200).to_string()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect()
}

#[track_caller]
fn blame(server: &TestServer, session: &Value, at: &str) -> Value {
    server.client().get(&path(session, &format!("/blame/{at}"))).expect(200)
}

fn r1_any_checkpoint_can_be_rewound_to_and_undone(kind: Files) {
    let mut server = kind.server();
    let session = keeper(&server, kind, checkpoint_settings(kind));
    let first = write(&server, &session, "a", "one");
    let second = write(&server, &session, "b", "two");
    let third = server.tool(&session, "rm", json!({"path": "a"}))["seq"].as_u64().unwrap();
    put(&server, &session, "c", b"three");
    let last = pairs(&[("b", "two"), ("c", "three")]);
    assert_eq!(files(&server, &session), last);

    let rewound = rewind(&server, &session, second);
    assert_eq!(rewound["to"], json!(second));
    assert_eq!(files(&server, &session), pairs(&[("a", "one"), ("b", "two")]));
    // The state before the rewind is kept, and `undo` leads back to it.
    let undone = rewind(&server, &session, rewound["undo"].as_u64().unwrap());
    assert_eq!(files(&server, &session), last);
    // The undo can be undone as well, also after a restart.
    server.restart(None);
    assert_eq!(files(&server, &session), last);
    rewind(&server, &session, undone["undo"].as_u64().unwrap());
    assert_eq!(files(&server, &session), pairs(&[("a", "one"), ("b", "two")]));
    rewind(&server, &session, first);
    assert_eq!(files(&server, &session), pairs(&[("a", "one")]));
    // A sequence number between two changes gives the files of the earlier one.
    rewind(&server, &session, third - 1);
    assert_eq!(files(&server, &session), pairs(&[("a", "one"), ("b", "two")]));
    rewind(&server, &session, first - 1);
    assert_eq!(files(&server, &session), []);
    let journal = journal(&server, &session);
    assert_eq!(journal.matches("\"operation\":\"rewind\"").count(), 6, "{journal}");
}

fn r2_blame_names_the_last_writer(kind: Files) {
    let mut server = kind.server();
    let session = keeper(&server, kind, checkpoint_settings(kind));
    let first = write(&server, &session, "a", "one");
    write(&server, &session, "dir/b", "two");
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    let edit = json!({"path": "a", "old_string": "one", "new_string": "ONE"});
    let edited = agent.post(&path(&session, "/tools/edit"), edit).expect(200);
    let answer = blame(&server, &session, "a");
    let last = &answer["last"];
    assert_eq!((&answer["path"], &last["seq"], &last["what"]), (&json!("a"), &edited["seq"], &json!("wrote")));
    assert_eq!(
        (&last["by"]["kind"], &last["by"]["name"], &last["by"]["id"]),
        (&json!("tool"), &json!("edit"), &edited["call_id"])
    );
    assert_eq!(last["by"]["actor"], format!("session:{}", session["id"].as_str().unwrap()));
    assert_eq!(blame(&server, &session, "nobody")["last"], Value::Null);
    // Restored content keeps its original writer.
    rewind(&server, &session, first);
    assert_eq!(blame(&server, &session, "a")["last"]["seq"], json!(first));
    assert_eq!(blame(&server, &session, "dir/b")["last"], Value::Null);
    // Removing a directory counts as removing its files. The session's token may ask for blame too.
    write(&server, &session, "dir/b", "again");
    let removed = server.tool(&session, "rm", json!({"path": "dir"}));
    assert_eq!(removed["ok"], true, "{removed}");
    server.restart(None);
    let answer = agent_of(&server, &session).get(&path(&session, "/blame/dir/b")).expect(200);
    assert_eq!((&answer["last"]["what"], &answer["last"]["seq"]), (&json!("removed"), &removed["seq"]));
    put(&server, &session, "raw", b"bytes");
    assert_eq!(blame(&server, &session, "raw")["last"]["by"]["name"], "put");
    // A move touches both paths, a copy only the new one.
    let call = |tool: &str, source: &str, destination: &str| {
        let answer = server.tool(&session, tool, json!({"source": source, "destination": destination}));
        assert_eq!(answer["ok"], true, "{answer}");
        answer["seq"].clone()
    };
    let last = |at: &str| {
        let last = blame(&server, &session, at)["last"].clone();
        (last["seq"].clone(), last["what"].clone())
    };
    let copied = call("copy", "raw", "far/copy");
    assert_eq!(last("far/copy"), (copied, json!("wrote")));
    let moved = call("move", "far", "moved");
    assert_eq!(last("moved/copy"), (moved.clone(), json!("wrote")));
    assert_eq!(last("far/copy"), (moved, json!("removed")));
    assert_eq!(blame(&server, &session, "raw")["last"]["by"]["name"], "put");
}

fn agent_of(server: &TestServer, session: &Value) -> stead_testkit::Client {
    server.client().with_token(session["token"].as_str().unwrap())
}

fn r3_a_clone_begins_at_an_event(kind: Files) {
    let mut server = kind.server();
    let session = keeper(&server, kind, checkpoint_settings(kind));
    let first = write(&server, &session, "a", "one");
    write(&server, &session, "a", "two");
    let rewound = rewind(&server, &session, first);
    let clone = |at: u64| {
        let body = json!({"isolation": "full", "at": at});
        let made = server.client().post(&path(&session, "/clone?wait=60"), body).expect(201);
        made["items"][0].clone()
    };
    let (past, undone) = (clone(first), clone(rewound["undo"].as_u64().unwrap()));
    assert_eq!(files(&server, &past), pairs(&[("a", "one")]));
    assert_eq!(files(&server, &undone), pairs(&[("a", "two")]));
    write(&server, &past, "a", "three");
    // A clone keeps the writers of the files that it started with.
    assert_eq!(blame(&server, &undone, "a")["last"]["session"], session["id"]);
    assert_eq!(server.client().delete(&path(&session, "")).status, 204);
    server.restart(None);
    assert_eq!(files(&server, &past), pairs(&[("a", "three")]));
    assert_eq!(files(&server, &undone), pairs(&[("a", "two")]));
    let refused = server.client().post(&path(&past, "/clone"), json!({"isolation": "none", "at": 3}));
    assert_eq!(refused.invalid_fields(), ["at"]);
}

fn r4_only_the_latest_are_kept_and_the_first(kind: Files) {
    let mut server = kind.server();
    let mut kept = checkpoint_settings(kind);
    kept["keep"] = json!(2);
    let session = keeper(&server, kind, kept);
    let seqs: Vec<u64> = (0..5).map(|number| write(&server, &session, "a", &number.to_string())).collect();
    let listed = server.client().get(&path(&session, "/rewind")).expect(200);
    let snapshots = listed["items"].as_array().unwrap().iter().filter(|checkpoint| checkpoint["snapshot"].is_string());
    assert_eq!(snapshots.count(), 3, "{listed}");
    let refused = server.client().post(&path(&session, "/rewind"), json!({"to": seqs[1]}));
    let text = refused.problem(409, "no_point");
    assert!(text.contains("rewind.keep") && text.contains(&format!("and {}", seqs[3])), "{text}");
    server.restart(None);
    rewind(&server, &session, seqs[3]);
    assert_eq!(files(&server, &session), pairs(&[("a", "3")]));
    rewind(&server, &session, seqs[0] - 1);
    assert_eq!(files(&server, &session), []);
}

fn r5_what_is_refused(kind: Files) {
    let server = kind.server();
    let session = keeper(&server, kind, json!({"points": "off"}));
    let seq = write(&server, &session, "a", "one");
    let client = server.client();
    let ask = |to: Value| client.post(&path(&session, "/rewind"), json!({"to": to}));
    let text = ask(json!(seq)).problem(409, "no_point");
    assert!(text.contains("rewind.points"), "{text}");
    ask(json!(100_000)).problem(404, "not_found");
    // Each refusal is recorded as one of a rewind, not of a tool.
    let refused = events(&server, session["id"].as_str().unwrap(), "RewindRefused");
    let recorded: Vec<_> = refused.iter().map(|event| (event["to"].clone(), event["code"].clone())).collect();
    assert_eq!(recorded, [(json!(seq), json!("no_point")), (json!(100_000), json!("not_found"))]);
    assert_eq!(events(&server, session["id"].as_str().unwrap(), "ToolCallRefused"), Vec::<Value>::new());
    let audited = client.get(&format!("/audit?type=refusal&session={}", session["id"].as_str().unwrap())).expect(200);
    assert_eq!(audited["items"][0]["detail"]["rewind_to"], json!(seq), "{audited}");
    for wrong in [json!(0), json!("1"), json!(-1), Value::Null] {
        assert_eq!(ask(wrong).invalid_fields(), ["to"]);
    }
    agent_of(&server, &session).post(&path(&session, "/rewind"), json!({"to": seq})).problem(403, "forbidden");
    client.post(&path(&session, "/clone"), json!({"isolation": "full", "at": seq})).problem(409, "no_point");
    client.get(&path(&session, "/blame/..%2fx")).problem(400, "invalid_request");
    if kind == Files::Disk {
        client.get(&path(&session, "/blame/a")).problem(409, "untracked");
    }
    assert_eq!(client.delete(&path(&session, "")).status, 204);
    ask(json!(seq)).problem(409, "session_not_active");
    for (field, wrong) in [("points", json!("all")), ("keep", json!(0)), ("keep", json!(1001)), ("often", json!(1))] {
        let workspace = json!({"enabled": true, "rewind": {field: wrong}});
        let refused = client.post("/agent-types", json!({"id": "x", "workspace": workspace}));
        assert_eq!(refused.invalid_fields(), [format!("workspace.rewind.{field}")]);
    }
    // The platform's default applies if the agent type sets nothing.
    client.put("/platform", json!({"defaults": {"rewind": {"points": "off", "keep": 7}}})).expect(200);
    server.agent_type("p", json!({"enabled": true, "provider": kind.provider()}));
    let quiet = server.session(json!({"agent_type": "p"}));
    let shown = client.get(&path(&quiet, "/rewind")).expect(200);
    assert_eq!((&shown["points"], &shown["keep"]), (&json!("off"), &json!(7)));
}

fn r6_killed_in_the_middle_it_is_as_before_or_after(kind: Files) {
    let mut server = kind.server();
    let session = keeper(&server, kind, checkpoint_settings(kind));
    let first = write(&server, &session, "a", "one");
    write(&server, &session, "a", "two");
    server.restart(Some("operation.perform=sleep(60000)"));
    let journal = |server: &TestServer| journal(server, &session);
    std::thread::scope(|scope| {
        let (client, at) = (server.client().clone(), path(&session, "/rewind"));
        scope.spawn(move || client.try_send("POST", &at, &[], Some(json!({"to": first}).to_string())));
        until("the rewind starts", || journal(&server).contains("\"operation\":\"rewind\"").then_some(()));
        server.kill();
    });
    server.restart(None);
    assert!(journal(&server).contains("FileOperationInterrupted"));
    assert_eq!(files(&server, &session), pairs(&[("a", "two")]));
    rewind(&server, &session, first);
    assert_eq!(files(&server, &session), pairs(&[("a", "one")]));
    // The server dies between a call's effect and its record: the call has no outcome, and its
    // checkpoint belongs to no event.
    server.restart(Some("tool.record=sleep(60000)"));
    std::thread::scope(|scope| {
        let (client, at) = (server.client().clone(), path(&session, "/tools/write"));
        let body = json!({"path": "b", "content": "x"}).to_string();
        let before = journal(&server).matches("ToolCallStarted").count();
        scope.spawn(move || client.try_send("POST", &at, &[], Some(body)));
        let started = || journal(&server).matches("ToolCallStarted").count();
        until("the call starts", || (started() > before).then_some(()));
        std::thread::sleep(Duration::from_millis(300));
        server.kill();
    });
    server.restart(None);
    assert!(journal(&server).contains("ToolCallInterrupted"));
    rewind(&server, &session, first);
    assert_eq!(files(&server, &session), pairs(&[("a", "one")]));
}

on_both!(
    r1_any_checkpoint_can_be_rewound_to_and_undone,
    r2_blame_names_the_last_writer,
    r3_a_clone_begins_at_an_event,
    r4_only_the_latest_are_kept_and_the_first,
    r5_what_is_refused,
    r6_killed_in_the_middle_it_is_as_before_or_after
);

on_podman!(r1_any_checkpoint_can_be_rewound_to_and_undone);

fn exec(server: &TestServer, session: &Value, body: Value) -> Value {
    server.client().post(&path(session, "/execs"), body).expect(201)
}

#[test]
fn r7_commands_are_kept_and_named_too() {
    let server = with_boxes();
    let session = keeper(&server, Files::Disk, json!({"points": "layers"}));
    let (_, _, wrote) = (
        bash(&server, &session, "mkdir -p src && echo one > src/a && echo keep > keep"),
        bash(&server, &session, "ls -R > /dev/null"),
        exec(&server, &session, json!({"command": "rm keep; echo two > src/a; echo said"})),
    );
    let answer = blame(&server, &session, "src/a");
    assert_eq!(
        (&answer["last"]["by"]["kind"], &answer["last"]["by"]["id"]),
        (&json!("exec"), &wrote["id"]),
        "{answer}"
    );
    assert_eq!(blame(&server, &session, "keep")["last"]["what"], "removed");
    // Read-only calls create no checkpoint.
    let checkpoints = server.client().get(&path(&session, "/rewind")).expect(200);
    let by = |checkpoint: &Value| checkpoint["by"]["kind"].clone();
    let kept: Vec<Value> =
        checkpoints["items"].as_array().unwrap().iter().filter(|it| it["snapshot"].is_string()).map(by).collect();
    assert_eq!(kept, [json!("start"), json!("tool"), json!("exec")], "{checkpoints}");
    // The box was ended to keep the layer, but the command's output is still readable.
    let id = wrote["id"].as_str().unwrap();
    let stream = server.client().get(&path(&session, &format!("/execs/{id}/stream"))).text;
    assert!(stream.contains("said") && !stream.contains("missed"), "{stream}");
    let before = checkpoints["items"][1]["seq"].as_u64().unwrap();
    rewind(&server, &session, before);
    assert_eq!(bash(&server, &session, "cat src/a keep")["stdout"], "one\nkeep\n");
}

#[test]
fn r8_while_something_is_at_work_only_copies_keep() {
    let server = with_boxes();
    let session = keeper(&server, Files::Disk, json!({"points": "layers"}));
    let first = write(&server, &session, "a", "one");
    let running = exec(&server, &session, json!({"command": "sleep 600", "background": true}));
    let second = write(&server, &session, "a", "two");
    let refused = server.client().post(&path(&session, "/rewind"), json!({"to": second}));
    let text = refused.problem(409, "no_point");
    assert!(text.contains("processes were running"), "{text}");
    // The command kept running, and the writer is known anyway.
    assert_eq!(blame(&server, &session, "a")["last"]["seq"], json!(second));
    let id = running["id"].as_str().unwrap();
    let shown = server.client().get(&path(&session, &format!("/execs/{id}"))).expect(200);
    assert_eq!(shown["status"], "running");
    rewind(&server, &session, first);
    assert_eq!(files(&server, &session), pairs(&[("a", "one")]));

    server.agent_type("copies", json!({"enabled": true, "provider": "native", "rewind": {"points": "copies"}}));
    let session = server.session(json!({"agent_type": "copies"}));
    exec(&server, &session, json!({"command": "sleep 600", "background": true}));
    let kept = write(&server, &session, "a", "two");
    write(&server, &session, "a", "three");
    rewind(&server, &session, kept);
    assert_eq!(files(&server, &session), pairs(&[("a", "two")]));
}

#[test]
fn r9_many_calls_stay_within_few_layers() {
    let server = with_boxes();
    let session = keeper(&server, Files::Disk, json!({"points": "layers", "keep": 40}));
    let seqs: Vec<u64> = (0..30).map(|number| write(&server, &session, &format!("f{number}"), "x")).collect();
    rewind(&server, &session, seqs[2]);
    assert_eq!(files(&server, &session).len(), 3);
    rewind(&server, &session, seqs[27]);
    assert_eq!(files(&server, &session).len(), 28);
}
