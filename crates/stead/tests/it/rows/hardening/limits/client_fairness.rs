//! One client, token or session cannot starve the others of connections, requests, streams, MCP
//! sessions or running calls.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::{Client, RawReply, ServerOptions, TestServer, until};

use crate::rows::boxes::native::build_init;
use crate::rows::server_with;

fn server(settings: &[(&str, &str)]) -> TestServer {
    server_with(settings.iter().fold(ServerOptions::default(), |options, (name, value)| options.env(name, value)))
}

/// Two sessions without boxes.
fn sessions(server: &TestServer) -> [Value; 2] {
    server.agent_type("m", json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"}));
    [(); 2].map(|()| server.session(json!({"agent_type": "m"})))
}

fn holder(server: &TestServer, session: &Value) -> Client {
    server.client().with_token(session["token"].as_str().unwrap())
}

fn id(session: &Value) -> &str {
    session["id"].as_str().unwrap()
}

fn connect(server: &TestServer) -> TcpStream {
    let stream = TcpStream::connect(address(server)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn address(server: &TestServer) -> String {
    server.client().base().trim_start_matches("http://").to_owned()
}

/// Returns true if the server has closed a connection. Use it only on connections without a pending
/// answer.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0; 64]);
    stream.set_nonblocking(false).unwrap();
    match read {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Sends a request with a token and returns the connection without reading the answer.
fn send(server: &TestServer, token: &str, line: &str, body: &str) -> TcpStream {
    let mut stream = connect(server);
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        address(server),
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Reads an answer's head and returns its status.
fn status(stream: &mut TcpStream) -> u16 {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(
            stream.read(&mut byte).unwrap(),
            1,
            "the connection ended in the head {:?}",
            String::from_utf8_lossy(&head)
        );
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn idle_connections_make_room_oldest_first_and_health_checks_are_answered() {
    for (limit, evicted) in [("8", true), ("500", false)] {
        let server = server(&[("STEAD_MAX_CONNECTIONS", limit), ("STEAD_HEADER_SECONDS", "600")]);
        let mut idle: Vec<TcpStream> = (0..60).map(|_| connect(&server)).collect();
        // A new connection for each request, because the server may have closed an idle one.
        for _ in 0..3 {
            let client = || server.client().without_connections();
            client().without_token().get("/healthz").expect(200);
            client().without_token().get("/readyz").expect(200);
            client().get("/tools").expect(200);
        }
        if evicted {
            until("the oldest idle connections to be closed", || idle[..40].iter_mut().all(is_closed).then_some(()));
        } else {
            // The control: while there is room, no connection is closed.
            assert_eq!(idle.iter_mut().filter_map(|stream| is_closed(stream).then_some(())).count(), 0);
        }
    }
}

#[test]
fn a_connection_without_a_whole_header_is_closed() {
    let server = server(&[("STEAD_HEADER_SECONDS", "1")]);
    let (mut silent, mut half, mut kept) = (connect(&server), connect(&server), connect(&server));
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    let health = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", address(&server));
    kept.write_all(health.as_bytes()).unwrap();
    assert_eq!(status(&mut kept), 200);
    until("the silent and the half-sent connection to be closed", || {
        (is_closed(&mut silent) && is_closed(&mut half)).then_some(())
    });
    // The control: a connection between two requests may be silent for longer.
    kept.write_all(health.as_bytes()).unwrap();
    let mut rest = [0; 4096];
    assert!(kept.read(&mut rest).unwrap() > 0, "a connection that sent a request was closed too");
}

#[test]
fn one_token_has_a_bounded_number_of_requests_and_streams() {
    let server = server(&[("STEAD_MAX_REQUESTS_PER_SESSION", "4")]);
    let [hostile, other] = sessions(&server);
    let stream = |session: &Value| {
        let line = format!("GET /api/v1/sessions/{}/events", id(session));
        let mut stream = send(&server, session["token"].as_str().unwrap(), &line, "");
        (status(&mut stream), stream)
    };
    let open: Vec<(u16, TcpStream)> = (0..4).map(|_| stream(&hostile)).collect();
    assert!(open.iter().all(|(status, _)| *status == 200), "{open:?}");
    let refused = holder(&server, &hostile).get(&format!("/sessions/{}", id(&hostile)));
    refused.problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // The control: another token can open the same number, and everything else is served.
    let others: Vec<(u16, TcpStream)> = (0..4).map(|_| stream(&other)).collect();
    assert!(others.iter().all(|(status, _)| *status == 200), "{others:?}");
    server.client().get(&format!("/sessions/{}", id(&hostile))).expect(200);
    server.client().without_token().get("/healthz").expect(200);
    drop(open);
    until("the closed streams to be given back", || {
        let reply = holder(&server, &hostile).get(&format!("/sessions/{}", id(&hostile)));
        (reply.status == 200).then_some(())
    });
}

fn initialize(client: &Client) -> RawReply {
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    mcp(client, "POST", None, &greeting.to_string())
}

fn mcp(client: &Client, method: &str, session: Option<&str>, body: &str) -> RawReply {
    let mut headers = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    headers.extend(session.map(|session| ("mcp-session-id", session)));
    client.bytes(method, "/mcp", &headers, body.as_bytes())
}

#[test]
fn mcp_sessions_are_bounded_per_token_freed_by_delete_and_end_when_idle() {
    let settings =
        [("STEAD_MAX_MCP_SESSIONS_PER_SESSION", "3"), ("STEAD_MAX_MCP_SESSIONS", "5"), ("STEAD_MCP_IDLE_SECONDS", "3")];
    let server = server(&settings);
    let [hostile, other] = sessions(&server);
    let (hostile, other) = (holder(&server, &hostile), holder(&server, &other));
    let opened: Vec<String> = (0..3)
        .map(|_| {
            let reply = initialize(&hostile);
            assert_eq!(reply.status, 200);
            reply.header("mcp-session-id").unwrap().to_owned()
        })
        .collect();
    assert!(initialize(&hostile).reply().problem(429, "too_many_requests").contains("3 MCP sessions"));
    // The control: another token has its own limit.
    assert_eq!(initialize(&other).status, 200);
    assert!([200, 202, 204].contains(&mcp(&hostile, "DELETE", Some(&opened[0]), "").status));
    until("the ended session to be given back", || (initialize(&hostile).status == 200).then_some(()));
    assert_eq!(initialize(&hostile).status, 429);
    until("idle sessions to end", || (initialize(&hostile).status == 200).then_some(()));
}

#[test]
fn a_message_to_mcp_that_does_not_come_ends() {
    let server = server(&[("STEAD_BODY_SECONDS", "1")]);
    let [session, _] = sessions(&server);
    let token = session["token"].as_str().unwrap();
    let mut stream = connect(&server);
    let head = |length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n",
            address(&server)
        )
    };
    stream.write_all(head(100).as_bytes()).unwrap();
    assert_eq!(status(&mut stream), 408);
    // The control: a complete message is answered.
    assert_eq!(initialize(&holder(&server, &session)).status, 200);
}

#[test]
fn an_upload_of_a_byte_now_and_then_ends() {
    let server = server(&[("STEAD_BODY_SECONDS", "1")]);
    let [session, _] = sessions(&server);
    let path = format!("/api/v1/sessions/{}/files/slow", id(&session));
    let mut stream = connect(&server);
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 1000\r\n\r\n",
        address(&server),
        session["token"].as_str().unwrap()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Each piece arrives within the time limit for one read, so only the lack of progress can end
    // the upload.
    let mut sent = 0;
    let answered = until("the upload to be ended", || {
        std::thread::sleep(Duration::from_millis(100));
        sent += 1;
        let broken = stream.write_all(b"x").is_err();
        (broken || has_answer(&stream)).then_some(sent)
    });
    assert!(answered < 1000, "the upload was complete before it was ended");
    assert_eq!(status(&mut stream), 408);
    // The control: the same number of bytes sent at once.
    let reply = server.client().bytes("PUT", path.trim_start_matches("/api/v1"), &[], &[b'x'; 1000]);
    assert_eq!(reply.status, 201);
}

#[test]
fn calls_of_one_session_wait_for_each_other_and_not_the_others_for_them() {
    build_init();
    let server = server(&[("STEAD_MAX_CALLS_PER_SESSION", "1")]);
    let agent_type =
        json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "require_workspace": true});
    server.agent_type("n", agent_type);
    let [hostile, other] = [(); 2].map(|()| server.session(json!({"agent_type": "n"})));
    let token = hostile["token"].as_str().unwrap();
    // One command runs and keeps its slot although its client is gone; four more may wait.
    let execs = format!("/sessions/{}/execs", id(&hostile));
    let first = send(&server, token, &format!("POST /api/v1{execs}"), r#"{"command": "sleep 600"}"#);
    let running = until("the first command to run", || {
        let list = server.client().get(&execs).expect(200);
        list["items"][0]["id"].as_str().map(str::to_owned)
    });
    drop(first);
    let line = format!("POST /api/v1/sessions/{}/tools/bash", id(&hostile));
    let mut calls: Vec<TcpStream> = (0..9).map(|_| send(&server, token, &line, r#"{"command": "true"}"#)).collect();
    let refused = until("five of nine calls to be refused", || {
        let (answered, waiting): (Vec<_>, Vec<_>) = calls.iter().partition(|stream| has_answer(stream));
        (answered.len() == 5).then_some(waiting.len())
    });
    assert_eq!(refused, 4);
    // The control: calls of another session run meanwhile, and refusals have a code.
    let answer = server.tool(&other, "bash", json!({"command": "echo free"}));
    assert_eq!(answer["result"]["stdout"], "free\n", "{answer}");
    server.client().get(&format!("/sessions/{}/files", id(&hostile))).problem(429, "too_many_requests");
    server.client().delete(&format!("{execs}/{running}")).expect(204);
    let mut statuses: Vec<u16> = calls.iter_mut().map(status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 4].as_slice(), &[429; 5]].concat(), "calls that waited are answered");
}

fn has_answer(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    peeked.is_ok()
}
