//! Execs over HTTP: start, wait, stdin, signal, resize, kill, access checks and retention.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use super::native::{bash, box_session, build_init, with_boxes};
use crate::rows::{server, server_with};

pub(in crate::rows) fn at(session: &Value, rest: &str) -> String {
    format!("/sessions/{}/execs{rest}", session["id"].as_str().unwrap())
}

#[track_caller]
pub(in crate::rows) fn exec(server: &TestServer, session: &Value, body: Value) -> Value {
    server.client().post(&at(session, ""), body).expect(201)
}

#[track_caller]
pub(in crate::rows) fn begin(server: &TestServer, session: &Value, command: &str) -> String {
    let begun = exec(server, session, json!({"command": command, "background": true}));
    assert_eq!((&begun["status"], &begun["exit_code"]), (&json!("running"), &Value::Null), "{begun}");
    begun["id"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(in crate::rows) fn ended(server: &TestServer, session: &Value, exec: &str) -> Value {
    let answer = server.client().get(&at(session, &format!("/{exec}?wait=60"))).expect(200);
    assert_ne!(answer["status"], "running", "{answer}");
    answer
}

#[test]
fn x1_a_command_answers_with_all_there_is_to_tell() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let reported = exec(&server, &session, json!({"command": "echo out; echo err >&2; pwd; exit 3", "cwd": "."}));
    for (field, value) in [
        ("status", json!("finished")),
        ("exit_code", json!(3)),
        ("stdout", json!("out\n/workspace\n")),
        ("stderr", json!("err\n")),
        ("stdout_total", json!(15)),
        ("truncated", json!(false)),
        ("timed_out", json!(false)),
        ("killed", json!(false)),
        ("timeout_seconds", json!(120)),
    ] {
        assert_eq!(reported[field], value, "{field} of {reported}");
    }
    let words = exec(&server, &session, json!({"argv": ["printf", "%s|", "a b", "$HOME", ""]}));
    assert_eq!(words["stdout"], "a b|$HOME||", "no shell reads argv");
    let fed = exec(
        &server,
        &session,
        json!({"command": "tr a-z A-Z; echo $SECRET", "stdin": "héllo\n", "env": {"SECRET": "s3cr3t-value"}}),
    );
    assert_eq!(fed["stdout"], "HéLLO\ns3cr3t-value\n");
    assert_eq!(fed["env"], json!(["SECRET"]), "names are kept, values are not");
    let long = exec(&server, &session, json!({"command": "head -c 1000000 /dev/zero | tr '\\0' x; echo end"}));
    assert_eq!((&long["truncated"], &long["stdout_total"]), (&json!(true), &json!(1_000_004)));
    assert!(long["stdout"].as_str().unwrap().ends_with("xend\n"), "both ends are kept");
    for (body, code) in [
        (json!({"command": "true", "cwd": "/nowhere"}), "invalid_cwd"),
        // The kernel's magic links in /proc lead out of any root.
        (json!({"command": "true", "cwd": "/proc/self/fd/0"}), "invalid_cwd"),
        (json!({"command": "true", "cwd": "/proc/1/root"}), "invalid_cwd"),
        (json!({"command": "true", "cwd": "/proc/self/cwd/.."}), "invalid_cwd"),
    ] {
        let failed = exec(&server, &session, body);
        assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!(code)), "{failed}");
    }
    for (program, code) in [("no-such-program", 127), ("/no/such/program", 127), ("/etc", 126), ("/etc/hosts", 126)] {
        let ended = exec(&server, &session, json!({"argv": [program]}));
        assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("finished"), &json!(code)), "{ended}");
        assert!(ended["stderr"].as_str().unwrap().contains(program), "{ended}");
    }
    let again = server.client().get(&at(&session, &format!("/{}", fed["id"].as_str().unwrap()))).expect(200);
    assert_eq!(again, fed, "the kept result equals the answer");
    let events = format!("/sessions/{}/events?limit=500", session["id"].as_str().unwrap());
    let journal = server.client().send("GET", &events, &[("Accept", "application/json")], None);
    let journal = journal.text + &server.log();
    for secret in ["s3cr3t-value\"", "héllo"] {
        assert!(!journal.contains(secret), "{secret} is in the journal or the log");
    }
}

#[test]
fn x2_a_timeout_ends_every_descendant_and_returns_at_process_exit() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let nasty = "(setsid sleep 300 &); (trap '' TERM INT HUP; sleep 300 & sleep 300) & sleep 300 & kill -STOP $!; \
                 (sleep 300 & exec setsid bash -c 'sleep 300 & sleep 300') & wait";
    let answer = exec(&server, &session, json!({"command": nasty, "timeout_seconds": 1}));
    assert_eq!((&answer["exit_code"], &answer["timed_out"]), (&json!(124), &json!(true)), "{answer}");
    assert_eq!(bash(&server, &session, "ps -eo args | grep -c '[s]leep 300'")["stdout"], "0\n");
    // A child keeps the pipe open, but the call does not wait for it.
    let begun = Instant::now();
    let answer = exec(&server, &session, json!({"command": "sleep 100 & echo done"}));
    assert_eq!((&answer["exit_code"], &answer["stdout"]), (&json!(0), &json!("done\n")));
    assert!(begun.elapsed() < Duration::from_secs(50), "it waited for whoever holds the pipe");
    // Deleting the exec ends the child too.
    let id = answer["id"].as_str().unwrap();
    server.client().delete(&at(&session, &format!("/{id}"))).expect(204);
    assert_eq!(bash(&server, &session, "ps -eo args | grep -c '[s]leep 100'")["stdout"], "0\n");
}

#[test]
fn x3_background_execs_have_ids_and_are_listed_fed_signalled_and_killed() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let sleeper = begin(&server, &session, "sleep 200 & (setsid sleep 200 &); sleep 200");
    let trapper = begin(&server, &session, "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    let open = json!({"command": "cat; echo over", "background": true, "stdin": true});
    let reader = exec(&server, &session, open)["id"].as_str().unwrap().to_owned();
    let items = server.client().get(&at(&session, "")).expect(200)["items"].clone();
    let listed: Vec<_> = items.as_array().unwrap().iter().map(|item| (&item["id"], &item["status"])).collect();
    let running = json!("running");
    let (a, b, c) = (json!(sleeper), json!(trapper), json!(reader));
    assert_eq!(listed, [(&a, &running), (&b, &running), (&c, &running)]);

    let stdin = |body| server.client().post(&at(&session, &format!("/{reader}/stdin")), body);
    stdin(json!({"data": "one\n"})).expect(204);
    stdin(json!({"data": "dHdvCg==", "encoding": "base64"})).expect(204);
    stdin(json!({"close": true})).expect(204);
    assert_eq!(ended(&server, &session, &reader)["stdout"], "one\ntwo\nover\n");
    stdin(json!({"data": "x".repeat(3 << 19)})).problem(409, "exec_ended");

    let ready = server.client().events(&at(&session, &format!("/{trapper}/stream")), None).next().unwrap();
    assert_eq!(ready.data["data"], "ready\n");
    server.client().post(&at(&session, &format!("/{trapper}/signal")), json!({"signal": "SIGTERM"})).expect(204);
    let answer = ended(&server, &session, &trapper);
    assert_eq!((&answer["exit_code"], &answer["stdout"]), (&json!(7), &json!("ready\ncaught\n")));
    server
        .client()
        .post(&at(&session, &format!("/{trapper}/signal")), json!({"signal": 15}))
        .problem(409, "exec_ended");
    server
        .client()
        .post(&at(&session, &format!("/{sleeper}/resize")), json!({"rows": 1, "columns": 1}))
        .problem(409, "no_terminal");

    for _ in 0..2 {
        server.client().delete(&at(&session, &format!("/{sleeper}"))).expect(204);
    }
    let answer = ended(&server, &session, &sleeper);
    assert_eq!((&answer["killed"], &answer["exit_code"], &answer["signal"]), (&json!(true), &json!(137), &json!(9)));
    assert_eq!(bash(&server, &session, "ps -eo args | grep -c '[s]leep 200'")["stdout"], "0\n");
    let unknown = at(&session, "/exec_00000000000000000000000000");
    server.client().delete(&unknown).problem(404, "not_found");
    server.client().get(&unknown).problem(404, "not_found");
}

#[test]
fn x3_a_terminal_has_a_size_that_changes() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let command = "stty size; trap 'stty size; exit 5' WINCH; test -t 0 && echo tty; while :; do sleep 0.05; done";
    let body = json!({"command": command, "background": true, "pty": {"rows": 40, "columns": 132}});
    let id = exec(&server, &session, body)["id"].as_str().unwrap().to_owned();
    let mut seen = String::new();
    let mut stream = server.client().events(&at(&session, &format!("/{id}/stream")), None);
    while !seen.contains("tty") {
        seen += stream.next().unwrap().data["data"].as_str().unwrap();
    }
    assert_eq!(seen, "40 132\r\ntty\r\n");
    server.client().post(&at(&session, &format!("/{id}/resize")), json!({"rows": 50, "columns": 100})).expect(204);
    let answer = ended(&server, &session, &id);
    assert_eq!((&answer["exit_code"], &answer["stdout"]), (&json!(5), &json!("40 132\r\ntty\r\n50 100\r\n")));
}

#[test]
fn x3_who_may_and_when() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let token = server.client().get(&format!("/sessions/{}/token", session["id"].as_str().unwrap()));
    let token = session["token"]
        .as_str()
        .map(str::to_owned)
        .unwrap_or_else(|| token.json()["token"].as_str().unwrap_or_default().to_owned());
    let agent = server.client().with_token(&token);
    let said = agent.post(&at(&session, ""), json!({"command": "echo hi"})).expect(201);
    assert_eq!(said["stdout"], "hi\n");
    let page = agent.get(&at(&session, &format!("/{}/output", said["id"].as_str().unwrap()))).expect(200);
    assert_eq!(page["chunks"][0]["data"], "hi\n", "{page}");
    assert!(agent.get(&at(&session, "")).expect(200)["items"].as_array().is_some_and(|items| items.len() == 1));
    // Starting an exec needs the permission of the `bash` tool.
    server.agent_type("r", json!({"enabled": true, "provider": "native", "tools": ["read"]}));
    let reader = server.session(json!({"agent_type": "r"}));
    let refused = server.client().post(&at(&reader, ""), json!({"command": "true"}));
    assert_eq!(refused.problem(403, "tool_not_enabled"), "Tool 'bash' is not enabled for this agent type");
    let agent = server.client().with_token(reader["token"].as_str().unwrap());
    agent.get(&at(&reader, "")).problem(403, "tool_not_enabled");
    server.agent_type("off", json!({}));
    let none = server.session(json!({"agent_type": "off"}));
    server.client().post(&at(&none, ""), json!({"command": "true"})).problem(404, "no_workspace");
    let invalid = server.client().post(&at(&session, ""), json!({"command": "a", "shell": 1}));
    assert_eq!(invalid.invalid_fields(), ["shell"]);
    // Closing the session ends running execs, and the record says so.
    let left = begin(&server, &session, "sleep 300");
    server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(204);
    server.client().post(&at(&session, ""), json!({"command": "true"})).problem(409, "session_not_active");
    let answer = server.client().get(&at(&session, &format!("/{left}"))).expect(200);
    assert_eq!(
        (&answer["status"], &answer["error"]["message"]),
        (&json!("interrupted"), &json!("the session was closed"))
    );
    server.client().delete(&at(&session, &format!("/{left}"))).expect(204);
}

#[test]
fn x3_memory_workspaces_refuse() {
    let server = server();
    server.agent_type("m", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "m"}));
    let refused = server.client().post(&at(&session, ""), json!({"command": "true"}));
    assert!(refused.problem(422, "exec_unsupported").contains("no box"), "{}", refused.text);
}

#[test]
fn x3_a_key_starts_one_exec() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let once = |body: Value| {
        let body = Some(body.to_string());
        server.client().send("POST", &at(&session, ""), &[("Idempotency-Key", "k1")], body)
    };
    let body = json!({"command": "echo x >> count; cat count"});
    let first = once(body.clone()).expect(201);
    assert_eq!(first["stdout"], "x\n");
    assert_eq!(once(body).expect(201), first);
    once(json!({"command": "true"})).problem(422, "idempotency_mismatch");
}

#[test]
fn s6_processes_at_work_are_activity() {
    build_init();
    let server = server_with(ServerOptions::default());
    let session = box_session(&server, json!({"idle_seconds": 1}));
    let busy = begin(&server, &session, "sleep 3; echo done");
    assert_eq!(ended(&server, &session, &busy)["stdout"], "done\n", "an exec kept it awake");
    // This process belongs to no exec: the command that started it has ended.
    bash(&server, &session, "(setsid sleep 3 >/dev/null 2>&1 &)");
    std::thread::sleep(Duration::from_millis(2_500));
    let path = format!("/sessions/{}", session["id"].as_str().unwrap());
    assert_eq!(server.client().get(&path).expect(200)["status"], "active", "a process kept it awake");
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.client().get(&path).expect(200)["status"] != "closed" {
        assert!(Instant::now() < deadline, "an idle session is closed once nothing is at work");
        std::thread::sleep(Duration::from_millis(200));
    }
}
