use std::time::{Duration, Instant};

use crate::client::Connection;
use crate::events::{follow, next_event};
use crate::harness::TestServer;

#[tokio::test]
async fn a_shutdown_ends_streams_at_once_and_lets_nobody_hold_it() {
    let mut server = TestServer::start().await;
    server.declare("t").await;
    let id = server.session("t").await["id"].as_str().unwrap().to_owned();
    let mut stream = follow(&server, &id, None).await;
    assert!(next_event(&mut stream).await.is_some());
    let mut silent = Connection::open(server.address).await;
    let mut halfway = Connection::open(server.address).await;
    halfway.send(b"GET /healthz HTTP/1.1\r\nHost: ").await;
    let address = server.address;
    let began = Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    while next_event(&mut stream).await.is_some() {}
    assert!(silent.closes_within(Duration::from_secs(30)).await);
    assert!(halfway.closes_within(Duration::from_secs(30)).await);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
