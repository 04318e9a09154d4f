//! Content over MCP: the active catalog is what an agent sees and may call, the packs are its prompts.

use serde_json::{Value, json};
use stead_testkit::{Client, TestServer};

use super::server;

/// An agent of a revision with sessions of its own.
struct Agent {
    client: Client,
    path: String,
    session: String,
    last: u64,
}

impl Agent {
    fn greet(server: &TestServer, session: &Value, query: &str) -> Self {
        let base = server.client().base().trim_end_matches("/api/v1").to_owned();
        let client = Client::new(&base, session["token"].as_str().map(str::to_owned));
        let mut agent = Self { client, path: format!("/mcp{query}"), session: String::new(), last: 0 };
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        agent.ask("initialize", hello);
        agent.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn send(&mut self, message: Value) -> String {
        let mut headers = vec![
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        let session = self.session.clone();
        if !session.is_empty() {
            headers.push(("mcp-session-id", &session));
        }
        let reply = self.client.send("POST", &self.path, &headers, Some(message.to_string()));
        if let Some(session) = reply.header("mcp-session-id") {
            self.session = session.to_owned();
        }
        reply.text
    }

    /// The whole answer: its result or its error.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let text = self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let lines = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let answers = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        answers.into_iter().find(|answer| answer["id"] == json!(id)).unwrap_or_else(|| panic!("{method}: {text}"))
    }

    fn tools(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({}));
        let named = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).iter();
        named.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))["result"].clone()
    }
}

fn push(server: &TestServer, version: u64) {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let tool = |name: &str| json!({"name": name, "description": "A tool.", "parameters": schema});
    let mut tools = vec![tool("read_file"), tool("launch"), tool("shell_execute")];
    if version > 1 {
        tools.push(tool("rm"));
    }
    let index = json!({
        "schema_version": 1, "prompt_packs": {"greeting": "pack.json"}, "tool_catalogs": {"default": "tools.json"},
        "defaults": {"prompt_pack": "greeting", "tool_catalog": "default"},
    });
    let pack = json!({"templates": [{"role": "system", "text": "Be kind."}, {"role": "assistant", "text": "Hello."}]});
    let files = json!({
        "agent.workspace.json": index.to_string(), "pack.json": pack.to_string(), "tools.json": json!(tools).to_string(),
    });
    server.client().post("/content/c/versions", json!({"files": files})).expect(201);
}

#[test]
fn a9_the_active_catalog_is_what_an_agent_sees_and_may_call() {
    let server = server();
    push(&server, 1);
    let workspace = json!({"enabled": true, "provider": "memory", "tools": ["read", "write", "rm"]});
    let agent_type = json!({"id": "a", "workspace": workspace, "content": {"workspace": "c"}});
    server.client().post("/agent-types", agent_type).expect(201);
    let session = server.session(json!({"agent_type": "a"}));
    server.tool(&session, "write", json!({"path": "x.txt", "content": "inside"}));
    let mut agent = Agent::greet(&server, &session, "");
    // Visible, bound and allowed: launch is bound to nothing, shell_execute is a tool the agent type has not.
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
    assert_eq!(prompts["result"]["prompts"][0]["name"], "greeting", "{prompts}");
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

    // A push changes nothing; a sync stages; only an apply shows.
    push(&server, 2);
    let id = session["id"].as_str().unwrap();
    let tell = |event: Value| server.client().post(&format!("/sessions/{id}/events"), event).expect(202);
    tell(json!({"type": "WorkspaceSyncRequested", "workspace_binding": {"workspace": "c"}}));
    while server.client().get(&format!("/sessions/{id}")).expect(200)["content"]["pending"].is_null() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(agent.tools(), ["read_file"]);
    tell(json!({"type": "WorkspaceApplyRequested", "mode": "immediate_if_idle"}));
    assert_eq!(agent.tools(), ["read_file", "rm"]);
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
