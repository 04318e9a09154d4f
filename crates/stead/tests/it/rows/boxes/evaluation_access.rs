//! E1–E5: names, values and file access of evaluations, on every provider.

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::{Files, on_all, put, writer};

/// A session whose agent type has only these tools.
fn with_tools(server: &TestServer, files: Files, id: &str, tools: &[&str]) -> Value {
    server.agent_type(id, json!({"enabled": true, "provider": files.provider(), "tools": tools}));
    server.session(json!({"agent_type": id}))
}

/// The last line of the traceback of code that fails.
#[track_caller]
fn error(server: &TestServer, session: &Value, code: &str) -> String {
    let answer = server.tool(session, "eval", json!({"code": code}));
    assert_eq!(answer["error"]["code"], "evaluation_failed", "{code}: {answer}");
    answer["result"]["stderr"].as_str().unwrap().trim_end().lines().last().unwrap_or_default().to_owned()
}

#[track_caller]
fn value(server: &TestServer, session: &Value, code: &str) -> String {
    let answer = server.tool(session, "eval", json!({"code": code}));
    assert_eq!(answer["ok"], true, "{code}: {answer}");
    answer["result"]["value_repr"].as_str().unwrap().to_owned()
}

/// The paths of the files at the root.
#[track_caller]
fn paths(server: &TestServer, session: &Value) -> Vec<String> {
    let id = session["id"].as_str().unwrap();
    let entries = server.client().get(&format!("/sessions/{id}/files")).expect(200);
    let paths = entries["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned());
    paths.filter(|path| !path.starts_with(".stead")).collect()
}

fn e2_a_name_that_nothing_binds_is_a_name_error(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let missing = "NameError: name 'foo' is not defined";
    for code in [
        "foo('a', 'b', 'create')",
        "foo('a', content='b', mode='overwrite')",
        "def f(): return foo('a', 'b', 'create')\nf()",
        "foo(write_text('a', 'b'))",
        "(lambda: foo('a'))()",
        "if False:\n    foo = 1\nfoo('a', 'b', 'create')",
        "x = foo",
        "foo = 1\ndel foo\nfoo",
        "foo = len\ndel foo\nfoo('a', 'b', 'create')",
        "foo = 1\ndel foo\nfoo += 1",
        "del foo",
    ] {
        assert_eq!(error(&server, &session, code), missing, "{code}");
    }
    let caught = "try:\n    foo(write_text('a', 'b'), 'b', 'create')\nexcept NameError as e:\n    print(e)\n1";
    assert_eq!(value(&server, &session, caught), "1");
    assert_eq!(value(&server, &session, "len = 5\ndel len\nlen('abc')"), "3", "the builtin is visible again");
    assert_eq!(value(&server, &session, "sqrt(16), floor(pi), pow(2, 5, 7), e == math.e"), "(4.0, 3, 4, True)");
    assert_eq!(paths(&server, &session), Vec::<String>::new());
}

fn e1_values_without_a_json_form_stay_inside(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let code = "x = float('nan')\ny = [1, float('-inf')]\ns = 'text'\nf = len\npi2 = 2 * pi\nx, y";
    let answer = server.tool(&session, "eval", json!({"code": code}));
    assert_eq!(answer["result"]["value_repr"], "(nan, [1, -inf])", "{answer}");
    assert_eq!(answer["result"]["globals"], json!({"s": "\"text\"", "pi2": "6.283185307179586"}), "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.ends_with("Not in globals, because JSON has no NaN and no infinity: x, y."), "{message}");
    // What comes out goes in.
    let again = json!({"code": "s + '!'", "globals": answer["result"]["globals"]});
    assert_eq!(server.tool(&session, "eval", again)["result"]["value_repr"], "'text!'");
    for text in ["NaN", "[-Infinity]"] {
        let refused = server.tool(&session, "eval", json!({"code": "x", "globals": {"x": text}}));
        assert_eq!(refused["error"]["code"], "invalid_argument", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("float('nan')"), "{refused}");
    }
}

fn e4_a_refused_declared_write_keeps_the_output(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "kept.txt", b"old");
    let writes = json!([{"path": "new.txt", "content": "{n}"}, {"path": "kept.txt", "content": "2"}]);
    let answer = server.tool(&session, "eval", json!({"code": "print('seen')\nn = 1\nn", "writes": writes}));
    assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!("exists")), "{answer}");
    assert!(answer["message"].as_str().unwrap().starts_with("kept.txt: "), "{answer}");
    assert!(answer["message"].as_str().unwrap().ends_with("No file was changed."), "{answer}");
    let result = &answer["result"];
    assert_eq!((&result["stdout"], &result["value_repr"]), (&json!("seen\n"), &json!("1")), "{answer}");
    assert_eq!((&result["writes"], &result["globals"]["n"]), (&json!([]), &json!("1")), "{answer}");
    assert_eq!(paths(&server, &session), ["kept.txt"]);
}

fn e5_reading_needs_read_and_writing_needs_write(files: Files) {
    let server = files.server();
    let needs = |tool: &str| {
        format!("PermissionError: The tool '{tool}' is not enabled for this agent type, and 'eval' needs it for this.")
    };
    let refused = |session: &Value, arguments: Value, tool: &str| {
        let path = format!("/sessions/{}/tools/eval", session["id"].as_str().unwrap());
        for client in [server.client().clone(), server.client().with_token(session["token"].as_str().unwrap())] {
            let detail = client.post(&path, arguments.clone()).problem(403, "tool_not_enabled");
            assert_eq!(detail, format!("Tool '{tool}' is not enabled for this agent type"));
        }
    };
    let reads = json!({"code": "1", "reads": [{"path": "a.txt"}]});
    let writes = json!({"code": "1", "writes": [{"path": "b.txt", "content": "x", "mode": "overwrite"}]});

    let reader = with_tools(&server, files, "reader", &["eval", "read"]);
    put(&server, &reader, "a.txt", b"alpha");
    assert_eq!(value(&server, &reader, "read_text('a.txt')"), "'alpha'");
    for mode in ["create", "overwrite", "append"] {
        assert_eq!(error(&server, &reader, &format!("write_text('b.txt', 'x', '{mode}')")), needs("write"));
    }
    let caught =
        "try:\n    write_text('b.txt', 'x')\nexcept PermissionError:\n    print('no')\nlen(read_text('a.txt'))";
    assert_eq!(value(&server, &reader, caught), "5");
    refused(&reader, writes.clone(), "write");
    assert_eq!(server.tool(&reader, "eval", reads.clone())["ok"], true);
    assert_eq!(paths(&server, &reader), ["a.txt"]);

    let scribe = with_tools(&server, files, "scribe", &["eval", "write"]);
    put(&server, &scribe, "a.txt", b"alpha");
    assert_eq!(error(&server, &scribe, "read_text('a.txt')"), needs("read"));
    assert_eq!(error(&server, &scribe, "write_text('c.txt', 'x')\nread_text('c.txt')"), needs("read"));
    refused(&scribe, reads.clone(), "read");
    assert_eq!(server.tool(&scribe, "eval", writes.clone())["ok"], true);
    assert_eq!(paths(&server, &scribe), ["a.txt", "b.txt"]);

    let thinker = with_tools(&server, files, "thinker", &["eval"]);
    assert_eq!(value(&server, &thinker, "6 * 7"), "42");
    refused(&thinker, reads, "read");
    refused(&thinker, writes, "write");
    assert_eq!(error(&server, &thinker, "write_text('b.txt', 'x')"), needs("write"));
    assert_eq!(paths(&server, &thinker), Vec::<String>::new());
}

fn e5_write_modes_are_those_of_the_write_tool(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    for (number, mode) in ["create", "overwrite", "append"].into_iter().enumerate() {
        for there in [false, true] {
            let run = |tool: &str, arguments: Value, path: &str| {
                if there {
                    put(&server, &session, path, b"old.");
                }
                let answer = server.tool(&session, tool, arguments);
                let content = server.tool(&session, "read", json!({"path": path}))["result"]["content"].clone();
                (answer["ok"].clone(), answer["error"]["code"].clone(), content)
            };
            let path = |tool: &str| format!("{tool}-{number}-{there}.txt");
            let (tool, declared) = (path("tool"), path("declared"));
            let by_tool = run("write", json!({"path": tool, "content": "new", "mode": mode}), &tool);
            let writes = json!([{"path": declared, "content": "new", "mode": mode}]);
            let by_declaration = run("eval", json!({"code": "1", "writes": writes}), &declared);
            assert_eq!(by_tool, by_declaration, "{mode}, there: {there}");
            let called = path("called");
            let code = format!("write_text('{called}', 'new', '{mode}')");
            let (ok, _, content) = run("eval", json!({"code": code}), &called);
            assert_eq!((ok, content), (by_tool.0, by_tool.2), "{mode}, there: {there}");
        }
    }
}

on_all!(
    e1_values_without_a_json_form_stay_inside,
    e2_a_name_that_nothing_binds_is_a_name_error,
    e4_a_refused_declared_write_keeps_the_output,
    e5_reading_needs_read_and_writing_needs_write,
    e5_write_modes_are_those_of_the_write_tool,
);
