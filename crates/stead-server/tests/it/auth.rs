use serde_json::json;

use crate::harness::{TOKEN, TestServer};

const OPEN: &[&str] = &["/", "/healthz", "/readyz", "/openapi.json"];

#[tokio::test]
async fn every_route_but_the_open_ones_needs_a_token() {
    let server = TestServer::start().await;
    let document = stead_server::openapi();
    let mut walked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let filled = path.replace("{id}", "ses_00000000000000000000000000").replace("{tool}", "ls");
        for method in methods.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            let answer = server.ask(&method, &filled).token(None).send().await;
            if OPEN.contains(&path.as_str()) {
                assert_eq!(answer.status, 200, "{method} {path}");
            } else {
                assert_eq!(answer.status, 401, "{method} {path}");
                // The answer to a HEAD request has no body.
                assert!(method == "HEAD" || answer.code() == "unauthorized", "{method} {path}");
                assert!(answer.header("www-authenticate").is_some());
            }
            walked += 1;
        }
    }
    assert!(walked > 25, "{walked}");
}

#[tokio::test]
async fn only_the_whole_token_in_the_one_header_counts() {
    let server = TestServer::start().await;
    let prefix = &TOKEN[..TOKEN.len() - 1];
    for wrong in ["", "Bearer", "Bearer ", TOKEN, &format!("Basic {TOKEN}"), &format!("Bearer {prefix}")] {
        let answer = server.ask("GET", "/api/v1/tools").token(None).header("Authorization", wrong).send().await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{wrong:?}");
    }
    let twice = server.ask("GET", "/api/v1/tools").header("Authorization", &format!("Bearer {TOKEN}")).send().await;
    assert_eq!(twice.status, 401);
    let in_query = server.ask("GET", &format!("/api/v1/tools?token={TOKEN}")).token(None).send().await;
    assert_eq!(in_query.status, 401);
    let lower = server.ask("GET", "/api/v1/tools").token(None).header("authorization", &format!("bearer {TOKEN}"));
    assert_eq!(lower.send().await.status, 200);
    let nowhere = server.ask("GET", "/nowhere").token(None).send().await;
    assert_eq!(nowhere.status, 401);
}

#[tokio::test]
async fn a_session_token_opens_that_session_and_nothing_else() {
    let server = TestServer::start().await;
    server.declare("t").await;
    let (mine, other) = (server.session("t").await, server.session("t").await);
    let token = mine["token"].as_str().unwrap();
    let (id, other) = (mine["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    let ask = async |method: &str, path: &str| {
        let request = server.ask(method, path).token(Some(token));
        let request = if method == "POST" { request.json(json!({"path": "/"})) } else { request };
        request.header("Accept", "application/json").send().await
    };
    for path in ["", "/state", "/events"] {
        assert_eq!(ask("GET", &format!("/api/v1/sessions/{id}{path}")).await.status, 200, "{path}");
        let foreign = ask("GET", &format!("/api/v1/sessions/{other}{path}")).await;
        assert_eq!((foreign.status, foreign.code().as_str()), (404, "not_found"), "{path}");
    }
    assert_eq!(ask("POST", &format!("/api/v1/sessions/{id}/tools/ls")).await.status, 200);
    assert_eq!(ask("POST", &format!("/api/v1/sessions/{other}/tools/ls")).await.status, 404);
    let never = format!("/api/v1/sessions/ses_{}", "0".repeat(26));
    let (foreign, never) = (ask("GET", &format!("/api/v1/sessions/{other}")).await, ask("GET", &never).await);
    assert_eq!(foreign.json()["title"], never.json()["title"], "a session of another looks like one that never was");
    let shut = [
        ("GET", "/api/v1/sessions".to_owned()),
        ("DELETE", format!("/api/v1/sessions/{id}")),
        ("GET", format!("/api/v1/sessions/{id}/replay")),
        ("POST", format!("/api/v1/sessions/{id}/token")),
        ("GET", "/api/v1/audit".to_owned()),
        ("GET", "/api/v1/platform".to_owned()),
        ("GET", "/metrics".to_owned()),
        ("GET", "/api/v1/nowhere".to_owned()),
    ];
    for (method, path) in shut {
        let answer = ask(method, &path).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{method} {path}");
    }
    let tampered = format!("{}0", &token[..token.len() - 1]);
    let tampered = if tampered == token { format!("{}1", &token[..token.len() - 1]) } else { tampered };
    assert_eq!(server.ask("GET", &format!("/api/v1/sessions/{id}")).token(Some(&tampered)).send().await.status, 401);
    let again = server.post(&format!("/api/v1/sessions/{id}/token"), json!({})).await;
    let again = again.json();
    assert_eq!(ask_with(&server, again["token"].as_str().unwrap(), id).await, 200);
}

async fn ask_with(server: &TestServer, token: &str, session: &str) -> u16 {
    server.ask("GET", &format!("/api/v1/sessions/{session}")).token(Some(token)).send().await.status
}

#[tokio::test]
async fn only_our_own_host_and_origin() {
    let server = TestServer::start().await;
    let port = server.address.port();
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1", "localhost:1"] {
        let answer = server.ask("GET", "/healthz").host(host).send().await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{host}");
    }
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(server.ask("GET", "/healthz").host(&host).send().await.status, 200, "{host}");
    }
    let own = format!("http://{}", server.address);
    for (origin, status) in [("http://evil.example", 403), ("null", 403), (own.as_str(), 200)] {
        let answer = server.ask("GET", "/api/v1/tools").header("Origin", origin).send().await;
        assert_eq!(answer.status, status, "{origin}");
    }
    let twice = server.ask("GET", "/healthz").header("Host", "evil.example").send().await;
    assert_eq!(twice.status, 403);
    let absolute = server.ask("GET", "http://evil.example/healthz").send().await;
    assert_eq!(absolute.status, 403);
}
