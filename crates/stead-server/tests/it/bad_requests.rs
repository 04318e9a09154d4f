use serde_json::json;
use stead_engine::Settings;
use stead_server::ServerConfig;

use crate::harness::TestServer;

#[tokio::test]
async fn a_body_that_is_not_json_is_refused_with_its_place() {
    let server = TestServer::start().await;
    let deep = "[".repeat(100_000);
    let number = format!(r#"{{"id": {}}}"#, "9".repeat(100_000));
    let bodies: [(&[u8], &str); 8] = [
        (b"", "a JSON body is required"),
        (b"{\"id\": ", "line 1"),
        (b"{\"id\": \"a\", \"id\": \"b\"}", "twice"),
        (b"{\"id\": \"\xff\"}", "not valid JSON"),
        (b"{} {}", "trailing"),
        (deep.as_bytes(), "recursion limit"),
        (number.as_bytes(), "out of range"),
        (b"[1]", "expected an object"),
    ];
    for (body, words) in bodies {
        let ask = server.ask("POST", "/api/v1/agent-types").header("Content-Type", "application/json");
        let answer = ask.bytes(body.to_vec()).send().await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{words}");
        let errors = answer.json()["errors"].clone();
        assert!(errors[0]["message"].as_str().unwrap().contains(words), "{errors}");
    }
}

#[tokio::test]
async fn unknown_and_wrong_fields_are_named_together() {
    let server = TestServer::start().await;
    let body = json!({"id": "a b", "colour": 1, "workspace": {"tools": ["bash", "ssh"], "resource_limits": {"cpu": "banana"}}});
    let answer = server.post("/api/v1/agent-types", body).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"));
    let problem = answer.json();
    let fields: Vec<&str> =
        problem["errors"].as_array().unwrap().iter().map(|e| e["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["id", "workspace.tools", "workspace.resource_limits.cpu", "colour"], "{problem}");
    assert_eq!(server.get("/api/v1/agent-types").await.json()["items"], json!([]));
}

#[tokio::test]
async fn wrong_queries_headers_and_paths_are_named() {
    let server = TestServer::start().await;
    let checks = [
        ("/api/v1/tools?verbose=1", "verbose"),
        ("/api/v1/sessions?limit=0", "limit"),
        ("/api/v1/sessions?limit=501", "limit"),
        ("/api/v1/sessions?limit=%2B5", "limit"),
        ("/api/v1/sessions?limit=1&limit=2", "limit"),
        ("/api/v1/sessions?status=happy", "status"),
        ("/api/v1/sessions?cursor=x", "cursor"),
        ("/api/v1/audit?after=-1", "after"),
        ("/api/v1/agent-types/-x", "id"),
        ("/api/v1/projects/a%20b", "id"),
        ("/api/v1/projects/%ff", "id"),
        ("/api/v1/sessions/ses_00000000000000000000000000/files/a%ff", "path"),
        ("/healthz?x", "x"),
    ];
    for (path, field) in checks {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{path}");
        assert_eq!(answer.json()["errors"][0]["field"], field, "{path}");
    }
    for wait in ["301", "-1", "1.5", ""] {
        let answer = server.post(&format!("/api/v1/sessions?wait={wait}"), json!({"agent_type": "t"})).await;
        assert_eq!(answer.status, 400, "{wait}");
    }
    for key in ["", "has space", &"k".repeat(256), "caf\u{e9}"] {
        let ask = server.ask("POST", "/api/v1/sessions").json(json!({"agent_type": "t"}));
        let answer = ask.header("Idempotency-Key", key).send().await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{key:?}");
    }
    let seq = server.ask("GET", "/api/v1/sessions/ses_00000000000000000000000000/events");
    assert_eq!(seq.header("Last-Event-ID", "x").send().await.status, 400);
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_too() {
    let server = TestServer::start().await;
    for path in ["/nowhere", "/api/v1/nowhere", "/api/v1/sessions/", "/api/v1/sessions/x", "/api/v1/content/none"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{path}");
    }
    let method = server.ask("PATCH", "/api/v1/sessions").send().await;
    assert_eq!((method.status, method.code().as_str()), (405, "method_not_allowed"));
    assert_eq!(method.header("allow"), Some("POST,GET,HEAD"));
    let head = server.ask("HEAD", "/healthz").send().await;
    assert_eq!(head.status, 200);
}

#[tokio::test]
async fn bodies_have_a_type_and_a_size() {
    let config = ServerConfig { max_body_bytes: 1000, max_tool_body_bytes: 2000, ..ServerConfig::default() };
    let server = TestServer::start_with(config, Settings::default()).await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "json", ""] {
        let ask = server.ask("POST", "/api/v1/agent-types").header("Content-Type", kind);
        let answer = ask.bytes(br#"{"id": "a"}"#.to_vec()).send().await;
        assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_media_type"), "{kind}");
    }
    let coded = server.ask("POST", "/api/v1/agent-types").header("Content-Encoding", "gzip").json(json!({"id": "a"}));
    assert_eq!(coded.send().await.status, 415);
    for kind in ["application/json", "Application/JSON;charset=\"UTF-8\""] {
        let ask = server.ask("POST", "/api/v1/agent-types").header("Content-Type", kind);
        assert_eq!(ask.bytes(b"{}".to_vec()).send().await.status, 400, "{kind}");
    }
    let untyped = server.ask("POST", "/api/v1/agent-types").bytes(br#"{"id": "a"}"#.to_vec()).send().await;
    assert_eq!(untyped.status, 201);

    let large = server.post("/api/v1/agent-types", json!({"id": "b", "description": "x".repeat(1000)})).await;
    assert_eq!((large.status, large.code().as_str()), (413, "too_large"));
    server.declare("t").await;
    let id = server.session("t").await["id"].as_str().unwrap().to_owned();
    let write = format!("/api/v1/sessions/{id}/tools/write");
    for (size, status) in [(1500, 200), (2500, 413)] {
        let answer = server.post(&write, json!({"path": format!("f{size}"), "content": "x".repeat(size)})).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

#[tokio::test]
async fn a_chunked_body_without_end_is_cut_off() {
    let config = ServerConfig { max_body_bytes: 1000, ..ServerConfig::default() };
    let server = TestServer::start_with(config, Settings::default()).await;
    let ask = server.ask("POST", "/api/v1/agent-types").header("Transfer-Encoding", "chunked");
    let mut connection = ask.begin().await;
    connection.send(format!("{:x}\r\n{}\r\n", 4000, "x".repeat(4000)).as_bytes()).await;
    let answer = connection.answer().await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
}

#[tokio::test]
async fn request_and_trace_ids_are_echoed_when_they_are_well_formed() {
    let server = TestServer::start().await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let ask = server.ask("GET", "/healthz").header("traceparent", trace).header("x-request-id", "mine-1");
    let answer = ask.send().await;
    assert_eq!((answer.header("traceparent"), answer.header("x-request-id")), (Some(trace), Some("mine-1")));
    let ask = server.ask("GET", "/nowhere").header("traceparent", "garbage").header("x-request-id", "a b");
    let answer = ask.send().await;
    assert_eq!(answer.header("traceparent"), None);
    assert_eq!(answer.header("x-request-id").map(str::len), Some(32));
}

/// Each error names the problem of the refused value.
#[tokio::test]
async fn refused_numbers_and_names_are_told_their_limits() {
    let server = TestServer::start().await;
    server.declare("a").await;
    let git = |depth: i64| json!({"agent_type": "a", "task": {"workspace_policy": {"type": "git", "url": "https://a/b", "depth": depth}}});
    for depth in [0, -1] {
        let answer = server.post("/api/v1/sessions:plan", git(depth)).await;
        assert_eq!(answer.json()["errors"][0]["message"], "must be 1 or more", "{depth}");
    }
    let config = json!({"id": "b", "workspace": {"ttl_seconds": u64::MAX}});
    let message = server.post("/api/v1/agent-types", config).await.json()["errors"][0]["message"].clone();
    assert!(message.as_str().unwrap().starts_with("must be 9007199254740992 or less"), "{message}");

    let id = server.session("a").await["id"].as_str().unwrap().to_owned();
    let file = format!("/api/v1/sessions/{id}/files/{}", "x".repeat(256));
    for method in ["PUT", "GET", "DELETE"] {
        let answer = server.ask(method, &file).bytes(b"hi".to_vec()).send().await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{method}");
        assert_eq!(answer.json()["errors"][0]["field"], "path");
    }
    // The control: the longest allowed name.
    let file = format!("/api/v1/sessions/{id}/files/{}", "x".repeat(255));
    assert_eq!(server.ask("PUT", &file).bytes(b"hi".to_vec()).send().await.status, 201);

    let missing = server.get(&format!("/api/v1/sessions/{id}/state?at=99999")).await;
    let detail = missing.json()["detail"].as_str().unwrap().to_owned();
    assert!(missing.status == 404 && detail.contains("has no event 99999; its last is "), "{detail}");
    assert_eq!(missing.json()["parameters"], json!({"resource": "event", "id": "99999"}));
    let early = server.post(&format!("/api/v1/sessions/{id}/rewind"), json!({"to": 1})).await;
    let detail = early.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("the workspace was not ready yet at event 1; the nearest event with files is "),
        "{detail}"
    );

    let token = format!("/api/v1/sessions/{id}/token");
    let refused = server.post(&token, json!({"x": 1})).await;
    assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (400, &json!("x")));
    for body in [Vec::new(), b"{}".to_vec()] {
        assert_eq!(server.ask("POST", &token).bytes(body).send().await.status, 200);
    }
    let made = server.post(&format!("/api/v1/sessions/{id}/snapshots"), json!({})).await.json();
    let restore = format!("/api/v1/sessions/{id}/snapshots/{}/restore", made["id"].as_str().unwrap());
    assert_eq!(server.post(&restore, json!({"x": 1})).await.status, 400);
    assert_eq!(server.ask("POST", &restore).send().await.status, 200);
}

async fn mcp(server: &TestServer, query: &str, headers: &[(&str, &str)], body: &str) -> crate::client::Answer {
    let path = format!("/mcp{query}");
    let mut ask = server.ask("POST", &path);
    for (name, value) in headers {
        ask = ask.header(name, value);
    }
    ask.bytes(body.as_bytes().to_vec()).send().await
}

/// MCP clients depend on the statuses; the bodies are problem documents.
#[tokio::test]
async fn what_mcp_refuses_is_a_problem_too() {
    let server = TestServer::start().await;
    server.declare("a").await;
    let id = server.session("a").await["id"].as_str().unwrap().to_owned();
    let own = format!("?session={id}");
    let (json_type, accept) = (("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"));
    let hello = r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}"#;
    let list = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}"#;
    let usual = [json_type, accept];
    for (body, status, code) in
        [("{", 400, "invalid_request"), ("[]", 400, "invalid_request"), ("{}", 400, "invalid_request")]
    {
        let answer = mcp(&server, &own, &usual, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{body}");
    }
    let unknown = [json_type, accept, ("Mcp-Session-Id", "nothing")];
    let answer = mcp(&server, &own, &unknown, list).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    let answer = mcp(&server, &own, &[json_type, ("Accept", "text/html")], hello).await;
    assert_eq!((answer.status, answer.code().as_str()), (406, "not_acceptable"));
    let answer = mcp(&server, &own, &[("Content-Type", "text/plain"), accept], hello).await;
    assert_eq!((answer.status, answer.code().as_str()), (415, "unsupported_media_type"));

    // The query is validated before a session is opened.
    let other = "?session=ses_00000000000000000000000000".to_owned();
    for (query, status) in [
        (String::new(), 400),
        ("?session=nope".to_owned(), 400),
        (format!("{own}&profile=bogus"), 400),
        (format!("{own}&bogus=1"), 400),
        (other, 404),
    ] {
        let answer = mcp(&server, &query, &usual, hello).await;
        assert_eq!(answer.status, status, "{query}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{query}");
    }
    // The control: a valid query.
    assert_eq!(mcp(&server, &format!("{own}&profile=wink"), &usual, hello).await.status, 200);
}

#[tokio::test]
async fn a_session_token_opens_no_other_session_over_mcp() {
    let server = TestServer::start().await;
    server.declare("a").await;
    let (first, second) = (server.session("a").await, server.session("a").await);
    let hello = r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}"#;
    for (named, status) in [(&second, 404), (&first, 200)] {
        let path = format!("/mcp?session={}", named["id"].as_str().unwrap());
        let ask = server.ask("POST", &path).token(first["token"].as_str()).header("Content-Type", "application/json");
        let answer = ask.header("Accept", "application/json, text/event-stream").bytes(hello.into()).send().await;
        assert_eq!(answer.status, status, "{}", answer.body);
        // The greeting always mentions that a writable mount reaches the host.
        assert!(status == 404 || answer.body.contains("mounted writable (mode rw)"), "{}", answer.body);
    }
}
