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
