//! Output streams of one session do not starve other clients.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_json::json;
use stead_testkit::{TestServer, until};

use crate::rows::boxes::execs::{at, begin};
use crate::rows::boxes::native::{box_session, with_boxes};

/// Below the limit of open streams per token.
const STREAMS: usize = 60;
/// Bytes that all streams together may receive while one request of another client is answered.
const MOST_BETWEEN: u64 = 16 << 20;

/// Opens a stream with a session's token, to be read as bytes.
fn open(server: &TestServer, token: &str, path: &str) -> TcpStream {
    let address = server.client().base().trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!("GET /api/v1{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Counts the received bytes until the stream is shut down.
fn count(mut stream: &TcpStream, bytes: &AtomicU64) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.fetch_add(count as u64, Relaxed);
    }
}

#[test]
fn readers_of_one_sessions_output_do_not_keep_others_waiting() {
    let server = with_boxes();
    let (hostile, other) = (box_session(&server, json!({})), server.session(json!({"agent_type": "n"})));
    let exec = begin(&server, &hostile, "yes");
    let token = hostile["token"].as_str().unwrap();
    let path = at(&hostile, &format!("/{exec}/stream"));
    let streams: Vec<TcpStream> = (0..STREAMS).map(|_| open(&server, token, &path)).collect();
    let counts: Vec<AtomicU64> = streams.iter().map(|_| AtomicU64::new(0)).collect();
    let total = || counts.iter().map(|count| count.load(Relaxed)).sum::<u64>();
    std::thread::scope(|scope| {
        for (stream, bytes) in streams.iter().zip(&counts) {
            scope.spawn(|| count(stream, bytes));
        }
        // Every stream makes progress: none waits for the others to end.
        let begun = |count: &AtomicU64| count.load(Relaxed) > 4096;
        until("output on every stream", || counts.iter().all(begun).then_some(()));
        let answered = [(); 3].map(|()| {
            let before = total();
            server.client().get("/healthz").expect(200);
            total() - before
        });
        let before = total();
        let answer = server.tool(&other, "bash", json!({"command": "echo here"}));
        assert_eq!(answer["result"]["stdout"], "here\n", "{answer}");
        let ran = total() - before;
        // Control: the streams are still open and get output.
        let now = total();
        until("more output", || (total() > now).then_some(()));
        for stream in &streams {
            stream.shutdown(Shutdown::Both).unwrap();
        }
        // Other processes of the machine may delay some requests, but not each of them.
        let least = answered.iter().min().copied().unwrap();
        assert!(least < MOST_BETWEEN, "{answered:?} bytes while the server answered /healthz");
        assert!(ran < 8 * MOST_BETWEEN, "{ran} bytes while another session ran a command");
    });
}
