//! Uploads that are slow, too long, cut off, or refused.

use std::time::Duration;

use stead_engine::Settings;
use stead_server::ServerConfig;

use crate::client::Connection;
use crate::harness::{TOKEN, TestServer};

fn impatient() -> ServerConfig {
    ServerConfig { body_timeout: Duration::from_millis(400), max_upload_bytes: 1000, ..ServerConfig::default() }
}

/// Starts a chunked upload whose pieces are sent one by one.
async fn begin(server: &TestServer, method: &str, path: &str) -> Connection {
    let mut connection = Connection::open(server.address).await;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n",
        server.address
    );
    connection.send(head.as_bytes()).await;
    connection
}

async fn piece(connection: &mut Connection, bytes: &[u8]) {
    connection.send(format!("{:x}\r\n", bytes.len()).as_bytes()).await;
    connection.send(bytes).await;
    connection.send(b"\r\n").await;
}

#[tokio::test]
async fn a_slow_upload_may_take_long_but_not_stand_still() {
    let span = Duration::from_secs(2);
    let config = ServerConfig { body_timeout: span, ..ServerConfig::default() };
    let server = TestServer::start_with(config, Settings::default()).await;
    server.declare("a").await;
    let session = server.session("a").await;
    let path = format!("/api/v1/sessions/{}/files/slow", session["id"].as_str().unwrap());
    let mut steady = begin(&server, "PUT", &path).await;
    // The minimum amount per time span, sent slightly faster than required.
    let bit = "bit by bit ".repeat((16 << 10) / 11 + 1);
    for _ in 0..5 {
        piece(&mut steady, bit.as_bytes()).await;
        tokio::time::sleep(span / 4).await;
    }
    steady.send(b"0\r\n\r\n").await;
    let answer = steady.answer().await.unwrap();
    assert_eq!((answer.status, answer.json()["bytes"].as_u64()), (201, Some(5 * bit.len() as u64)), "{answer:?}");

    let mut stuck = begin(&server, "PUT", &path).await;
    piece(&mut stuck, b"and then").await;
    let answer = stuck.answer().await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (408, "body_timeout"));
    assert_eq!(server.get(&path).await.body, bit.repeat(5), "what was half sent changed nothing");
}

#[tokio::test]
async fn an_upload_ends_at_the_limit() {
    let server = TestServer::start_with(impatient(), Settings::default()).await;
    let announced = server.ask("POST", "/api/v1/blobs").bytes(vec![b'x'; 1001]).send().await;
    assert_eq!((announced.status, announced.code().as_str()), (413, "too_large"));
    let mut unannounced = begin(&server, "POST", "/api/v1/blobs").await;
    for _ in 0..11 {
        piece(&mut unannounced, &[b'x'; 100]).await;
    }
    let answer = unannounced.answer().await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (413, "too_large"));
    assert_eq!(server.ask("POST", "/api/v1/blobs").bytes(vec![b'x'; 1000]).send().await.status, 201);
    let encoded = server.ask("POST", "/api/v1/blobs").header("Content-Encoding", "gzip").bytes(vec![1]).send().await;
    assert_eq!((encoded.status, encoded.code().as_str()), (415, "unsupported_media_type"));
}

#[tokio::test]
async fn who_may_not_write_is_told_before_the_body_is_taken() {
    let server = TestServer::start().await;
    let path = "/api/v1/sessions/ses_00000000000000000000000000/files/a";
    // The answer arrives although no byte of the body was sent.
    let mut unwanted = begin(&server, "PUT", path).await;
    let answer = unwanted.answer().await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    assert_eq!(answer.header("connection"), Some("close"), "a body is still to come: {answer:?}");
    let taken = server.ask("POST", "/api/v1/blobs").bytes(vec![1]).send().await;
    assert_eq!((taken.status, taken.header("connection")), (201, None));
}
