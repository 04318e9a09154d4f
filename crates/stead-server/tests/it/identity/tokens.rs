use std::time::Duration;

use serde_json::{Value, json};

use super::{ask, get, member, project, token};
use crate::harness::TestServer;

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn t1_a_token_has_a_user_a_project_a_role_and_an_end() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    let made = token(
        &server,
        json!({"name": "laptop", "user": "alice", "project": "web", "role": "developer", "expires_in": 3600}),
    )
    .await;
    let text = made["token"].as_str().unwrap();
    assert!(text.starts_with("stead_") && text.len() == "stead_".len() + 64, "{text}");
    let whoami = get(&server, text, "/api/v1/whoami").await.json();
    assert_eq!(whoami["actor"], "user:alice@web");
    assert_eq!(
        (&whoami["role"], &whoami["project"], &whoami["token"]),
        (&json!("developer"), &json!("web"), &made["id"])
    );
    assert_eq!(whoami["expires_at"], made["expires_at"]);
    assert!(whoami["permissions"].as_array().unwrap().contains(&json!("sessions:create")));
    assert!(!whoami["permissions"].as_array().unwrap().contains(&json!("tokens:write")));
    // E2B clients send the same secret with their own prefix.
    let same = text.replace("stead_", "e2b_");
    assert_eq!(get(&server, &same, "/api/v1/whoami").await.json()["actor"], "user:alice@web");
    // The list shows the last use, and never a secret or its hash.
    let listed = server.get("/api/v1/tokens").await;
    let (body, secret) = (listed.json(), &text["stead_".len()..]);
    assert!(body["items"][0]["last_used_at"].is_string(), "{body}");
    assert!(!listed.body.contains(secret) && !listed.body.contains("hash"));
    let audit = server.get("/api/v1/audit?type=admin_change&limit=500").await;
    assert!(audit.body.contains("laptop") && !audit.body.contains(secret));
    assert!(!audit.body.contains(blake3::hash(secret.as_bytes()).to_hex().as_str()), "not even the hash");
}

#[tokio::test]
async fn the_owner_of_a_session_token_asks_who_it_is() {
    let server = TestServer::start().await;
    server.declare("t").await;
    let session = server.session("t").await;
    let whoami = get(&server, session["token"].as_str().unwrap(), "/api/v1/whoami").await.json();
    assert_eq!((&whoami["role"], &whoami["session"]), (&json!("session"), &session["id"]));
    assert!(whoami["expires_at"].is_string());
}

#[tokio::test]
async fn t1_a_revoked_token_ends_with_its_open_streams() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    server.declare("t").await;
    let made = token(&server, json!({"name": "a", "project": "web", "role": "developer"})).await;
    let text = made["token"].as_str().unwrap();
    let session = ask(&server, text, "POST", "/api/v1/sessions?wait=10", json!({"agent_type": "t"})).await.json();
    let id = session["id"].as_str().unwrap();
    let events = format!("/api/v1/sessions/{id}/events");
    let stream = server.ask("GET", &events).token(Some(text)).header("Accept", "text/event-stream");
    let mut stream = stream.begin().await;
    assert_eq!(stream.head().await.unwrap().status, 200);
    let mcp = format!("/mcp/line?session={id}");
    let mut line = server
        .ask("GET", &mcp)
        .token(Some(text))
        .header("Connection", "upgrade")
        .header("Upgrade", "mcp")
        .begin()
        .await;
    assert_eq!(line.head().await.unwrap().status, 101);
    let revoked = server.ask("DELETE", &format!("/api/v1/tokens/{}", made["id"].as_str().unwrap())).send().await;
    assert_eq!(revoked.status, 204);
    for (what, connection) in [("the event stream", &mut stream), ("the MCP line", &mut line)] {
        assert!(connection.closes_within(PATIENCE).await, "{what} goes on without its token");
    }
    assert_eq!(get(&server, text, "/api/v1/whoami").await.status, 401);
    assert_eq!(server.get("/api/v1/tokens").await.json()["items"], json!([]));
}

#[tokio::test]
async fn t1_session_tokens_end_with_the_token_that_asked_for_them() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    server.declare("t").await;
    let made = token(&server, json!({"name": "a", "project": "web", "role": "developer"})).await;
    let (id, text) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let session = ask(&server, text, "POST", "/api/v1/sessions?wait=10", json!({"agent_type": "t"})).await.json();
    let path = format!("/api/v1/sessions/{}", session["id"].as_str().unwrap());
    let asked = ask(&server, text, "POST", &format!("{path}/token"), json!({})).await.json();
    let of_admin = server.post(&format!("{path}/token"), json!({})).await.json();
    let tokens = [&session, &asked, &of_admin].map(|answer| answer["token"].as_str().unwrap().to_owned());
    // A new secret of the same token changes nothing.
    let rotated = server.ask("POST", &format!("/api/v1/tokens/{id}/rotate")).send().await;
    assert_eq!(rotated.status, 200);
    let mut streams = Vec::new();
    for token in &tokens {
        let events = format!("{path}/events");
        let stream = server.ask("GET", &events).token(Some(token)).header("Accept", "text/event-stream");
        let mut stream = stream.begin().await;
        assert_eq!(stream.head().await.unwrap().status, 200);
        streams.push(stream);
    }
    let line = server.ask("GET", "/mcp/line").token(Some(&tokens[0]));
    let mut line = line.header("Connection", "upgrade").header("Upgrade", "mcp").begin().await;
    assert_eq!(line.head().await.unwrap().status, 101);
    assert_eq!(server.ask("DELETE", &format!("/api/v1/tokens/{id}")).send().await.status, 204);
    let status = async |token: &str| get(&server, token, &path).await.status;
    assert_eq!((status(&tokens[0]).await, status(&tokens[1]).await), (401, 401), "the next request is refused");
    for stream in streams[..2].iter_mut().chain([&mut line]) {
        assert!(stream.closes_within(PATIENCE).await, "a stream goes on without the token that asked for its token");
    }
    // Control: what an administrator asked for goes on.
    assert_eq!(status(&tokens[2]).await, 200);
    let call = ask(&server, &tokens[2], "POST", &format!("{path}/tools/ls"), json!({})).await;
    assert_eq!(call.status, 200, "{call:?}");
    assert!(!streams[2].closes_within(Duration::from_millis(100)).await, "the stream of the administrator's token");
}

#[tokio::test]
async fn t1_an_expired_token_ends_with_its_open_streams() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    server.declare("t").await;
    let made = token(&server, json!({"name": "a", "project": "web", "role": "developer", "expires_in": 5})).await;
    let text = made["token"].as_str().unwrap();
    let session = ask(&server, text, "POST", "/api/v1/sessions?wait=4", json!({"agent_type": "t"})).await.json();
    let events = format!("/api/v1/sessions/{}/events", session["id"].as_str().unwrap());
    let mut stream = server.ask("GET", &events).token(Some(text)).header("Accept", "text/event-stream").begin().await;
    stream.head().await;
    assert!(stream.closes_within(PATIENCE).await, "the stream goes on without its token");
    assert_eq!(get(&server, text, "/api/v1/whoami").await.status, 401);
    let path = format!("/api/v1/sessions/{}/token", session["id"].as_str().unwrap());
    let short = server.post(&path, json!({"expires_in": 1})).await.json();
    let short = short["token"].as_str().unwrap();
    let until = tokio::time::Instant::now() + PATIENCE;
    while get(&server, short, "/api/v1/whoami").await.status != 401 {
        assert!(tokio::time::Instant::now() < until, "a session token does not expire");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn t1_a_rotated_token_has_a_new_secret() {
    let server = TestServer::start().await;
    let made = token(&server, json!({"name": "a", "role": "viewer"})).await;
    let (id, first) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let rotate = format!("/api/v1/tokens/{id}/rotate");
    let second = server.post(&rotate, json!({"overlap_seconds": 3600})).await.json();
    let second = second["token"].as_str().unwrap();
    for text in [first, second] {
        assert_eq!(get(&server, text, "/api/v1/whoami").await.status, 200);
    }
    let third = server.ask("POST", &rotate).send().await.json();
    assert_eq!(get(&server, third["token"].as_str().unwrap(), "/api/v1/whoami").await.json()["token"], id);
    for text in [first, second] {
        assert_eq!(get(&server, text, "/api/v1/whoami").await.status, 401);
    }
}

#[tokio::test]
async fn t1_a_stream_ends_with_the_secret_and_the_role_of_its_token() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    server.declare("t").await;
    let roles = json!({"roles": {"watcher": ["sessions:read", "sessions:create"]}});
    assert_eq!(server.put("/api/v1/platform", roles).await.status, 200);
    let session = server.post("/api/v1/sessions?wait=10", json!({"agent_type": "t", "project": "web"})).await.json();
    let events = format!("/api/v1/sessions/{}/events", session["id"].as_str().unwrap());
    let watch = async |made: &Value| {
        let token = made["token"].as_str();
        let mut stream = server.ask("GET", &events).token(token).header("Accept", "text/event-stream").begin().await;
        assert_eq!(stream.head().await.unwrap().status, 200);
        stream
    };
    let first = token(&server, json!({"name": "a", "project": "web", "role": "watcher"})).await;
    let mut stream = watch(&first).await;
    let rotate = format!("/api/v1/tokens/{}/rotate", first["id"].as_str().unwrap());
    assert_eq!(server.post(&rotate, json!({"overlap_seconds": 1})).await.status, 200);
    assert!(stream.closes_within(PATIENCE).await, "the stream of a rotated secret goes on");
    let second = token(&server, json!({"name": "b", "project": "web", "role": "watcher"})).await;
    let mut stream = watch(&second).await;
    assert_eq!(server.put("/api/v1/platform", json!({})).await.status, 200);
    assert!(stream.closes_within(PATIENCE).await, "the stream of a role that is gone goes on");
}

#[tokio::test]
async fn t1_a_token_gives_nobody_more_time_or_more_permissions() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    server.declare("t").await;
    let endless = token(&server, json!({"name": "endless", "project": "web", "role": "owner"})).await;
    let short = token(&server, json!({"name": "short", "project": "web", "role": "owner", "expires_in": 600})).await;
    let text = short["token"].as_str().unwrap();
    let rotate = format!("/api/v1/tokens/{}/rotate", endless["id"].as_str().unwrap());
    assert_eq!(ask(&server, text, "POST", &rotate, json!({})).await.status, 403);
    let longer = json!({"name": "x", "role": "viewer"});
    assert_eq!(ask(&server, text, "POST", "/api/v1/tokens", longer).await.status, 403);
    let session = ask(&server, text, "POST", "/api/v1/sessions?wait=10", json!({"agent_type": "t"})).await.json();
    let own = get(&server, session["token"].as_str().unwrap(), "/api/v1/whoami").await.json();
    assert_eq!(own["expires_at"], short["expires_at"], "a session token ends with the token that made it");
    let path = format!("/api/v1/sessions/{}/token", session["id"].as_str().unwrap());
    let again = ask(&server, text, "POST", &path, json!({"expires_in": 86_400})).await.json();
    assert_eq!(again["expires_at"], short["expires_at"]);
    let only_create = json!({"name": "ci", "project": "web", "role": "developer", "operations": ["sessions:create"]});
    let only_create = token(&server, only_create).await;
    let only_create = only_create["token"].as_str().unwrap();
    let made = ask(&server, only_create, "POST", "/api/v1/sessions", json!({"agent_type": "t"})).await;
    assert_eq!((made.status, &made.json()["token"]), (201, &Value::Null));
}

#[tokio::test]
async fn t1_nobody_creates_a_token_with_more_than_their_own() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    project(&server, "data").await;
    let owner = member(&server, "owner", "web").await;
    let create = async |body: Value| ask(&server, &owner, "POST", "/api/v1/tokens", body).await;
    for role in ["admin", "metrics"] {
        let answer = create(json!({"name": "x", "role": role})).await;
        assert_eq!(answer.status, 403, "{role}: {answer:?}");
    }
    let elsewhere = create(json!({"name": "x", "role": "viewer", "project": "data"})).await;
    let nowhere = create(json!({"name": "x", "role": "viewer", "project": "none"})).await;
    assert_eq!((elsewhere.status, nowhere.status), (404, 404));
    assert_eq!(elsewhere.body.replace("data", "X"), nowhere.body.replace("none", "X"));
    let made = create(json!({"name": "x", "role": "developer"})).await;
    assert_eq!((made.status, &made.json()["project"]), (201, &json!("web")));
    let developer = made.json()["token"].as_str().unwrap().to_owned();
    let answer = ask(&server, &developer, "POST", "/api/v1/tokens", json!({"name": "y", "role": "viewer"})).await;
    assert_eq!(answer.status, 403);
    let unknown = create(json!({"name": "x", "role": "king"})).await;
    assert_eq!(unknown.status, 422);
    assert!(unknown.body.contains("developer"), "the error names the roles: {unknown:?}");
}

#[tokio::test]
async fn a_role_of_the_platform_has_the_permissions_that_it_lists() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    let roles = json!({"roles": {"wallboard": ["sessions:read", "usage:read"]}});
    assert_eq!(server.put("/api/v1/platform", roles).await.status, 200);
    let board = member(&server, "wallboard", "web").await;
    assert_eq!(get(&server, &board, "/api/v1/sessions").await.status, 200);
    assert_eq!(get(&server, &board, "/api/v1/content").await.status, 403);
    // A role that is gone gives nothing.
    assert_eq!(server.put("/api/v1/platform", json!({})).await.status, 200);
    assert_eq!(get(&server, &board, "/api/v1/sessions").await.status, 401);
    for wrong in [json!({"roles": {"admin": []}}), json!({"roles": {"x": ["sessions:fly"]}})] {
        assert_eq!(server.put("/api/v1/platform", wrong).await.status, 400);
    }
}

#[tokio::test]
async fn a_narrow_token_does_only_what_it_names() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    for id in ["a", "b"] {
        server.declare(id).await;
    }
    let made = token(
        &server,
        json!({"name": "ci", "project": "web", "role": "developer", "agent_types": ["a"],
            "operations": ["sessions:create", "sessions:read"]}),
    )
    .await;
    let text = made["token"].as_str().unwrap();
    let create = async |agent_type: &str| {
        ask(&server, text, "POST", "/api/v1/sessions", json!({"agent_type": agent_type})).await
    };
    let mine = create("a").await;
    assert_eq!((mine.status, create("b").await.status), (201, 404));
    let path = format!("/api/v1/sessions/{}", mine.json()["id"].as_str().unwrap());
    assert_eq!(get(&server, text, &path).await.status, 200);
    assert_eq!(ask(&server, text, "DELETE", &path, Value::Null).await.status, 403);
    let other = server.post("/api/v1/sessions", json!({"agent_type": "b", "project": "web"})).await.json();
    let other = format!("/api/v1/sessions/{}", other["id"].as_str().unwrap());
    assert_eq!(get(&server, text, &other).await.status, 404);
    assert_eq!(get(&server, text, "/api/v1/sessions").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_user_changes_files_only_with_tools_of_the_agent_type() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    let workspace = json!({"enabled": true, "provider": "memory", "tools": ["ls"]});
    assert_eq!(server.post("/api/v1/agent-types", json!({"id": "looker", "workspace": workspace})).await.status, 201);
    let user = member(&server, "developer", "web").await;
    let session = json!({"agent_type": "looker", "project": "web"});
    let session = server.post("/api/v1/sessions?wait=10", session).await.json();
    let file = format!("/api/v1/sessions/{}/files/a", session["id"].as_str().unwrap());
    let put = async |token: Option<&str>| {
        let request = server.ask("PUT", &file).bytes(b"x".to_vec());
        if token.is_some() { request.token(token) } else { request }.send().await
    };
    let refused = put(Some(&user)).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "tool_not_enabled"));
    assert_eq!(put(None).await.status, 201, "an administrator may");
    assert_eq!(get(&server, &user, &file).await.status, 200);
}

#[tokio::test]
async fn access_is_explained() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    let made = token(&server, json!({"name": "v", "project": "web", "role": "viewer"})).await;
    let explain = async |body: Value| server.post("/api/v1/access:explain", body).await.json();
    let answer = explain(json!({"permission": "sessions:create", "token": made["id"], "project": "web"})).await;
    assert_eq!(answer["access"], "forbidden", "{answer}");
    let answer = explain(json!({"permission": "sessions:read", "token": made["id"], "project": "other"})).await;
    assert_eq!(answer["access"], "hidden", "{answer}");
    let answer = explain(json!({"permission": "sessions:read", "token": made["id"]})).await;
    assert_eq!(answer["access"], "allowed", "{answer}");
    assert!(answer["because"].as_str().unwrap().contains("viewer"), "{answer}");
}

#[tokio::test]
async fn prometheus_needs_no_key_of_the_whole_server() {
    let server = TestServer::start().await;
    let made = token(&server, json!({"name": "prometheus", "role": "metrics"})).await;
    let text = made["token"].as_str().unwrap();
    assert_eq!(get(&server, text, "/metrics").await.status, 200);
    for path in ["/api/v1/sessions", "/api/v1/tokens", "/api/v1/platform", "/api/v1/tools"] {
        assert_eq!(get(&server, text, path).await.status, 403, "{path}");
    }
    let with_project = json!({"name": "p", "role": "metrics", "project": "web"});
    assert_eq!(server.post("/api/v1/tokens", with_project).await.status, 400);
}

#[tokio::test]
async fn the_audit_log_names_the_token_that_acted() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    // Two tokens of one user, one of them with the role admin.
    let of_project = json!({"name": "ben-ci", "user": "ben", "project": "web", "role": "owner"});
    let of_project = token(&server, of_project).await;
    let of_platform = token(&server, json!({"name": "ben-ops", "user": "ben", "role": "admin"})).await;
    for made in [&of_project, &of_platform] {
        let declared = json!({"id": format!("of-{}", made["name"].as_str().unwrap()), "workspace": {"enabled": true, "provider": "memory"}});
        let text = made["token"].as_str().unwrap();
        assert_eq!(ask(&server, text, "POST", "/api/v1/agent-types?project=web", declared).await.status, 201);
    }
    for (made, actor) in [(&of_project, "user:ben@web"), (&of_platform, "admin:ben")] {
        let found = server.get(&format!("/api/v1/audit?token={}", made["id"].as_str().unwrap())).await.json();
        let items = found["items"].as_array().unwrap();
        let shown: Vec<_> = items.iter().map(|item| (item["actor"].as_str().unwrap(), &item["token"])).collect();
        assert_eq!(shown, [(actor, &made["id"])], "{found}");
        let name = made["name"].as_str().unwrap();
        assert_eq!(items[0]["detail"]["id"], format!("web/of-{name}"), "{found}");
    }
    // Session events carry the token from their actor, and the export has it too.
    let session = json!({"agent_type": "of-ben-ci"});
    let text = of_project["token"].as_str().unwrap();
    let session = ask(&server, text, "POST", "/api/v1/sessions", session).await.json();
    let path = format!("/api/v1/audit?type=session_created&session={}", session["id"].as_str().unwrap());
    let exported = server.ask("GET", &path).header("Accept", "application/x-ndjson").send().await;
    let record: Value = serde_json::from_str(exported.body.trim()).unwrap();
    assert_eq!(record["token"], of_project["id"], "{record}");
    // A token of the configuration has no id.
    let found = server.get("/api/v1/audit?actor=admin:tests").await.json();
    let items = found["items"].as_array().unwrap();
    assert!(!items.is_empty() && items.iter().all(|item| item.get("token").is_none()), "{found}");
    let wrong = server.get("/api/v1/audit?token=ben").await;
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "invalid_request"), "{wrong:?}");
}

#[tokio::test]
async fn a_refused_request_is_in_the_audit_log() {
    let server = TestServer::start().await;
    project(&server, "web").await;
    let viewer = member(&server, "viewer", "web").await;
    assert_eq!(ask(&server, &viewer, "POST", "/api/v1/sessions", json!({"agent_type": "t"})).await.status, 403);
    let found = server.get("/api/v1/audit?type=access_denied").await.json();
    let record = &found["items"][0];
    assert_eq!(record["actor"], "user:viewer-web@web");
    assert_eq!(record["detail"]["permission"], "sessions:create");
    assert_eq!(record["detail"]["project"], "web");
}
