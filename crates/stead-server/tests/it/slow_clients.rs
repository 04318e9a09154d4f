use std::time::{Duration, Instant};

use serde_json::json;
use stead_engine::Settings;
use stead_server::ServerConfig;
use tokio::io::AsyncWriteExt as _;

use crate::client::Connection;
use crate::harness::{TOKEN, TestServer};

/// Time for the server to close a connection on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn impatient() -> ServerConfig {
    ServerConfig {
        header_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        idle_timeout: Duration::from_secs(5),
        ..ServerConfig::default()
    }
}

#[tokio::test]
async fn headers_that_dribble_are_cut_off() {
    let server = TestServer::start_with(impatient(), Settings::default()).await;
    let mut slow = Connection::open(server.address).await;
    let began = Instant::now();
    // Single bytes must not restart the timeout. If they did, this would take a minute.
    let head = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ".iter().chain([b'a'; 2000].iter());
    for byte in head {
        if slow.0.get_mut().try_write(&[*byte]).is_err() || slow.closes_within(Duration::from_millis(30)).await {
            break;
        }
    }
    let lasted = began.elapsed();
    assert!((Duration::from_millis(250)..Duration::from_secs(30)).contains(&lasted), "{lasted:?}");
}

#[tokio::test]
async fn silence_is_cut_off_before_the_first_request_and_after_it() {
    let server = TestServer::start_with(impatient(), Settings::default()).await;
    let mut silent = Connection::open(server.address).await;
    assert!(silent.closes_within(PATIENCE).await, "a connection that sends no request");
    let mut kept = server.ask("GET", "/healthz").begin().await;
    assert_eq!(kept.answer().await.unwrap().status, 200);
    tokio::time::sleep(Duration::from_millis(500)).await;
    kept.send(format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).as_bytes()).await;
    assert_eq!(kept.answer().await.unwrap().status, 200, "idle for less than the limit, longer than a header may take");
    assert!(kept.closes_within(PATIENCE).await);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_a_408() {
    let server = TestServer::start_with(impatient(), Settings::default()).await;
    let mut slow = Connection::open(server.address).await;
    let head = format!(
        "POST /api/v1/agent-types HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{",
        server.address
    );
    slow.send(head.as_bytes()).await;
    let answer = slow.answer().await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (408, "body_timeout"));
    assert!(slow.closes_within(PATIENCE).await);
}

#[tokio::test]
async fn headers_have_a_size() {
    let server = TestServer::start().await;
    for (size, status) in [(60_000, 200), (70_000, 431), (1_000_000, 431)] {
        let mut connection = Connection::open(server.address).await;
        let head = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n", server.address, "a".repeat(size));
        // The server may answer and close before it has read everything.
        let _ = connection.0.write_all(head.as_bytes()).await;
        let answered = connection.head().await.map_or(431, |answer| answer.status);
        assert_eq!(answered, status, "{size}");
    }
}

#[tokio::test]
async fn the_silent_make_room_at_once() {
    let hour = Duration::from_secs(3600);
    let config =
        ServerConfig { max_connections: 4, header_timeout: hour, idle_timeout: hour, ..ServerConfig::default() };
    let server = TestServer::start_with(config, Settings::default()).await;
    let mut silent = Vec::new();
    for _ in 0..12 {
        silent.push(Connection::open(server.address).await);
    }
    assert_eq!(server.get("/api/v1/tools").await.status, 200);
}

#[tokio::test]
async fn a_reader_who_takes_nothing_is_dropped() {
    let config = ServerConfig {
        write_timeout: Duration::from_millis(300),
        heartbeat: Duration::from_millis(20),
        ..ServerConfig::default()
    };
    let server = TestServer::start_with(config, Settings::default()).await;
    server.declare("t").await;
    let id = server.session("t").await["id"].as_str().unwrap().to_owned();
    let content = "x".repeat(40_000);
    for number in 0..200 {
        let body = json!({"path": format!("f{number}"), "content": content});
        assert_eq!(server.post(&format!("/api/v1/sessions/{id}/tools/write"), body).await.status, 200);
    }
    let mut stuck = server.ask("GET", &format!("/api/v1/sessions/{id}/events")).begin().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Buffered data can still be read; then the connection ends although the session does not.
    assert!(stuck.closes_within(PATIENCE).await);
    assert_eq!(server.get(&format!("/api/v1/sessions/{id}")).await.json()["status"], "active");
}
