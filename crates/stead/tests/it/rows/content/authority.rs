//! A7–A10, A12, A14: runs and their refusals, the check on every tool call, MCP-backed bindings,
//! and replay under other content.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::{Reply, TestServer};

use super::sync_and_apply::{apply, at, bot, kinds, push, run, show, step, sync};
use crate::rows::server;

/// Creates a session of an agent type with a workspace, these tools and this content section.
fn worker(server: &TestServer, tools: Value, content: Value) -> Value {
    let workspace = json!({"enabled": true, "provider": "memory", "workspace_policy": "empty", "tools": tools});
    server
        .client()
        .post("/agent-types", json!({"id": "worker", "workspace": workspace, "content": content}))
        .expect(201);
    server.session(json!({"agent_type": "worker"}))
}

fn call(server: &TestServer, session: &Value, run: &str, name: &str, arguments: Value) -> Reply {
    let body = json!({"name": name, "arguments": arguments, "call_id": "toolu_1"});
    server.client().post(&at(session, &format!("/runs/{run}/tool-calls")), body)
}

#[test]
fn a9_visible_and_bound_and_allowed() {
    let server = server();
    push(&server, "bot", bot("x"));
    let session = worker(&server, json!(["ls", "rm"]), json!({"workspace": "bot"}));
    let run = run(&server, &session);
    let answer = call(&server, &session, &run, "ls", json!({})).expect(200);
    assert_eq!((&answer["ok"], &answer["call_id"], &answer["tool"]), (&json!(true), &json!("toolu_1"), &json!("ls")));
    let before = show(&server, &session)["workspace"]["tree_hash"].clone();
    // Bound and allowed, but not in the catalog.
    let hidden = call(&server, &session, &run, "rm", json!({"path": "a"}));
    let reported = hidden.problem(403, "tool_not_visible");
    assert!(reported.contains("Tools you can call: ls."), "{reported}");
    assert_eq!(
        hidden.json()["tool_result"],
        json!({"call_id": "toolu_1", "name": "rm", "is_error": true, "content": reported})
    );
    // In the catalog, but not bound.
    call(&server, &session, &run, "launch", json!({})).problem(403, "tool_not_bound");
    // A10: arguments that do not match the schema are refused before the tool runs.
    let wrong = call(&server, &session, &run, "ls", json!({"path": 1, "deep": true}));
    wrong.problem(422, "invalid_arguments");
    assert!(wrong.json()["errors"].as_array().unwrap().iter().any(|error| error["field"] == "path"), "{}", wrong.text);
    let seen = kinds(&server, &session);
    assert_eq!(seen.iter().filter(|kind| *kind == "BoundCallRefused").count(), 3);
    assert_eq!(seen.iter().filter(|kind| *kind == "ToolCallStarted").count(), 1);
    assert_eq!(show(&server, &session)["workspace"]["tree_hash"], before);
    let refusals = server.client().get("/audit?type=refusal").expect(200);
    assert_eq!(refusals["items"].as_array().unwrap().len(), 3);
    // The plain tool route checks only the agent type.
    server.tool(&session, "ls", json!({}));
}

#[test]
fn a9_visible_and_bound_and_not_allowed() {
    let server = server();
    push(&server, "bot", bot("x"));
    let session = worker(&server, json!(["read"]), json!({"workspace": "bot", "bindings": {"launch": "bash"}}));
    let run = run(&server, &session);
    let answer = call(&server, &session, &run, "ls", json!({})).problem(403, "tool_not_allowed");
    assert!(answer.contains("'ls' is not enabled for this agent type"), "{answer}");
    call(&server, &session, &run, "launch", json!({})).problem(403, "tool_not_allowed");
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    let path = at(&session, &format!("/runs/{run}/tool-calls"));
    agent.post(&path, json!({"name": "ls"})).problem(403, "tool_not_allowed");
}

#[test]
fn a9_what_the_agent_type_unbinds_is_not_bound() {
    let server = server();
    push(&server, "bot", bot("x"));
    let session = worker(&server, json!(["ls"]), json!({"workspace": "bot", "bindings": {"ls": null}}));
    let run = run(&server, &session);
    call(&server, &session, &run, "ls", json!({})).problem(403, "tool_not_bound");
}

#[test]
fn a7_a8_runs_and_their_refusals() {
    let server = server();
    push(&server, "bot", bot("x"));
    let defaults =
        json!({"workspace": "bot", "run": {"provider": "p0", "model": "m0", "max_tokens": 7, "temperature": 0.5}});
    let session = worker(&server, json!(["ls"]), defaults);
    let runs = at(&session, "/runs");
    let client = server.client();
    // The run overrides the session's defaults field by field.
    let started = client.post(&runs, json!({"model": "m1", "max_tokens": 9, "input": "hi"})).expect(201);
    assert_eq!((&started["provider"], &started["model"]), (&json!("p0"), &json!("m1")));
    let run = started["id"].as_str().unwrap();
    let steps = at(&session, &format!("/runs/{run}/steps"));
    let first = client.post(&steps, json!({"temperature": 0})).expect(201);
    let options = |step: &Value| (step["request"]["max_tokens"].clone(), step["request"]["temperature"].clone());
    assert_eq!(options(&first), (json!(9), json!(0)));
    client.post(&runs, json!({})).problem(409, "run_active");
    client.post(&steps, json!({"model": "m2"})).problem(400, "invalid_request");
    client.post(&steps, json!({"prompt_pack": "none"})).problem(422, "unknown_prompt_pack");
    client.post(&steps, json!({"tool_catalog": "none"})).problem(422, "unknown_tool_catalog");
    client.post(&steps, json!({"messages": [{"role": "robot", "content": "x"}]})).problem(400, "invalid_request");
    // Earlier messages are kept; the idempotency key makes a step apply once.
    let next_step =
        json!({"messages": [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "go on"}]});
    let keyed = || client.send("POST", &steps, &[("idempotency-key", "s2")], Some(next_step.to_string())).expect(201);
    let second = keyed();
    assert_eq!((second["sizes"]["messages"].as_u64(), &second["step"]), (Some(4), &json!(2)));
    assert_eq!(keyed(), second);
    client
        .post(&at(&session, &format!("/runs/{run}/fail")), json!({"code": "model", "detail": "it broke"}))
        .expect(200);
    client.post(&steps, json!({})).problem(409, "run_not_active");
    client.post(&at(&session, &format!("/runs/{run}/complete")), json!({})).problem(409, "run_not_active");
    let listed = client.get(&runs).expect(200);
    assert_eq!((&listed["items"][0]["status"], &listed["items"][0]["detail"]), (&json!("failed"), &json!("it broke")));
    let missing = format!("{runs}/run_00000000000000000000000000/steps");
    client.post(&missing, json!({})).problem(404, "not_found");
    // Without content and defaults, provider and model are required.
    client.post("/agent-types", json!({"id": "bare"})).expect(201);
    let bare = server.session(json!({"agent_type": "bare"}));
    client.post(&at(&bare, "/runs"), json!({"model": "m"})).problem(422, "missing_provider");
    client.post(&at(&bare, "/runs"), json!({"provider": "p"})).problem(422, "missing_model");
    let empty = client.post(&at(&bare, "/runs"), json!({"provider": "p", "model": "m"})).expect(201);
    let empty = empty["id"].as_str().unwrap();
    client.post(&at(&bare, &format!("/runs/{empty}/steps")), json!({})).problem(422, "empty_messages");
    // A run keeps the content version that it asked for.
    push(&server, "bot", bot("two"));
    sync(&server, &session);
    apply(&server, &session, "immediate_if_idle");
    let pinned = client.post(&runs, json!({"workspace_version": 1})).expect(201);
    let taken = step(&server, &session, pinned["id"].as_str().unwrap());
    assert_eq!(
        (&taken["snapshot"]["version"], show(&server, &session)["content"]["active"]["version"].as_u64()),
        (&json!(1), Some(2))
    );
    assert_eq!(server.client().delete(&at(&session, "")).status, 204);
    assert!(kinds(&server, &session).contains(&"RunCancelled".to_owned()));
}

#[test]
fn profiles_are_catalogs_every_session_has() {
    let server = server();
    let session = worker(&server, json!(["read", "write", "edit", "ls"]), Value::Null);
    let start = |catalog: &str| {
        let body = json!({"provider": "p", "model": "m", "tool_catalog": catalog, "input": "hi"});
        server.client().post(&at(&session, "/runs"), body).expect(201)["id"].as_str().unwrap().to_owned()
    };
    let stop = |run: &str| server.client().post(&at(&session, &format!("/runs/{run}/complete")), json!({})).expect(200);
    let run = start("anthropic");
    let taken =
        server.client().post(&at(&session, &format!("/runs/{run}/steps?format=anthropic")), json!({})).expect(201);
    assert_eq!(
        taken["request"]["tools"][1],
        json!({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"})
    );
    let editor = |arguments: Value| call(&server, &session, &run, "str_replace_based_edit_tool", arguments);
    let created = json!({"command": "create", "path": "a.txt", "file_text": "one\ntwo\n"});
    assert_eq!(editor(created).expect(200)["ok"], true);
    let edited = json!({"command": "str_replace", "path": "a.txt", "old_str": "two", "new_str": "2"});
    assert_eq!(editor(edited).expect(200)["ok"], true);
    let seen = editor(json!({"command": "view", "path": "a.txt", "view_range": [2, 2]})).expect(200);
    assert_eq!(seen["result"]["content"], "2\n", "{seen}");
    editor(json!({"command": "insert", "path": "a.txt", "insert_line": 0})).problem(422, "invalid_arguments");
    editor(json!({"command": "explode", "path": "a.txt"})).problem(422, "invalid_arguments");
    call(&server, &session, &run, "bash", json!({"command": "id"})).problem(403, "tool_not_allowed");
    stop(&run);
    let run = start("mcp-filesystem");
    let answer = call(
        &server,
        &session,
        &run,
        "edit_file",
        json!({"path": "a.txt", "edits": [{"oldText": "one", "newText": "1"}]}),
    );
    assert_eq!(answer.expect(200)["ok"], true);
    stop(&run);
    let run = start("wink");
    let read = call(&server, &session, &run, "read_file", json!({"file_path": "a.txt"})).expect(200);
    assert_eq!(read["result"]["content"], "1\n2\n", "{read}");
    stop(&run);
    for (profile, name, arguments) in [("openai", "list_dir", json!({})), ("stead", "ls", json!({}))] {
        let run = start(profile);
        assert_eq!(call(&server, &session, &run, name, arguments).expect(200)["ok"], true);
        stop(&run);
    }
}

/// A minimal MCP server. `add` adds, `boom` fails, `env` and `pid` describe the process, and
/// `forget` drops its sessions.
const MCP: &str = r#"
import json, os, sys
state = {"greeted": 0, "known": 0}
def answer(message):
    method = message.get("method")
    if method == "initialize":
        state["greeted"] += 1
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    if method == "tools/call":
        name, given = message["params"]["name"], message["params"]["arguments"]
        if name == "add":
            total = given["a"] + given["b"]
            return {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"total": total}}
        if name == "pid":
            return {"content": [{"type": "text", "text": "%d %d" % (os.getpid(), state["greeted"])}]}
        if name == "forget":
            state["known"] += 1
            return {"content": []}
        if name == "env":
            return {"content": [{"type": "text", "text": " ".join(sorted(os.environ))}]}
        return {"content": [{"type": "text", "text": "it went boom"}], "isError": True}
    return None
if sys.argv[1] == "stdio":
    for line in sys.stdin:
        message = json.loads(line)
        result = answer(message)
        if "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
else:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            known = self.headers.get("authorization") == "Bearer operator"
            if not known:
                self.send_response(401); self.send_header("content-length", "0"); self.end_headers(); return
            if message["method"] == "tools/call" and self.headers.get("mcp-session-id") != "s%d" % state["known"]:
                self.send_response(404); self.send_header("content-length", "0"); self.end_headers(); return
            named = "s%d" % state["known"]
            result = answer(message)
            if "id" not in message:
                self.send_response(202); self.send_header("content-length", "0"); self.end_headers(); return
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            stream = message["method"] == "tools/call"
            body = ("event: message\ndata: %s\n\n" % body if stream else body).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if stream else "application/json")
            self.send_header("mcp-session-id", named); self.send_header("content-length", str(len(body))); self.end_headers()
            self.wfile.write(body)
        def do_DELETE(self):
            open(sys.argv[2], "w").close()
            self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
        def log_message(self, *args): pass
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
"#;

fn adder() -> Value {
    let number = json!({"type": "number"});
    let add = json!({"name": "add", "parameters": {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}});
    let plain = |name: &str| json!({"name": name, "parameters": {"type": "object"}});
    let tools =
        json!([add, plain("boom"), plain("secret"), plain("env"), plain("stray"), plain("pid"), plain("forget")]);
    json!({"files": {
        "agent.workspace.json": json!({
            "schema_version": 1, "tool_catalogs": {"default": "c.json"}, "defaults": {"tool_catalog": "default"},
            "context_groups": {},
        }).to_string(),
        "c.json": tools.to_string(),
    }})
}

fn mcp_session(server: &TestServer, mcp: Value) -> (Value, String) {
    push(server, "adder", adder());
    let bind = |tool: &str| json!({"mcp": "m", "tool": tool});
    let bindings = json!({
        "add": bind("add"), "boom": bind("boom"), "secret": bind("secret"), "env": bind("env"), "pid": bind("pid"), "forget": bind("forget"), "stray": {"mcp": "other", "tool": "x"},
    });
    let session =
        worker(server, json!([]), json!({"workspace": "adder", "bindings": bindings, "mcp_servers": {"m": mcp}}));
    let run = run(server, &session);
    (session, run)
}

#[test]
fn a14_a_tool_of_an_mcp_server_over_stdio() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("mcp.py");
    std::fs::write(&script, MCP).unwrap();
    let command = json!(["python3", script, "stdio"]);
    let mcp = json!({"command": command, "tools": ["add", "boom", "env"], "env": {"MARK": "canary-in-env"}, "timeout_seconds": 20});
    let (session, run) = mcp_session(&server, mcp);
    let answer = call(&server, &session, &run, "add", json!({"a": 2, "b": 3})).expect(200);
    assert_eq!((&answer["ok"], &answer["message"]), (&json!(true), &json!("5")));
    assert_eq!(answer["result"]["structured_content"], json!({"total": 5}));
    // Calls pass the same checks.
    call(&server, &session, &run, "add", json!({"a": "2"})).problem(422, "invalid_arguments");
    call(&server, &session, &run, "secret", json!({})).problem(403, "tool_not_allowed");
    call(&server, &session, &run, "stray", json!({})).problem(403, "tool_not_allowed");
    let failed = call(&server, &session, &run, "boom", json!({})).expect(200);
    assert_eq!((&failed["ok"], &failed["error"]["code"]), (&json!(false), &json!("mcp_tool_failed")));
    // The process gets none of the server's environment, and the journal and audit log do not
    // contain the configured environment or command.
    let env = call(&server, &session, &run, "env", json!({})).expect(200);
    let names = env["message"].as_str().unwrap();
    assert!(names.contains("MARK") && !names.contains("STEAD"), "{names}");
    let page = server.client().send("GET", &at(&session, "/events?limit=500"), &[("accept", "application/json")], None);
    assert!(!page.text.contains("canary-in-env") && !page.text.contains("mcp.py"), "{}", page.text);
    assert!(!server.client().get("/audit").text.contains("canary-in-env"));
}

/// A child process that is killed when the test ends, also when it panics.
struct KilledOnDrop(std::process::Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts the MCP server over HTTP and returns it with its URL. It creates the file `farewell` when
/// a client ends its session.
fn over_http(farewell: &Path) -> (KilledOnDrop, String) {
    let mut command = Command::new("python3");
    let spawned = command.args(["-c", MCP, "http"]).arg(farewell).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = KilledOnDrop(spawned.unwrap());
    let mut port = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (child, format!("http://127.0.0.1:{}/mcp", port.trim()))
}

#[test]
fn a14_a_tool_of_an_mcp_server_over_http() {
    let server = server();
    let (child, url) = over_http(Path::new("/dev/null"));
    let mcp =
        json!({"url": url, "headers": {"Authorization": "Bearer operator"}, "tools": ["add"], "timeout_seconds": 20});
    let (session, run) = mcp_session(&server, mcp);
    let answer = call(&server, &session, &run, "add", json!({"a": 20, "b": 3})).expect(200);
    assert_eq!((&answer["ok"], &answer["message"]), (&json!(true), &json!("23")), "{answer}");
    drop(child);
    let gone = call(&server, &session, &run, "add", json!({"a": 1, "b": 1})).expect(200);
    assert_eq!((&gone["ok"], &gone["error"]["code"]), (&json!(false), &json!("mcp_unavailable")));
}

/// Returns the id of the process that answered and how often it was initialized.
fn process_and_initializations(server: &TestServer, session: &Value, run: &str) -> (u32, u32) {
    let answer = call(server, session, run, "pid", json!({})).expect(200);
    let words: Vec<u32> = answer["message"]
        .as_str()
        .unwrap()
        .split(' ')
        .map(|word| word.parse().unwrap_or_else(|_| panic!("{answer}")))
        .collect();
    (words[0], words[1])
}

#[test]
fn a14_a_connection_is_one_session_s_and_ends_with_it() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("mcp.py");
    std::fs::write(&script, MCP).unwrap();
    let mcp = json!({"command": ["python3", script, "stdio"], "tools": ["pid", "boom"], "timeout_seconds": 60});
    let (session, first_run) = mcp_session(&server, mcp);
    let first = process_and_initializations(&server, &session, &first_run);
    // A failing tool does not end the connection.
    call(&server, &session, &first_run, "boom", json!({})).expect(200);
    assert_eq!(process_and_initializations(&server, &session, &first_run), (first.0, 1));
    let other = server.session(json!({"agent_type": session["agent_type"]}));
    let other_run = run(&server, &other);
    let others = process_and_initializations(&server, &other, &other_run);
    assert_ne!(others.0, first.0);

    // A server process that died is started again.
    let died = rustix::process::Pid::from_raw(i32::try_from(first.0).unwrap()).unwrap();
    rustix::process::kill_process(died, rustix::process::Signal::KILL).unwrap();
    gone(first.0);
    let second = process_and_initializations(&server, &session, &first_run);
    assert_ne!(second.0, first.0);
    assert_eq!(process_and_initializations(&server, &session, &first_run), second);

    server.client().delete(&at(&session, "")).expect(204);
    gone(second.0);
    assert_eq!(process_and_initializations(&server, &other, &other_run), others);
}

/// Waits until the process has ended (or is a zombie).
#[track_caller]
fn gone(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let alive = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
    };
    while alive() {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a14_a_server_that_lost_the_session_is_initialized_again_and_gets_the_end() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let farewell = folder.path().join("farewell");
    let (_child, url) = over_http(&farewell);
    let headers = json!({"Authorization": "Bearer operator"});
    let mcp = json!({"url": url, "headers": headers, "tools": ["pid", "forget"], "timeout_seconds": 60});
    let (session, run) = mcp_session(&server, mcp);
    assert_eq!(process_and_initializations(&server, &session, &run).1, 1);
    assert_eq!(process_and_initializations(&server, &session, &run).1, 1);
    call(&server, &session, &run, "forget", json!({})).expect(200);
    assert_eq!(process_and_initializations(&server, &session, &run).1, 2);
    assert_eq!(process_and_initializations(&server, &session, &run).1, 2);
    std::fs::remove_file(&farewell).unwrap_or_default();
    server.client().delete(&at(&session, "")).expect(204);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !farewell.exists() {
        assert!(Instant::now() < deadline, "nobody said goodbye");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn content_itself_can_be_read_by_a_bound_tool() {
    let server = server();
    let mut files = bot("secret style");
    let reader =
        json!({"name": "content_read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}});
    files["files"]["c.json"] = json!(json!([reader]).to_string());
    push(&server, "bot", files.clone());
    let session = worker(&server, json!([]), json!({"workspace": "bot"}));
    let run = run(&server, &session);
    let read = call(&server, &session, &run, "content_read", json!({"path": "prompts/system.md"})).expect(200);
    assert_eq!(read["result"]["content"], "secret style");
    let none = call(&server, &session, &run, "content_read", json!({"path": "../x"})).expect(200);
    assert_eq!(none["error"]["code"], "not_found");
    let other = json!({"id": "closed", "content": {"workspace": "bot", "operations": ["sync"]}});
    server.client().post("/agent-types", other).expect(201);
    let session = server.session(json!({"agent_type": "closed"}));
    let run = super::sync_and_apply::run(&server, &session);
    call(&server, &session, &run, "content_read", json!({"path": "c.json"})).problem(403, "tool_not_allowed");
}

#[test]
fn a12_every_decision_can_be_made_again_under_other_content() {
    let server = server();
    push(&server, "bot", bot("one"));
    let session = worker(&server, json!(["ls"]), json!({"workspace": "bot"}));
    let run = run(&server, &session);
    step(&server, &session, &run);
    call(&server, &session, &run, "ls", json!({})).expect(200);
    call(&server, &session, &run, "launch", json!({})).problem(403, "tool_not_bound");
    let against = |query: &str| server.client().get(&at(&session, &format!("/replay/against?{query}"))).expect(200);
    let same = against("content=bot@1");
    assert_eq!((&same["identical"], &same["compared"]), (&json!(true), &json!(3)), "{same}");
    let mut other = bot("two");
    other["files"]["c.json"] = json!(json!([{"name": "launch", "parameters": {"type": "object"}}]).to_string());
    push(&server, "bot", other);
    let seq = show(&server, &session)["seq"].clone();
    let changed = against("content=bot@2");
    assert_eq!(
        (changed["changed"].as_array().unwrap().len(), &changed["changed"][0]["what"]),
        (2, &json!("step")),
        "{changed}"
    );
    assert_eq!(changed["changed"][1]["now"], "'ls' is refused: tool_not_visible");
    assert_eq!(changed["first_divergence"], changed["changed"][0]["seq"]);
    server
        .client()
        .put("/agent-types/worker/workspace-config", json!({"enabled": true, "provider": "memory", "tools": []}))
        .expect(200);
    let changed = against("agent_type=worker");
    assert_eq!(changed["changed"][0]["now"], "'ls' is refused: tool_not_allowed", "{changed}");
    // The replay changed nothing.
    assert_eq!(show(&server, &session)["seq"], seq);
    server.client().get(&at(&session, "/replay/against")).problem(422, "semantic_mismatch");
    server.client().get(&at(&session, "/replay/against?content=bot@9")).problem(404, "not_found");
    let then = server.client().get(&at(&session, "/state?at=3")).expect(200);
    assert_eq!(then["seq"], 3);
    server.client().get(&at(&session, "/state?at=9999")).problem(404, "not_found");
}

#[test]
fn a_bundle_can_be_a_version_of_content() {
    let server = server();
    let files = json!({"files": {"src/a.txt": "from content", "b": "x"}});
    server.client().post("/content/tree/versions?allow_invalid=1", files).expect(201);
    let session = |source: &str| {
        let policy = json!({"type": "bundle", "source": {"content": source}});
        server.session(json!({"agent_type": "w", "task": {"workspace_policy": policy}}))
    };
    server.agent_type("w", json!({"enabled": true, "provider": "memory"}));
    let read = server.tool(&session("tree@1"), "read", json!({"path": "src/a.txt"}));
    assert_eq!(read["result"]["content"], "from content");
    assert_eq!(session("tree@7")["degraded"], true);
}
