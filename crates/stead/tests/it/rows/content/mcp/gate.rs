//! With an active catalog, a session token sees and calls only what the catalog has.

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use super::agents::Agent;
use super::contented;
use crate::rows::{build_init, events, server};

#[test]
fn a9_no_api_gives_a_session_token_more_than_the_active_catalog() {
    let server = server();
    // The catalog has `read_file`. The agent type also enables `write` and `rm`.
    let session = contented(&server);
    let id = session["id"].as_str().unwrap();
    server.tool(&session, "write", json!({"path": "x.txt", "content": "inside"}));
    let own = server.client().with_token(session["token"].as_str().unwrap());
    let tool = |name: &str, arguments: Value| own.post(&format!("/sessions/{id}/tools/{name}"), arguments);

    let refused = tool("write", json!({"path": "y.txt", "content": "x"})).problem(403, "tool_not_visible");
    assert!(refused.contains("Tools you can call: read_file."), "{refused}");
    tool("rm", json!({"path": "x.txt"})).problem(403, "tool_not_visible");
    tool("glob", json!({"pattern": "*"})).problem(403, "tool_not_visible");
    let read = tool("read", json!({"path": "x.txt"})).expect(200);
    assert_eq!((&read["tool"], &read["result"]["content"]), (&json!("read"), &json!("inside")), "{read}");
    // The descriptor's schema applies to a call by the tool's own name, too.
    tool("read", json!({"path": 1})).problem(422, "invalid_arguments");
    let refusals = events(&server, id, "BoundCallRefused");
    assert_eq!(refusals.len(), 4, "{refusals:?}");

    let file = |method: &str| own.send(method, &format!("/sessions/{id}/files/x.txt"), &[], Some("y".to_owned()));
    file("PUT").problem(403, "tool_not_visible");
    file("DELETE").problem(403, "tool_not_visible");
    assert_eq!(own.get(&format!("/sessions/{id}/files/x.txt")).text, "inside");

    // A profile does not replace the catalog.
    let mut agent = Agent::greet(&server, &session, "?profile=stead");
    assert_eq!(agent.tools(), ["read_file"]);
    assert_eq!(
        agent.call("write", json!({"path": "y", "content": "x"}))["structuredContent"]["code"],
        "tool_not_visible"
    );
    assert_eq!(agent.call("read_file", json!({"path": "x.txt"}))["content"][0]["text"], "inside");

    // Nor does a run, a step, or a sync.
    let body = json!({"provider": "any", "model": "m1", "input": "hello", "tool_catalog": "stead"});
    own.post(&format!("/sessions/{id}/runs"), body).problem(403, "forbidden");
    let body = json!({"provider": "any", "model": "m1", "input": "hello"});
    let run = own.post(&format!("/sessions/{id}/runs"), body).expect(201)["id"].as_str().unwrap().to_owned();
    own.post(&format!("/sessions/{id}/runs/{run}/steps"), json!({"tool_catalog": "stead"})).problem(403, "forbidden");
    let sync =
        json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "c"}, "tool_catalog": "stead"});
    own.post(&format!("/sessions/{id}/events"), sync).problem(403, "forbidden");

    let prompt = own.get(&format!("/sessions/{id}/prompt")).expect(200);
    let text = prompt["text"].as_str().unwrap();
    assert!(text.contains("- `read_file`") && !text.contains("- `write`"), "{text}");

    let shown = own.get(&format!("/sessions/{id}")).expect(200);
    assert_eq!(shown["workspace"]["tools"], json!(["read"]), "{shown}");

    // An operator chooses the catalog, so the gate is not for it.
    server.tool(&session, "rm", json!({"path": "x.txt"}));
}

#[test]
fn a9_a_session_without_a_box_shows_no_tool_that_needs_one() {
    let server = server();
    server.agent_type("p", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "p"}));
    let id = session["id"].as_str().unwrap();
    let boxed = ["bash", "shell", "bash_output", "bash_kill", "python", "git"];
    let none_of = |names: &[String]| !names.iter().any(|name| boxed.contains(&name.as_str()));
    let mut own = Agent::greet(&server, &session, "");
    let listed = own.tools();
    assert!(none_of(&listed) && listed.contains(&"read".to_owned()), "{listed:?}");
    let listed = Agent::greet(&server, &session, "?profile=openai").tools();
    assert!(!listed.contains(&"shell".to_owned()) && listed.contains(&"apply_patch".to_owned()), "{listed:?}");
    let names = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let shown = names(&server.client().get(&format!("/sessions/{id}")).expect(200)["workspace"]["tools"]);
    assert!(none_of(&shown) && shown.contains(&"read".to_owned()), "{shown:?}");
    let prompt = server.client().get(&format!("/sessions/{id}/prompt")).expect(200);
    assert!(!prompt["text"].as_str().unwrap().contains("`bash`"), "{prompt}");
    let plan = server.client().post("/sessions:plan", json!({"agent_type": "p"})).expect(200);
    assert!(!plan.to_string().contains("\"bash\""), "{plan}");
}

#[test]
fn a9_a_session_token_reads_no_values_of_variables() {
    let server = server();
    let client = server.client();
    let env = |name: &str| json!({name: format!("s3cret of {name}")});
    let platform = client.get("/platform").expect(200);
    let mut platform = json!({"allowed_host_roots": platform["allowed_host_roots"]});
    platform["env"] = env("PLATFORM");
    client.put("/platform", platform).expect(200);
    client.put("/projects/p", json!({"env": env("PROJECT")})).expect(200);
    let mcp = json!({"m": {"url": "http://127.0.0.1:9/", "headers": {"X-Key": "s3cret of HEADER"}, "tools": ["t"]}});
    let agent_type = json!({
        "id": "a", "env": env("ROLE"), "content": {"mcp_servers": mcp},
        "workspace": {"enabled": true, "provider": "memory", "tools": ["read"]},
    });
    client.post("/agent-types", agent_type).expect(201);
    let session = server.session(json!({"agent_type": "a", "project": "p", "task": {"env": env("TASK")}}));
    let id = session["id"].as_str().unwrap();
    let own = client.with_token(session["token"].as_str().unwrap());
    let json = [("accept", "application/json")];
    for path in ["/state", "/events", "", "/prompt"] {
        let path = format!("/sessions/{id}{path}");
        let shown = own.send("GET", &path, &json, None);
        shown.expect(200);
        assert!(!shown.text.contains("s3cret"), "{path}: {}", shown.text);
    }
    let streamed = own.events(&format!("/sessions/{id}/events"), None).next().unwrap();
    assert_eq!(streamed.event, "SessionCreated");
    let hidden = json!({"PLATFORM": "[hidden]", "PROJECT": "[hidden]", "ROLE": "[hidden]", "TASK": "[hidden]"});
    let spec = &streamed.data["spec"];
    for (name, value) in hidden.as_object().unwrap() {
        assert_eq!(&spec["workspace"]["plan"]["env"][name], value, "{spec}");
    }
    assert_eq!(spec["task"]["env"], json!({"TASK": "[hidden]"}));
    // The operator sees the values, and the hashes are the same for both.
    let state = |client: &stead_testkit::Client| client.get(&format!("/sessions/{id}/state")).expect(200);
    assert_eq!(state(client)["state_hash"], state(&own)["state_hash"]);
    assert_eq!(state(client)["state"]["spec"]["workspace"]["plan"]["env"]["ROLE"], "s3cret of ROLE");
    assert!(!state(client).to_string().contains("HEADER"), "headers are in no state");
}

/// Pushes content with these catalogs. Each tool takes any arguments.
#[track_caller]
fn push_catalogs(server: &TestServer, name: &str, catalogs: &[(&str, &[&str])], default: Option<&str>) -> Value {
    let tool = |name: &&str| json!({"name": name, "description": "A tool.", "parameters": {"type": "object"}});
    let file = |catalog: &str| format!("{catalog}.json");
    let listed: Value = catalogs.iter().map(|(catalog, _)| ((*catalog).to_owned(), json!(file(catalog)))).collect();
    let defaults = default.map_or(json!({}), |catalog| json!({"tool_catalog": catalog}));
    let index = json!({"schema_version": 1, "tool_catalogs": listed, "defaults": defaults});
    let mut files = json!({"agent.workspace.json": index.to_string()});
    for (catalog, tools) in catalogs {
        files[file(catalog)] = json!(json!(tools.iter().map(tool).collect::<Vec<_>>()).to_string());
    }
    server.client().post(&format!("/content/{name}/versions"), json!({"files": files})).expect(201)
}

/// An agent type with this workspace and the content `d`. Its sessions may also sync `e`.
#[track_caller]
fn agent_type(server: &TestServer, workspace: Value) {
    let content = json!({"workspace": "d", "allowed": ["e"]});
    server.client().post("/agent-types", json!({"id": "a", "workspace": workspace, "content": content})).expect(201);
}

/// Lets the operator make a catalog of the content `d` active.
#[track_caller]
fn choose(server: &TestServer, session: &Value, catalog: &str) {
    let target = json!({"workspace": "d", "version": 1});
    let sync = json!({"type": "WorkspaceSyncRequested", "workspace_binding": target, "tool_catalog": catalog});
    super::tell(server, session, sync);
    super::apply(server, session);
    let id = session["id"].as_str().unwrap();
    let shown = server.client().get(&format!("/sessions/{id}")).expect(200);
    assert_eq!(shown["content"]["active"]["tool_catalog"], catalog, "{shown}");
}

#[test]
fn a9_a_session_token_syncs_no_other_catalog() {
    let server = server();
    let both: &[(&str, &[&str])] = &[("narrow", &["read_file"]), ("wide", &["read_file", "write_file"])];
    push_catalogs(&server, "d", both, Some("wide"));
    agent_type(&server, json!({"enabled": true, "provider": "memory", "tools": ["read", "write"]}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap();
    choose(&server, &session, "narrow");
    let own = server.client().with_token(session["token"].as_str().unwrap());
    let sync = |target: Value| {
        let event = json!({"type": "WorkspaceSyncRequested", "workspace_binding": target});
        own.post(&format!("/sessions/{id}/events"), event).expect(202);
        server.client().get(&format!("/sessions/{id}")).expect(200)["content"].clone()
    };
    let apply = || {
        let event = json!({"type": "WorkspaceApplyRequested", "mode": "immediate_if_idle"});
        own.post(&format!("/sessions/{id}/events"), event)
    };
    let write = || own.post(&format!("/sessions/{id}/tools/write"), json!({"path": "x", "content": "x"}));

    // A sync without a catalog keeps the active one.
    assert_eq!(sync(json!({"workspace": "d"}))["pending"]["tool_catalog"], "narrow");
    apply().expect(202);
    write().problem(403, "tool_not_visible");

    // Neither a version nor a root hash without this catalog can be staged, nor other content.
    let wide: &[(&str, &[&str])] = &[("wide", &["read_file", "write_file"])];
    let pushed = push_catalogs(&server, "d", wide, Some("wide"));
    push_catalogs(&server, "e", &[("broad", &["write_file"])], Some("broad"));
    let root_hash = &pushed["root_hash"];
    for target in [json!({"workspace": "d"}), json!({"root_hash": root_hash}), json!({"workspace": "e"})] {
        let content = sync(target.clone());
        assert_eq!((&content["pending"], &content["sync_failure"]["stage"]), (&Value::Null, &json!("tool_catalog")));
        apply().problem(409, "nothing_pending");
        write().problem(403, "tool_not_visible");
    }
    push_catalogs(&server, "e", &[], None);
    assert_eq!(sync(json!({"workspace": "e"}))["pending"], Value::Null, "content without a catalog");

    // An agent follows the versions of its catalog.
    push_catalogs(&server, "d", both, Some("wide"));
    let content = sync(json!({"workspace": "d"}));
    assert_eq!((&content["pending"]["version"], &content["pending"]["tool_catalog"]), (&json!(3), &json!("narrow")));
    apply().expect(202);
    write().problem(403, "tool_not_visible");

    // An operator may choose all of it.
    let event = json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "d", "version": 2}});
    super::tell(&server, &session, event);
    super::apply(&server, &session);
    write().expect(200);
}

#[test]
fn a9_a_profile_does_not_replace_the_contents_catalog_of_the_same_name() {
    let server = server();
    push_catalogs(&server, "d", &[("stead", &["read_file"])], Some("stead"));
    agent_type(&server, json!({"enabled": true, "provider": "memory", "tools": ["read", "write"]}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap();
    push_catalogs(&server, "d", &[("other", &["read_file"])], None);
    let own = server.client().with_token(session["token"].as_str().unwrap());
    let event = json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "d"}});
    own.post(&format!("/sessions/{id}/events"), event).expect(202);
    let content = &server.client().get(&format!("/sessions/{id}")).expect(200)["content"];
    assert_eq!((&content["pending"], &content["sync_failure"]["stage"]), (&Value::Null, &json!("tool_catalog")));
}

#[test]
fn a9_a_call_does_no_more_than_the_tools_of_the_catalog() {
    let server = server();
    let catalogs: &[(&str, &[&str])] =
        &[("eval", &["eval"]), ("reads", &["eval", "read_file"]), ("edit", &["edit"]), ("patch", &["apply_patch"])];
    push_catalogs(&server, "d", catalogs, Some("eval"));
    let tools = json!(["read", "write", "edit", "rm", "eval"]);
    agent_type(&server, json!({"enabled": true, "provider": "memory", "tools": tools}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap();
    server.tool(&session, "write", json!({"path": "x.txt", "content": "inside"}));
    let own = server.client().with_token(session["token"].as_str().unwrap());
    let eval = |arguments: Value| own.post(&format!("/sessions/{id}/tools/eval"), arguments);
    let (reads, writes) = ("read_text('x.txt')", "write_text('y.txt', 'y')");
    let declared_read = json!({"code": "1", "reads": [{"path": "x.txt"}]});
    let declared_write = json!({"code": "1", "writes": [{"path": "y.txt", "content": "y"}]});
    let denied = |code: &str| {
        let answer = eval(json!({"code": code})).expect(200);
        assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!("evaluation_failed")), "{answer}");
        let stderr = answer["result"]["stderr"].as_str().unwrap();
        assert!(stderr.contains("PermissionError") && stderr.contains("is not in the tool catalog"), "{answer}");
    };

    denied(reads);
    denied(writes);
    let refused = eval(declared_read.clone()).problem(403, "tool_not_allowed");
    assert!(refused.contains("also need 'read'"), "{refused}");
    eval(declared_write.clone()).problem(403, "tool_not_allowed");
    let answer = server.tool(&session, "eval", json!({"code": reads}));
    assert_eq!(answer["result"]["value_repr"], "'inside'", "an operator passes the gate: {answer}");

    choose(&server, &session, "reads");
    assert_eq!(eval(json!({"code": reads})).expect(200)["result"]["value_repr"], "'inside'");
    eval(declared_read).expect(200);
    denied(writes);
    eval(declared_write).problem(403, "tool_not_allowed");

    choose(&server, &session, "edit");
    let patch = |body: &str| format!("*** Begin Patch\n{body}\n*** End Patch");
    let (add, delete) = (patch("*** Add File: z.txt\n+z"), patch("*** Delete File: z.txt"));
    for patch in [&add, &delete] {
        let refused = own.post(&format!("/sessions/{id}/tools/edit"), json!({"patch": patch}));
        refused.problem(403, "tool_not_allowed");
    }
    // OpenAI's patch tool adds and deletes files, in a catalog of the content and in the profile.
    for catalog in ["patch", "openai"] {
        choose(&server, &session, catalog);
        let mut codex = Agent::greet(&server, &session, "");
        for patch in [&add, &delete] {
            let patched = codex.call("apply_patch", json!({"input": patch}));
            assert_eq!(patched["isError"], json!(false), "{catalog}: {patched}");
        }
    }
}

#[test]
fn a9_execs_are_read_and_ended_with_the_tools_of_the_catalog() {
    build_init();
    let server = server();
    let catalogs: &[(&str, &[&str])] =
        &[("files", &["read_file"]), ("watch", &["bash_output", "bash_kill"]), ("bash", &["bash"])];
    push_catalogs(&server, "d", catalogs, Some("files"));
    agent_type(&server, json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap();
    let execs = format!("/sessions/{id}/execs");
    let begun = json!({"command": "echo secret; sleep 600", "background": true});
    let begun = server.client().post(&execs, begun).expect(201);
    let exec = begun["id"].as_str().unwrap();
    let own = server.client().with_token(session["token"].as_str().unwrap());
    let reads = ["".to_owned(), format!("/{exec}"), format!("/{exec}/stream"), format!("/{exec}/output")];
    for read in &reads {
        own.get(&format!("{execs}{read}")).problem(403, "tool_not_visible");
    }
    own.delete(&format!("{execs}/{exec}")).problem(403, "tool_not_visible");

    choose(&server, &session, "bash");
    own.get(&execs).expect(200);
    until("the output over HTTP", || {
        let page = own.get(&format!("{execs}/{exec}/output")).expect(200);
        (page["chunks"][0]["data"] == "secret\n").then_some(())
    });

    // Without `bash`, these two tools work alone.
    choose(&server, &session, "watch");
    own.post(&execs, json!({"command": "true"})).problem(403, "tool_not_visible");
    own.post(&format!("{execs}/{exec}/signal"), json!({"signal": "SIGTERM"})).problem(403, "tool_not_visible");
    own.get(&format!("{execs}/{exec}")).expect(200);
    let tool = |name: &str| {
        let answer = own.post(&format!("/sessions/{id}/tools/{name}"), json!({"id": exec})).expect(200);
        assert_eq!(answer["ok"], true, "{answer}");
        answer["result"].clone()
    };
    assert_eq!(tool("bash_output")["chunks"][0]["data"], "secret\n");
    assert_ne!(tool("bash_kill")["status"], "running");
}
