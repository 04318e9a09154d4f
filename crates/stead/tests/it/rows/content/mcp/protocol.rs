//! The protocol itself: errors, prompts with arguments, resources of the content, subscriptions,
//! and messages of a server behind a binding.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stead_testkit::TestServer;

use super::agents::{Agent, Piped};
use crate::rows::{Files, on_all, put, server, writer};

fn plain(server: &TestServer) -> Value {
    server.agent_type("p", json!({"enabled": true, "provider": "memory"}));
    server.session(json!({"agent_type": "p"}))
}

#[test]
fn parameters_that_cannot_be_read_are_invalid_params() {
    let server = server();
    let session = plain(&server);
    let mut agent = Agent::greet(&server, &session, "");
    for (method, params) in [
        ("tools/call", json!({"arguments": {}})),
        ("tools/call", json!({"name": "ls", "arguments": 5})),
        ("tools/call", json!({"name": 5})),
        ("prompts/get", json!({})),
        ("prompts/get", json!({"name": "x", "arguments": "y"})),
        ("resources/read", json!({})),
        ("resources/subscribe", json!({"uri": 1})),
        ("logging/setLevel", json!({"level": "loud"})),
    ] {
        let answer = agent.ask(method, params.clone());
        assert_eq!(answer["error"]["code"], json!(-32602), "{method} {params}: {answer}");
    }
    assert_eq!(agent.ask("tools/launch", json!({}))["error"]["code"], json!(-32601));
}

#[test]
fn what_is_not_json_is_a_parse_error_on_pipes() {
    let server = server();
    let session = plain(&server);
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.env_clear().env("STEAD_HOME", server.home()).args(["mcp", "--session", session["id"].as_str().unwrap()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "this is no message\n{hello}\n{{\"half\":").unwrap();
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    writeln!(stdin, "{done}\n{ping}").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors: Vec<&Value> = said.iter().filter(|message| message["error"]["code"] == -32700).collect();
    assert_eq!(errors.len(), 2, "{said:?}");
    assert!(errors.iter().all(|error| error["id"].is_null()), "{errors:?}");
    assert!(said.iter().any(|message| message["id"] == 1 && message["result"].is_object()), "{said:?}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_mcp_session_ends_with_a_status_that_clients_take_for_success() {
    let server = server();
    let session = plain(&server);
    let agent = Agent::greet(&server, &session, "");
    assert_eq!(agent.end(), 204);
    assert_eq!(agent.end(), 204, "again");
}

/// Content with a prompt that has arguments, and with resources.
fn with_resources(server: &TestServer) -> Value {
    push_resources(server, "first");
    let workspace = json!({"enabled": true, "provider": "memory", "tools": ["read", "ls"]});
    let agent_type = json!({"id": "r", "workspace": workspace, "content": {"workspace": "r"}});
    server.client().post("/agent-types", agent_type).expect(201);
    server.session(json!({"agent_type": "r"}))
}

fn push_resources(server: &TestServer, note: &str) {
    let index = json!({
        "schema_version": 1,
        "prompt_packs": {"review": "pack.json"},
        "resources": [
            {"uri": "team://rules", "path": "rules.md", "name": "Rules", "description": "The team's rules."},
            {"uri": "team://people/{id}", "path": "person.json"},
        ],
    });
    let message = json!([{"role": "user", "content": [
        {"type": "resource", "uri": "team://files/{{file}}", "media_type": "text/plain", "text": "About {{file}}."},
        {"type": "text", "text": "Review {{file}} for {{who}}."},
    ]}]);
    let pack = json!({
        "description": "A review.",
        "arguments": [{"name": "file", "description": "The file.", "required": true}, {"name": "who"}],
        "templates": ["messages.json"],
    });
    let files = json!({
        "agent.workspace.json": index.to_string(), "pack.json": pack.to_string(), "messages.json": message.to_string(),
        "rules.md": format!("# Rules\n{note}\n"), "person.json": "{\"id\": \"{{id}}\"}",
    });
    server.client().post("/content/r/versions", json!({"files": files})).expect(201);
}

#[test]
fn a_prompt_has_arguments_and_embedded_resources() {
    let server = server();
    let session = with_resources(&server);
    let mut agent = Agent::greet(&server, &session, "");
    let listed = agent.ask("prompts/list", json!({}));
    let arguments = &listed["result"]["prompts"][0]["arguments"];
    assert_eq!((&arguments[0]["name"], &arguments[0]["required"]), (&json!("file"), &json!(true)), "{listed}");
    let got = agent.ask("prompts/get", json!({"name": "review", "arguments": {"file": "a.rs", "who": "{{file}}"}}));
    let messages = &got["result"]["messages"];
    let resource = &messages[0]["content"]["resource"];
    assert_eq!((&resource["uri"], &resource["text"]), (&json!("team://files/a.rs"), &json!("About a.rs.")), "{got}");
    // A value is not searched for further arguments.
    assert_eq!(messages[1]["content"]["text"], "Review a.rs for {{file}}.");
    for arguments in [json!({}), json!({"file": 1}), json!({"file": "a", "colour": "red"})] {
        let refused = agent.ask("prompts/get", json!({"name": "review", "arguments": arguments}));
        assert_eq!(refused["error"]["code"], json!(-32602), "{refused}");
    }
}

#[test]
fn resources_of_the_content_have_their_own_addresses() {
    let server = server();
    let session = with_resources(&server);
    let mut agent = Agent::greet(&server, &session, "");
    let listed = agent.ask("resources/list", json!({}));
    let found = listed["result"]["resources"].as_array().unwrap().iter().find(|found| found["uri"] == "team://rules");
    assert_eq!(found.unwrap()["name"], "Rules", "{listed}");
    let rules = agent.ask("resources/read", json!({"uri": "team://rules"}));
    let contents = &rules["result"]["contents"][0];
    assert_eq!(
        (&contents["mimeType"], &contents["text"]),
        (&json!("text/markdown"), &json!("# Rules\nfirst\n")),
        "{rules}"
    );
    let templates = agent.ask("resources/templates/list", json!({}));
    assert!(templates.to_string().contains("team://people/{id}"), "{templates}");
    let person = agent.ask("resources/read", json!({"uri": "team://people/7"}));
    assert_eq!(person["result"]["contents"][0]["text"], "{\"id\": \"7\"}", "{person}");
    assert!(agent.ask("resources/read", json!({"uri": "team://people/7/8"}))["error"].is_object());
    // The digest is not empty where there is only a placeholder.
    let digest = agent.ask("resources/read", json!({"uri": "stead://digest"}));
    assert!(digest["result"]["contents"][0]["text"].as_str().unwrap().contains("No digest"), "{digest}");
}

fn a_client_hears_of_the_files_that_it_subscribed_to(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    server.tool(&session, "write", json!({"path": "a.txt", "content": "1"}));
    let mut agent = Agent::greet(&server, &session, "");
    let stream = agent.listen();
    let uri = |path: &str| json!({"uri": format!("stead://workspace/{path}")});
    for path in ["a.txt", "later.txt"] {
        assert_eq!(agent.ask("resources/subscribe", uri(path))["result"], json!({}));
    }
    assert!(agent.ask("resources/subscribe", json!({"uri": "other://x"}))["error"].is_object());
    // Another file, and the same content, are no change.
    server.tool(&session, "write", json!({"path": "b.txt", "content": "1"}));
    server.tool(&session, "write", json!({"path": "a.txt", "content": "1", "mode": "overwrite"}));
    server.tool(&session, "write", json!({"path": "a.txt", "content": "2", "mode": "overwrite"}));
    assert_eq!(stream.message()["params"]["uri"], uri("a.txt")["uri"]);
    server.tool(&session, "write", json!({"path": "later.txt", "content": "1"}));
    let heard = stream.message();
    assert_eq!(
        (&heard["method"], &heard["params"]["uri"]),
        (&json!("notifications/resources/updated"), &uri("later.txt")["uri"])
    );
    // A file that is too large for a resource is compared by its size.
    put(&server, &session, "big.bin", &vec![b'x'; 5 << 20]);
    let refused = agent.ask("resources/read", uri("big.bin"));
    assert!(refused["error"]["message"].as_str().unwrap().contains("5242880 bytes"), "{refused}");
    assert_eq!(agent.ask("resources/subscribe", uri("big.bin"))["result"], json!({}));
    put(&server, &session, "big.bin", &vec![b'x'; 6 << 20]);
    assert_eq!(stream.message()["params"]["uri"], uri("big.bin")["uri"]);
    assert_eq!(agent.ask("resources/unsubscribe", uri("a.txt"))["result"], json!({}));
    server.tool(&session, "rm", json!({"path": "a.txt"}));
    server.tool(&session, "rm", json!({"path": "later.txt"}));
    assert_eq!(stream.message()["params"]["uri"], uri("later.txt")["uri"], "only the other one is subscribed to");
}

on_all!(a_client_hears_of_the_files_that_it_subscribed_to);

/// A server that tells its progress and logs while it works.
const TALKER: &str = r#"
import json, sys
def say(message):
    print(json.dumps(dict(message, jsonrpc="2.0")), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        info = {"name": "talker", "version": "1"}
        say({"id": message["id"], "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}})
    elif message.get("method") == "tools/call":
        token = message["params"]["_meta"]["progressToken"]
        for step in [1, 2]:
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": 2}})
        for level in ["debug", "warning"]:
            say({"method": "notifications/message", "params": {"level": level, "logger": "talker", "data": "at " + level}})
        say({"id": message["id"], "result": {"content": [{"type": "text", "text": "done"}]}})
"#;

#[test]
fn a14_progress_and_log_messages_of_a_bound_server_reach_the_caller() {
    let server = server();
    let tools = json!([{"name": "talk", "description": "Talks.", "parameters": {"type": "object"}}]);
    let index = json!({"schema_version": 1, "tool_catalogs": {"d": "tools.json"}, "defaults": {"tool_catalog": "d"}});
    let files = json!({"agent.workspace.json": index.to_string(), "tools.json": tools.to_string()});
    server.client().post("/content/t/versions", json!({"files": files})).expect(201);
    let content = json!({
        "workspace": "t", "bindings": {"talk": {"mcp": "talker", "tool": "talk"}},
        "mcp_servers": {"talker": {"command": ["python3", "-c", TALKER], "tools": ["talk"]}},
    });
    let workspace = json!({"enabled": true, "provider": "memory"});
    server.client().post("/agent-types", json!({"id": "t", "workspace": workspace, "content": content})).expect(201);
    let session = server.session(json!({"agent_type": "t"}));
    let (mut agent, heard) = Piped::greet(&server, &session, &[]);
    assert_eq!(agent.ask("logging/setLevel", json!({"level": "info"}))["result"], json!({}));
    let params = json!({"name": "talk", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let answer = agent.ask("tools/call", params);
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    for step in [1.0, 2.0] {
        let told = heard.message();
        assert_eq!(told["method"], "notifications/progress", "{told}");
        assert_eq!(
            (&told["params"]["progressToken"], &told["params"]["total"]),
            (&json!("mine"), &json!(2.0)),
            "{told}"
        );
        assert_eq!(told["params"]["progress"], json!(step), "{told}");
    }
    let told = heard.message();
    assert_eq!(
        (&told["params"]["level"], &told["params"]["data"]),
        (&json!("warning"), &json!("at warning")),
        "{told}"
    );
    assert_eq!(agent.leave(), Some(0));
}
