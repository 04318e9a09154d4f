use std::time::Duration;

use serde_json::{Value, json};
use stead_engine::Settings;
use stead_server::ServerConfig;

use crate::client::Connection;
use crate::harness::TestServer;

/// The next event of a stream as (id, type, data); `None` at its end.
pub(crate) async fn next_event(stream: &mut Connection) -> Option<(u64, String, Value)> {
    let (mut id, mut kind) = (0, String::new());
    loop {
        // Chunk sizes appear between the events; the last one is zero.
        let line = stream.line().await.filter(|line| line != "0")?;
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.parse().unwrap();
        } else if let Some(text) = line.strip_prefix("event: ") {
            kind = text.to_owned();
        } else if let Some(text) = line.strip_prefix("data: ") {
            return Some((id, kind, serde_json::from_str(text).unwrap()));
        }
    }
}

pub(crate) async fn follow(server: &TestServer, id: &str, after: Option<u64>) -> Connection {
    let path = format!("/api/v1/sessions/{id}/events");
    let ask = server.ask("GET", &path);
    let ask = match after {
        Some(seq) => ask.header("Last-Event-ID", &seq.to_string()),
        None => ask,
    };
    let mut stream = ask.begin().await;
    let head = stream.head().await.unwrap();
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    stream
}

#[tokio::test]
async fn a_stream_taken_up_again_and_again_loses_and_repeats_nothing() {
    let server = TestServer::start().await;
    server.declare("t").await;
    let id = server.session("t").await["id"].as_str().unwrap().to_owned();
    let work = async {
        for number in 0..40 {
            let body = json!({"path": format!("f{number}"), "content": "x"});
            assert_eq!(server.post(&format!("/api/v1/sessions/{id}/tools/write"), body).await.status, 200);
        }
        assert_eq!(server.ask("DELETE", &format!("/api/v1/sessions/{id}")).send().await.status, 204);
    };
    let read = async {
        let (mut seen, mut last) = (Vec::new(), None);
        loop {
            let mut stream = follow(&server, &id, last).await;
            // Drop the connection after a varying number of events.
            for _ in 0..(seen.len() % 7 + 1) {
                let Some((seq, kind, data)) = next_event(&mut stream).await else { return seen };
                assert_eq!((data["seq"].as_u64(), data["type"].as_str()), (Some(seq), Some(kind.as_str())));
                assert!(data["hash"].as_str().unwrap().starts_with("blake3:"));
                seen.push((seq, kind));
                last = Some(seq);
            }
        }
    };
    let ((), seen) = tokio::join!(work, read);
    let numbers: Vec<u64> = seen.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!((seen[0].1.as_str(), seen.last().unwrap().1.as_str()), ("SessionCreated", "SessionClosed"));
    assert_eq!(seen.iter().filter(|(_, kind)| kind == "ToolCallFinished").count(), 40);
}

#[tokio::test]
async fn pages_and_streams_tell_the_same() {
    let server = TestServer::start().await;
    server.declare("t").await;
    let id = server.session("t").await["id"].as_str().unwrap().to_owned();
    server.ask("DELETE", &format!("/api/v1/sessions/{id}")).send().await;
    let (mut paged, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let path = format!("/api/v1/sessions/{id}/events?limit=2&after={after}");
        let page = server.ask("GET", &path).header("Accept", "application/json").send().await.json();
        paged.extend(page["items"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(cursor) => cursor.clone_into(&mut after),
            None => break,
        }
    }
    let mut stream = follow(&server, &id, None).await;
    let mut streamed = Vec::new();
    while let Some((_, _, data)) = next_event(&mut stream).await {
        streamed.push(data);
    }
    assert_eq!(streamed, paged);
    let nobody = server.get("/api/v1/sessions/ses_00000000000000000000000000/events").await;
    assert_eq!((nobody.status, nobody.code().as_str()), (404, "not_found"));
}

#[tokio::test]
async fn a_quiet_stream_is_kept_open_by_comments() {
    let config = ServerConfig {
        heartbeat: Duration::from_millis(100),
        idle_timeout: Duration::from_millis(400),
        header_timeout: Duration::from_millis(400),
        ..ServerConfig::default()
    };
    let server = TestServer::start_with(config, Settings::default()).await;
    server.declare("t").await;
    let id = server.session("t").await["id"].as_str().unwrap().to_owned();
    let seq = server.get(&format!("/api/v1/sessions/{id}")).await.json()["seq"].as_u64();
    let mut stream = follow(&server, &id, seq).await;
    let mut comments = 0;
    while comments < 8 {
        comments += usize::from(stream.line().await.expect("the stream goes on").starts_with(':'));
    }
    server.post(&format!("/api/v1/sessions/{id}/tools/ls"), json!({})).await;
    assert_eq!(next_event(&mut stream).await.unwrap().1, "ToolCallStarted");
}
