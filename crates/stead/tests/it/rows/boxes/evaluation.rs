//! E1–E5: Python evaluation over HTTP, on files in memory and in a box.

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::{Files, on_both, put, server, writer};

#[track_caller]
fn eval(server: &TestServer, session: &Value, arguments: Value) -> Value {
    server.tool(session, "eval", arguments)
}

/// Evaluates code that must succeed and returns its result.
#[track_caller]
fn works(server: &TestServer, session: &Value, arguments: Value) -> Value {
    let answer = eval(server, session, arguments);
    assert_eq!(answer["ok"], true, "{answer}");
    answer["result"].clone()
}

#[track_caller]
fn code_of(answer: &Value) -> &str {
    assert_eq!(answer["ok"], false, "{answer}");
    answer["error"]["code"].as_str().unwrap()
}

#[track_caller]
fn text(server: &TestServer, session: &Value, path: &str) -> Option<String> {
    let answer = server.tool(session, "read", json!({"path": path}));
    answer["result"]["content"].as_str().map(str::to_owned)
}

fn e1_parameters_result_and_limits(files: Files) {
    let server = server();
    let session = writer(&server, files);
    put(&server, &session, "data.txt", b"3\n4\n");
    let result = works(
        &server,
        &session,
        json!({
            "code": "print('sum'); total = offset + sum(int(x) for x in vfs_reads['data.txt'].split())\ntotal",
            "globals": {"offset": "10"},
            "reads": [{"path": "data.txt"}],
            "writes": [{"path": "out/total.txt", "content": "total={total}\n"}],
        }),
    );
    assert_eq!(
        result,
        json!({
            "value_repr": "17", "stdout": "sum\n", "stderr": "", "globals": {"offset": "10", "total": "17"},
            "reads": [{"path": "data.txt"}],
            "writes": [{"path": "out/total.txt", "content": "total=17\n", "mode": "create"}],
        })
    );
    assert_eq!(text(&server, &session, "out/total.txt").as_deref(), Some("total=17\n"));
    for arguments in [
        json!({}),
        json!({"code": 5}),
        json!({"code": "1", "more": 1}),
        json!({"code": "#".repeat(2_001)}),
        json!({"code": "1", "globals": {"x": 1}}),
        json!({"code": "1", "globals": {"x": "nope"}}),
        json!({"code": "1", "globals": {"not a name": "1"}}),
        json!({"code": "1", "writes": [{"path": "x", "content": "y", "mode": "sideways"}]}),
    ] {
        assert_eq!(code_of(&eval(&server, &session, arguments.clone())), "invalid_argument", "{arguments}");
    }
    let long = works(&server, &session, json!({"code": "print('x' * 100000)"}));
    assert_eq!(long["stdout"].as_str().unwrap().len(), 4_096);
    let tools = server.client().get("/tools").expect(200);
    let described = tools["items"].as_array().unwrap().iter().find(|tool| tool["name"] == "eval").unwrap();
    assert_eq!(described["parameters"]["properties"]["code"]["maxLength"], 2_000);
}

fn e2_names_there_and_names_refused(files: Files) {
    let server = server();
    let session = writer(&server, files);
    let code = "math.sqrt(16), statistics.median([3, 1, 2]), callable(read_text), callable(write_text), sorted('cab')";
    let result = works(&server, &session, json!({"code": code}));
    assert_eq!(result["value_repr"], "(4.0, 2, True, True, ['a', 'b', 'c'])");
    for code in ["import os", "exec('1')", "eval('1')", "().__class__", "__import__('os')", "open('/etc/passwd')"] {
        let answer = eval(&server, &session, json!({"code": code}));
        assert_eq!(code_of(&answer), "evaluation_failed");
        let stderr = answer["result"]["stderr"].as_str().unwrap();
        assert!(stderr.contains("not available here"), "{code}: {stderr}");
    }
}

fn e3_what_does_not_end_is_ended(files: Files) {
    let server = server();
    let session = writer(&server, files);
    let bombs = [
        ("write_text('a', 'x')\nwhile True: pass", "timed_out"),
        ("n = 3\nwhile True: n *= n", "timed_out"),
        ("x = []\nwhile True: x.append('x' * 100000)", "out_of_memory"),
        ("10**10**8", "out_of_memory"),
        ("factorial(10**9)", "out_of_memory"),
        ("'a' * 10**10", "out_of_memory"),
        ("list(range(10**18))", "out_of_memory"),
        ("fsum(range(10**12))", "timed_out"),
        ("def f(): return f()\nf()", "evaluation_failed"),
    ];
    std::thread::scope(|scope| {
        for (code, expected) in bombs {
            let (server, session) = (&server, &session);
            scope.spawn(move || {
                let answer = eval(server, session, json!({"code": code}));
                assert_eq!(code_of(&answer), expected, "{code}: {answer}");
            });
        }
        // Meanwhile the server answers other requests, also for this session.
        for _ in 0..20 {
            server.client().get("/sessions").expect(200);
            assert_eq!(text(&server, &session, "a"), None);
        }
    });
    assert_eq!(works(&server, &session, json!({"code": "6 * 7"}))["value_repr"], "42");
    assert_eq!(text(&server, &session, "a"), None);
}

fn e4_all_or_nothing(files: Files) {
    let server = server();
    let session = writer(&server, files);
    put(&server, &session, "kept.txt", b"old");
    let code = "write_text('new.txt', 'x')\nwrite_text('kept.txt', 'changed', 'overwrite')\n1 / 0";
    let answer = eval(&server, &session, json!({"code": code}));
    assert_eq!(code_of(&answer), "evaluation_failed");
    assert!(answer["message"].as_str().unwrap().contains("pending file writes were discarded"), "{answer}");
    assert!(
        answer["result"]["stderr"].as_str().unwrap().ends_with("ZeroDivisionError: division by zero\n"),
        "{answer}"
    );
    assert_eq!(answer["result"]["writes"], json!([]));
    assert_eq!(
        (text(&server, &session, "new.txt"), text(&server, &session, "kept.txt").as_deref()),
        (None, Some("old"))
    );
    // If one declared write is refused, none of the writes happens.
    let writes = json!([{"path": "first.txt", "content": "1"}, {"path": "kept.txt", "content": "2"}]);
    let answer = eval(&server, &session, json!({"code": "write_text('zero.txt', '0')", "writes": writes}));
    assert_eq!(code_of(&answer), "exists", "{answer}");
    for path in ["zero.txt", "first.txt"] {
        assert_eq!(text(&server, &session, path), None, "{path}");
    }
    // A caught exception does not count as a failure.
    let code = "try:\n    write_text('kept.txt', 'no')\nexcept FileExistsError:\n    write_text('other.txt', read_text('kept.txt') + '!')";
    works(&server, &session, json!({"code": code}));
    assert_eq!(text(&server, &session, "other.txt").as_deref(), Some("old!"));
}

fn e5_the_session_s_files_under_the_tools_limits(files: Files) {
    let server = server();
    let limits = json!({"preset": "wink"});
    server.agent_type("w", json!({"enabled": true, "provider": files.provider(), "limits": limits}));
    let session = server.session(json!({"agent_type": "w"}));
    let long = format!("write_text('long.txt', 'x' * {})", 48_001);
    for (code, kind) in [
        (long.as_str(), "ValueError: Content exceeds maximum length of 48,000 characters."),
        ("write_text('../out.txt', 'x')", "ValueError: Path segments may not include '.' or '..'."),
        ("write_text('a' * 81, 'x')", "ValueError: Path segments must be 80 characters or fewer."),
        ("write_text('/'.join('z' * 17), 'x')", "ValueError: Path depth exceeds the allowed limit (16 segments)."),
        ("read_text('/etc/passwd')", "FileNotFoundError: "),
        ("read_text('none.txt')", "FileNotFoundError: "),
    ] {
        let answer = eval(&server, &session, json!({"code": code}));
        let stderr = answer["result"]["stderr"].as_str().unwrap_or_default().to_owned();
        assert!(stderr.lines().last().unwrap_or_default().starts_with(kind), "{code}: {answer}");
    }
    server.tool(&session, "write", json!({"path": "dir/b.txt", "content": "one\ntwo\n"}));
    let code =
        "lines = read_text('dir/b.txt').splitlines()\nwrite_text('dir/c.txt', '\\n'.join(reversed(lines)))\nlen(lines)";
    let result = works(&server, &session, json!({"code": code}));
    assert_eq!((&result["value_repr"], &result["reads"]), (&json!("2"), &json!([{"path": "dir/b.txt"}])));
    assert_eq!(text(&server, &session, "dir/c.txt").as_deref(), Some("two\none"));
    // The journal has one finished call that names the file. The test server verifies the replay
    // when it stops.
    let id = session["id"].as_str().unwrap();
    let path = format!("/sessions/{id}/events?limit=500");
    let events = server.client().send("GET", &path, &[("accept", "application/json")], None).expect(200);
    let mut finished = events["items"].as_array().unwrap().iter().filter(|event| event["type"] == "ToolCallFinished");
    assert!(finished.any(|event| event.to_string().contains("dir/c.txt")), "{events}");
}

on_both!(
    e1_parameters_result_and_limits,
    e2_names_there_and_names_refused,
    e3_what_does_not_end_is_ended,
    e4_all_or_nothing,
    e5_the_session_s_files_under_the_tools_limits,
);

#[test]
fn e5_writes_survive_kill_9() {
    let mut server = server();
    let session = writer(&server, Files::Memory);
    works(&server, &session, json!({"code": "write_text('a.txt', str(6 * 7))"}));
    server.restart(None);
    assert_eq!(text(&server, &session, "a.txt").as_deref(), Some("42"));
}

#[test]
fn python_without_a_box_recommends_eval() {
    let server = server();
    let session = writer(&server, Files::Memory);
    let answer = server.tool(&session, "python", json!({"code": "print(1)"}));
    assert_eq!(code_of(&answer), "tool_unavailable");
    assert!(answer["error"]["hint"].as_str().unwrap().contains("eval"), "{answer}");
}
