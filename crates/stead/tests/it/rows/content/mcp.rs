//! Content over MCP: the active catalog lists the tools that an agent sees and may call, and the
//! packs are its prompts.

mod agents;
mod gate;
mod profiles;
mod protocol;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::server;
use agents::{Agent, Notifications, Piped};

fn push(server: &TestServer, version: usize) {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tool = |name: &str| json!({"name": name, "description": "A tool.", "parameters": schema});
    let mut tools = vec![tool("read_file"), tool("launch"), tool("shell_execute")];
    let later = ["rm", "write_file"];
    tools.extend(later.iter().take(version - 1).map(|name| tool(name)));
    let index = json!({
        "schema_version": 1, "prompt_packs": {"greeting": "pack.json"}, "tool_catalogs": {"default": "tools.json"},
        "defaults": {"prompt_pack": "greeting", "tool_catalog": "default"},
    });
    let pack = json!({"description": "How it greets.", "templates": [{"role": "system", "text": "Be kind."}, {"role": "assistant", "text": "Hello."}]});
    let files = json!({
        "agent.workspace.json": index.to_string(), "pack.json": pack.to_string(), "tools.json": json!(tools).to_string(),
    });
    server.client().post("/content/c/versions", json!({"files": files})).expect(201);
}

#[test]
fn a9_the_active_catalog_is_what_an_agent_sees_and_may_call() {
    let server = server();
    let session = contented(&server);
    server.tool(&session, "write", json!({"path": "x.txt", "content": "inside"}));
    let mut agent = Agent::greet(&server, &session, "");
    // A tool must be visible, bound and allowed: `launch` is not bound, and the agent type does not
    // have `shell_execute`.
    assert_eq!(agent.tools(), ["read_file"]);
    let read = agent.call("read_file", json!({"path": "x.txt"}));
    assert_eq!((&read["isError"], &read["content"][0]["text"]), (&json!(false), &json!("inside")), "{read}");
    for (name, arguments, code) in [
        ("bash", json!({}), "tool_not_visible"),
        ("launch", json!({"path": "x"}), "tool_not_bound"),
        ("shell_execute", json!({"path": "x"}), "tool_not_allowed"),
        ("read_file", json!({"path": 1}), "invalid_arguments"),
    ] {
        let refused = agent.call(name, arguments);
        assert_eq!(
            (&refused["isError"], &refused["structuredContent"]["code"]),
            (&json!(true), &json!(code)),
            "{refused}"
        );
    }
    let prompts = agent.ask("prompts/list", json!({}));
    let listed = &prompts["result"]["prompts"][0];
    assert_eq!((&listed["name"], &listed["description"]), (&json!("greeting"), &json!("How it greets.")), "{prompts}");
    let greeting = agent.ask("prompts/get", json!({"name": "greeting"}));
    let messages = &greeting["result"]["messages"];
    assert_eq!(
        (&messages[0]["role"], &messages[0]["content"]["text"]),
        (&json!("user"), &json!("Be kind.")),
        "{greeting}"
    );
    assert_eq!(messages[1]["role"], "assistant");
    assert_eq!(agent.ask("prompts/get", json!({"name": "nothing"}))["error"]["code"], json!(-32602));
    let digest = agent.ask("resources/read", json!({"uri": "stead://digest"}));
    assert!(digest["result"]["contents"][0]["text"].is_string(), "{digest}");

    // A push changes nothing, a sync stages, and only an apply is visible.
    push(&server, 2);
    sync(&server, &session);
    assert_eq!(agent.tools(), ["read_file"]);
    apply(&server, &session);
    assert_eq!(agent.tools(), ["read_file", "rm"]);
}

fn tell(server: &TestServer, session: &Value, event: Value) {
    let id = session["id"].as_str().unwrap();
    server.client().post(&format!("/sessions/{id}/events"), event).expect(202);
}

/// Stages the newest version.
fn sync(server: &TestServer, session: &Value) {
    tell(server, session, json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "c"}}));
    let id = session["id"].as_str().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.client().get(&format!("/sessions/{id}")).expect(200)["content"]["pending"].is_null() {
        assert!(Instant::now() < deadline, "nothing was staged");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn apply(server: &TestServer, session: &Value) {
    tell(server, session, json!({"type": "WorkspaceApplyRequested", "mode": "immediate_if_idle"}));
}

/// A session with the content `c`.
fn contented(server: &TestServer) -> Value {
    push(server, 1);
    let workspace = json!({"enabled": true, "provider": "memory", "tools": ["read", "write", "rm"]});
    let agent_type = json!({"id": "a", "workspace": workspace, "content": {"workspace": "c"}});
    server.client().post("/agent-types", agent_type).expect(201);
    server.session(json!({"agent_type": "a"}))
}

#[test]
fn tool_calls_are_counted_on_every_interface() {
    let server = server();
    let session = contented(&server);
    let id = session["id"].as_str().unwrap();
    let counted = |tool: &str, ok: &str| {
        let metrics = server.client().get("/metrics").text;
        let series = format!(r#"stead_tool_calls_total{{tool="{tool}",ok="{ok}"}} "#);
        metrics.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok()).unwrap_or(0)
    };
    server.tool(&session, "write", json!({"path": "x.txt", "content": "inside"}));
    assert_eq!((counted("write", "true"), counted("read", "true")), (1, 0), "the control: a call over HTTP");
    Agent::greet(&server, &session, "").call("read_file", json!({"path": "x.txt"}));
    assert_eq!(counted("read", "true"), 1, "over MCP");
    let body = json!({"provider": "any", "model": "m1", "input": "hello"});
    let run = server.client().post(&format!("/sessions/{id}/runs"), body).expect(201)["id"].clone();
    let call = json!({"name": "read_file", "arguments": {"path": "missing.txt"}});
    server.client().post(&format!("/sessions/{id}/runs/{}/tool-calls", run.as_str().unwrap()), call).expect(200);
    assert_eq!((counted("read", "true"), counted("read", "false")), (1, 1), "of a run");
}

#[test]
fn list_changed_is_sent_after_an_apply_and_only_then() {
    let server = server();
    let session = contented(&server);
    let mut over_http = Agent::greet(&server, &session, "");
    let stream = over_http.listen();
    let (mut over_pipes, pipe) = Piped::greet(&server, &session, &[]);
    for version in [2, 3] {
        // Other calls, a push and a sync do not change what an agent sees.
        server.tool(&session, "write", json!({"path": format!("{version}.txt"), "content": "x"}));
        push(&server, version);
        sync(&server, &session);
        // Notifications take the same path as these answers, so earlier ones would have arrived by
        // now.
        assert_eq!(over_http.tools().len(), version - 1);
        assert_eq!(over_pipes.tools().len(), version - 1);
        assert_eq!((stream.so_far(), pipe.so_far()), (Vec::new(), Vec::new()));
        apply(&server, &session);
        for notifications in [&stream, &pipe] {
            assert_one_list_changed(notifications);
        }
        assert_eq!((over_http.tools().len(), over_pipes.tools().len()), (version, version));
        assert_eq!((stream.so_far(), pipe.so_far()), (Vec::new(), Vec::new()));
    }
    assert_eq!(over_pipes.leave(), Some(0));
}

#[track_caller]
fn assert_one_list_changed(notifications: &Notifications) {
    assert_eq!(notifications.next(), "notifications/tools/list_changed");
    assert_eq!(notifications.next(), "notifications/prompts/list_changed");
}

#[test]
fn pipes_have_profiles_too() {
    let server = server();
    server.agent_type("p", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "p"}));
    let names = |tools: &[Value]| -> Vec<String> {
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let (mut wink, _) = Piped::greet(&server, &session, &["--profile", "wink"]);
    let shown = names(&wink.tools());
    assert!(shown.contains(&"write_file".to_owned()) && !shown.contains(&"write".to_owned()), "{shown:?}");
    let wrote =
        wink.ask("tools/call", json!({"name": "write_file", "arguments": {"file_path": "a.txt", "content": "1"}}));
    assert_eq!(wrote["result"]["isError"], json!(false), "{wrote}");
    assert_eq!(wink.leave(), Some(0));

    // The profile `stead` lists exactly the tools of `GET /tools` that need no box.
    let (mut own, _) = Piped::greet(&server, &session, &["--profile", "stead"]);
    let mut shown: Vec<(Value, Value, Value)> = own.tools().iter().map(shown_parts).collect();
    let listed = server.client().get("/tools").expect(200);
    let boxed = ["bash", "git", "python", "shell", "bash_output", "bash_kill"];
    let in_memory = |tool: &&Value| !boxed.iter().any(|name| tool["name"] == *name);
    let known = listed["items"].as_array().unwrap().iter().filter(in_memory);
    let mut known: Vec<(Value, Value, Value)> = known.map(shown_parts).collect();
    let order = |tool: &(Value, Value, Value)| tool.0.to_string();
    shown.sort_by_key(order);
    known.sort_by_key(order);
    assert_eq!(shown, known);
    assert_eq!(own.leave(), Some(0));
}

/// Name, description and parameters.
fn shown_parts(tool: &Value) -> (Value, Value, Value) {
    let parameters = tool.get("parameters").or(tool.get("inputSchema"));
    (tool["name"].clone(), tool["description"].clone(), parameters.unwrap().clone())
}

#[test]
fn d1_an_agent_sets_its_digest() {
    let server = server();
    server.agent_type("p", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "p"}));
    let mut agent = Agent::greet(&server, &session, "");
    assert!(agent.tools().contains(&"set_digest".to_owned()));
    let set = agent.call("set_digest", json!({"summary": "A ledger.", "body": "# Ledger\nRun `make`."}));
    assert_eq!((&set["isError"], &set["structuredContent"]["source"]), (&json!(false), &json!("session")), "{set}");
    let shown = agent.ask("resources/read", json!({"uri": "stead://digest"}));
    assert_eq!(shown["result"]["contents"][0]["text"], "# Ledger\nRun `make`.", "{shown}");
    let id = session["id"].as_str().unwrap();
    let digest = server.client().get(&format!("/sessions/{id}/digest")).expect(200);
    assert_eq!((&digest["summary"], &digest["origin"]), (&json!("A ledger."), &json!("given")));
    agent.call("set_digest", json!({"body": "other", "section_key": "notes"}));
    let notes = server.client().get(&format!("/sessions/{id}/digest?section_key=notes")).expect(200);
    assert_eq!(notes["body"], "other");

    // Requests that HTTP refuses are refused here with the same code, and nothing is set.
    for (arguments, code) in [
        (json!({"body": "for all", "scope": "global"}), "forbidden"),
        (json!({"body": ""}), "invalid_request"),
        (json!({}), "invalid_request"),
        (json!({"body": "x", "colour": "red"}), "invalid_request"),
        (json!({"body": "x", "section_key": "not a name"}), "invalid_request"),
        (json!({"body": "x".repeat(100_001)}), "invalid_request"),
    ] {
        let refused = agent.call("set_digest", arguments);
        assert_eq!(
            (&refused["isError"], &refused["structuredContent"]["code"]),
            (&json!(true), &json!(code)),
            "{refused}"
        );
    }
    assert_eq!(server.client().get(&format!("/sessions/{id}/digest")).expect(200)["summary"], "A ledger.");

    // An operator may set the global digest over pipes as well.
    let (mut operator, _) = Piped::greet(&server, &session, &[]);
    let arguments = json!({"body": "for all", "scope": "global"});
    let set = operator.ask("tools/call", json!({"name": "set_digest", "arguments": arguments}));
    assert_eq!(set["result"]["structuredContent"]["source"], "global", "{set}");
    assert_eq!(operator.leave(), Some(0));
    let other = server.session(json!({"agent_type": "p"}));
    let other = server.client().get(&format!("/sessions/{}/digest", other["id"].as_str().unwrap())).expect(200);
    assert_eq!(other["body"], "for all");

    // An agent type with a tool list shows only those tools, and what they enable.
    server.agent_type("r", json!({"enabled": true, "provider": "memory", "tools": ["read"]}));
    let session = server.session(json!({"agent_type": "r"}));
    assert_eq!(Agent::greet(&server, &session, "").tools(), ["read", "stat"]);
}

#[test]
fn a9_a_profile_chooses_the_names() {
    let server = server();
    let workspace = json!({"enabled": true, "provider": "memory", "tools": ["read", "write", "edit", "ls"]});
    server.agent_type("p", workspace);
    let session = server.session(json!({"agent_type": "p"}));
    let mut wink = Agent::greet(&server, &session, "?profile=wink");
    let named = wink.tools();
    assert!(named.contains(&"write_file".to_owned()) && !named.contains(&"shell_execute".to_owned()), "{named:?}");
    let wrote = wink.call("write_file", json!({"file_path": "a.txt", "content": "one"}));
    assert_eq!(wrote["isError"], json!(false), "{wrote}");
    assert_eq!(wink.call("write", json!({}))["structuredContent"]["code"], "tool_not_visible");
    let mut plain = Agent::greet(&server, &session, "");
    assert!(plain.tools().contains(&"write".to_owned()));
}

#[test]
fn a9_the_bash_that_anthropic_taught_keeps_its_state() {
    crate::rows::build_init();
    let server = server();
    server.agent_type("n", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let session = server.session(json!({"agent_type": "n"}));
    let mut claude = Agent::greet(&server, &session, "?profile=anthropic");
    let mut says = |arguments: Value| claude.call("bash", arguments)["content"][0]["text"].as_str().unwrap().to_owned();
    says(json!({"command": "cd /tmp; X=1"}));
    assert_eq!(says(json!({"command": "pwd; echo $X"})), "/tmp\n1\n");
    assert!(says(json!({"restart": true})).contains("new shell was started"));
    assert_eq!(says(json!({"command": "pwd; echo -$X-"})), "/workspace\n--\n");
}

#[test]
fn a9_the_shapes_vendors_taught_do_what_they_say() {
    let server = server();
    server.agent_type("p", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "p"}));
    server.tool(&session, "write", json!({"path": "a.txt", "content": "one\ntwo\n"}));
    let mut claude = Agent::greet(&server, &session, "?profile=anthropic");
    let insert = json!({"command": "insert", "path": "a.txt", "insert_line": 1, "insert_text": "between"});
    let inserted = claude.call("str_replace_based_edit_tool", insert);
    assert_eq!(inserted["isError"], json!(false), "{inserted}");
    let mut codex = Agent::greet(&server, &session, "?profile=openai");
    let patch =
        "*** Begin Patch\n*** Update File: a.txt\n one\n-between\n+amid\n*** Add File: b.txt\n+new\n*** End Patch";
    let patched = codex.call("apply_patch", json!({"input": patch}));
    assert_eq!(patched["isError"], json!(false), "{patched}");
    assert_eq!(patched["content"][0]["text"], "Success. Updated the following files:\nM a.txt\nA b.txt", "{patched}");
    let read = server.tool(&session, "read", json!({"path": "a.txt"}));
    assert_eq!(read["result"]["content"], "one\namid\ntwo\n", "{read}");
    let failed = codex.call("apply_patch", json!({"input": patch}));
    assert_eq!(failed["structuredContent"]["code"], "not_found", "{failed}");

    // A patch is limited to the tools that it replaces, under every name.
    server.agent_type("r", json!({"enabled": true, "provider": "memory", "tools": ["read", "edit"]}));
    let session = server.session(json!({"agent_type": "r"}));
    let id = session["id"].as_str().unwrap();
    server.client().send("PUT", &format!("/sessions/{id}/files/a.txt"), &[], Some("one".to_owned())).expect(201);
    let mut narrow = Agent::greet(&server, &session, "?profile=openai");
    for (body, tool) in [("*** Add File: b\n+x", "write"), ("*** Delete File: a.txt", "rm")] {
        let patch = format!("*** Begin Patch\n{body}\n*** End Patch");
        let refused = narrow.call("apply_patch", json!({"input": patch}));
        assert_eq!(refused["structuredContent"]["code"], "tool_not_allowed", "{refused}");
        let token = session["token"].as_str().unwrap();
        let own =
            server.client().with_token(token).post(&format!("/sessions/{id}/tools/edit"), json!({"patch": patch}));
        assert_eq!(own.problem(403, "tool_not_enabled"), format!("Tool '{tool}' is not enabled for this agent type"));
    }
    let update = "*** Begin Patch\n*** Update File: a.txt\n-one\n+two\n*** End Patch";
    let updated = narrow.call("apply_patch", json!({"input": update}));
    assert_eq!(updated["isError"], json!(false), "{updated}");
}
