//! Ports of boxes: real servers in boxes, reached through every door.

mod browser;
mod doors;
mod forward;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use super::{Files, events, on_boxes, put, writer};
use crate::rows::boxes::podman;
use crate::rows::hardening::limits::ordinary_user;

const PORT: u16 = 8080;

/// Starts the application in the box of a session, and waits until it listens.
fn start_app(server: &TestServer, session: &Value, port: u16, address: &str) {
    put(server, session, "app.py", include_bytes!("app.py"));
    let id = session["id"].as_str().unwrap();
    let argv = json!(["python3", "app.py", port.to_string(), address]);
    let started = server.client().post(&format!("/sessions/{id}/execs"), json!({"argv": argv, "background": true}));
    started.expect(201);
    until("the application listens", || listening(server, id).contains(&port).then_some(()));
}

fn listening(server: &TestServer, id: &str) -> Vec<u16> {
    let list = server.client().get(&format!("/sessions/{id}/ports")).expect(200);
    list["items"].as_array().unwrap().iter().map(|item| item["port"].as_u64().unwrap() as u16).collect()
}

/// A session with the application on port 8080.
fn with_app(server: &TestServer, files: Files) -> (Value, String) {
    let session = writer(server, files);
    let id = session["id"].as_str().unwrap().to_owned();
    start_app(server, &session, PORT, "0.0.0.0");
    (session, id)
}

/// An answer to a request that was written byte by byte.
#[derive(Debug)]
struct Raw {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
    stream: BufReader<TcpStream>,
}

impl Raw {
    fn all(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }
}

fn authority(server: &TestServer) -> String {
    server.client().base().trim_start_matches("http://").trim_end_matches('/').to_owned()
}

/// Sends lines as they are, with an empty line after them, and reads the answer.
fn send(server: &TestServer, lines: &[String], body: &str) -> Raw {
    let mut stream = TcpStream::connect(authority(server)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(format!("{}\r\n\r\n{body}", lines.join("\r\n")).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let status = line().split(' ').nth(1).unwrap_or_default().parse().unwrap_or(0);
    let mut headers = Vec::new();
    while let Some((name, value)) = line().split_once(':') {
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let mut raw = Raw { status, headers, body: String::new(), stream: reader };
    if let Some(length) = raw.header("content-length").map(|length| length.parse().unwrap()) {
        let mut body = vec![0; length];
        raw.stream.read_exact(&mut body).unwrap();
        raw.body = String::from_utf8_lossy(&body).into_owned();
    }
    raw
}

fn token(server: &TestServer) -> String {
    std::fs::read_to_string(server.home().join("token")).unwrap().trim().to_owned()
}

/// Connects to a port through the raw door.
fn raw_door(server: &TestServer, token: &str, id: &str, port: u16) -> Raw {
    let lines = [
        format!("GET /api/v1/sessions/{id}/ports/{port}:connect HTTP/1.1"),
        format!("Host: {}", authority(server)),
        "Connection: upgrade".to_owned(),
        "Upgrade: tcp".to_owned(),
        format!("Authorization: Bearer {token}"),
    ];
    send(server, &lines, "")
}

fn n6_a_server_in_a_box_is_reached_through_the_doors_for_programs(files: Files) {
    let server = files.server();
    let (_, id) = with_app(&server, files);
    let client = server.client();
    let door = format!("/sessions/{id}/ports/{PORT}");
    let page = client.get(&format!("{door}/"));
    assert_eq!((page.status, page.text.contains("From the box")), (200, true), "{page:?}");
    assert_eq!(page.header("content-security-policy"), Some("sandbox; default-src 'none'"));
    let seen = client.get(&format!("{door}/seen?a=%2Fb&c")).expect(200);
    assert_eq!(seen["path"], "/seen?a=%2Fb&c", "{seen}");
    assert!(!seen.to_string().to_lowercase().contains("bearer"), "the token stays outside: {seen}");
    let echoed = client.bytes("POST", &format!("{door}/echo"), &[], &vec![b'x'; 1 << 20]).expect(200);
    assert_eq!(echoed.len(), 1 << 20);
    let missing = client.get(&format!("{door}/nowhere"));
    assert_eq!((missing.status, missing.text.as_str()), (404, "no such page in the box"), "as the program answers");
    // The raw door carries any bytes.
    let mut raw = raw_door(&server, &token(&server), &id, PORT);
    assert_eq!(raw.status, 101, "{raw:?}");
    raw.stream.get_mut().write_all(b"GET /seen HTTP/1.0\r\nAuthorization: Bearer mine\r\n\r\n").unwrap();
    let mut text = String::new();
    raw.stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("Bearer mine"), "{text}");
    // A port without a server is a typed problem at every door.
    let unused = client.get(&format!("/sessions/{id}/ports/9/x"));
    assert_eq!(unused.problem(502, "nothing_listens"), "nothing listens on 9 in the box");
    let refused = raw_door(&server, &token(&server), &id, 9);
    assert_eq!((refused.status, refused.body.contains("nothing listens on 9 in the box")), (502, true), "{refused:?}");
    let opened = events(&server, &id, "PortOpened");
    assert_eq!(opened.len(), 1, "the first use of each port is recorded, and only it: {opened:?}");
    assert_eq!((&opened[0]["port"], &opened[0]["actor"]["kind"]), (&json!(PORT), &json!("admin")));
    let audit = client.get(&format!("/audit?session={id}&type=port_opened")).expect(200);
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
}

fn an_end_of_the_session_cuts_its_connections(files: Files) {
    let server = files.server();
    let (_, id) = with_app(&server, files);
    let mut raw = raw_door(&server, &token(&server), &id, PORT);
    assert_eq!(raw.status, 101, "{raw:?}");
    server.client().delete(&format!("/sessions/{id}")).expect(204);
    let mut rest = Vec::new();
    // The connection ends, with or without a reset.
    let _ = raw.stream.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    let gone = server.client().get(&format!("/sessions/{id}/ports/{PORT}/"));
    gone.problem(409, "session_not_active");
}

on_boxes!(n6_a_server_in_a_box_is_reached_through_the_doors_for_programs, an_end_of_the_session_cuts_its_connections,);

#[test]
fn n6_a_server_in_a_box_of_an_ordinary_user_is_reached() {
    let ordinary = ordinary_user::server();
    let server = &ordinary.server;
    let (_, id) = with_app(server, Files::Disk);
    let page = server.client().get(&format!("/sessions/{id}/ports/{PORT}/"));
    assert_eq!((page.status, page.text.contains("From the box")), (200, true), "{page:?}");
    let unused = server.client().get(&format!("/sessions/{id}/ports/9/x"));
    assert_eq!(unused.problem(502, "nothing_listens"), "nothing listens on 9 in the box");
}

/// No descriptor passes into or out of gVisor, so process 1 relays the bytes.
#[test]
fn n6_a_server_under_gvisor_is_reached_by_a_relay() {
    let service = podman::service("runsc");
    let server = podman::under(&service, "runsc");
    let session = podman::box_session(&server, json!({}));
    let id = session["id"].as_str().unwrap();
    start_app(&server, &session, PORT, "127.0.0.1");
    let door = format!("/sessions/{id}/ports/{PORT}");
    let page = server.client().get(&format!("{door}/"));
    assert_eq!((page.status, page.text.contains("From the box")), (200, true), "{page:?}");
    let echoed = server.client().bytes("POST", &format!("{door}/echo"), &[], &vec![b'x'; 1 << 20]).expect(200);
    assert_eq!(echoed.len(), 1 << 20);
    let unused = server.client().get(&format!("/sessions/{id}/ports/9/x"));
    assert_eq!(unused.problem(502, "nothing_listens"), "nothing listens on 9 in the box");
}

#[test]
fn a_server_on_ipv6_alone_is_reached() {
    let server = Files::Disk.server();
    let session = writer(&server, Files::Disk);
    let id = session["id"].as_str().unwrap();
    let program = "import socket; s = socket.create_server(('::1', 8081), family=socket.AF_INET6)\n\
                   while True: c, _ = s.accept(); c.sendall(b'six'); c.close()";
    let order = json!({"argv": ["python3", "-c", program], "background": true});
    server.client().post(&format!("/sessions/{id}/execs"), order).expect(201);
    until("the server listens", || listening(&server, id).contains(&8081).then_some(()));
    let mut raw = raw_door(&server, &token(&server), id, 8081);
    let mut text = String::new();
    raw.stream.read_to_string(&mut text).unwrap();
    assert_eq!((raw.status, text.as_str()), (101, "six"));
}

#[test]
fn session_token_opens_only_listed_ports_of_its_own_session() {
    let server = Files::Disk.server();
    let provider = Files::Disk.provider();
    for (name, ports) in [("open", json!(null)), ("listed", json!([PORT])), ("none", json!([]))] {
        server.agent_type(name, json!({"enabled": true, "provider": provider, "ports": ports}));
        let session = server.session(json!({"agent_type": name}));
        let id = session["id"].as_str().unwrap();
        // The user's own view decides what is listed, so an agent type without ports lists none.
        put(&server, &session, "app.py", include_bytes!("app.py"));
        let argv = json!(["python3", "app.py", PORT.to_string(), "127.0.0.1"]);
        server.client().post(&format!("/sessions/{id}/execs"), json!({"argv": argv, "background": true})).expect(201);
        let tcp = until("the application listens", || {
            let seen = server.tool(&session, "bash", json!({"command": "grep -c ':1F90 .* 0A' /proc/net/tcp || true"}));
            (seen["result"]["stdout"] == "1\n").then_some(true)
        });
        assert!(tcp);
        let agent = server.client().with_token(session["token"].as_str().unwrap());
        let door = format!("/sessions/{id}/ports/{PORT}/");
        let (as_admin, as_agent) = (server.client().get(&door), agent.get(&door));
        match name {
            "open" => {
                assert_eq!(as_admin.status, 200);
                as_agent.problem(403, "port_not_allowed");
                assert_eq!(agent.get(&format!("/sessions/{id}/ports")).expect(200)["items"], json!([]));
            }
            "listed" => {
                assert_eq!((as_admin.status, as_agent.status), (200, 200), "{as_agent:?}");
                agent.get(&format!("/sessions/{id}/ports/8081/")).problem(403, "port_not_allowed");
                server.client().get(&format!("/sessions/{id}/ports/8081/")).problem(403, "port_not_allowed");
                let opened = agent.post(&format!("/sessions/{id}/ports/{PORT}:open"), json!({})).expect(200);
                assert!(opened["url"].as_str().unwrap().contains("/.stead/enter?ticket="), "{opened}");
                let actors = events(&server, id, "PortOpened").len();
                assert_eq!(actors, 2, "the first use by each actor");
                let refusals = server.client().get(&format!("/audit?session={id}&type=refusal")).expect(200);
                assert_eq!(refusals["items"].as_array().unwrap().len(), 2, "{refusals}");
            }
            _ => {
                as_admin.problem(403, "port_not_allowed");
                as_agent.problem(403, "port_not_allowed");
            }
        }
        let other = server.session(json!({"agent_type": name}));
        let elsewhere = format!("/sessions/{}/ports/{PORT}/", other["id"].as_str().unwrap());
        agent.get(&elsewhere).problem(404, "not_found");
    }
    let wrong = json!({"id": "bad", "workspace": {"enabled": true, "ports": [0]}});
    assert_eq!(server.client().post("/agent-types", wrong).invalid_fields(), ["workspace.ports[0]"]);
}

#[test]
fn connections_of_a_session_are_limited() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let token = token(&server);
    let mut open: Vec<Raw> = (0..128).map(|_| raw_door(&server, &token, &id, PORT)).collect();
    for raw in &open {
        assert_eq!(raw.status, 101, "{raw:?}");
    }
    let refused = server.client().get(&format!("/sessions/{id}/ports/{PORT}/"));
    refused.problem(429, "too_many_requests");
    open.pop();
    until("a closed connection makes room", || {
        (server.client().get(&format!("/sessions/{id}/ports/{PORT}/")).status == 200).then_some(())
    });
}

#[test]
fn a_workspace_without_a_box_has_no_ports() {
    let server = Files::Memory.server();
    let session = writer(&server, Files::Memory);
    let id = session["id"].as_str().unwrap();
    server.client().get(&format!("/sessions/{id}/ports")).problem(422, "exec_unsupported");
    server.client().get(&format!("/sessions/{id}/ports/80/")).problem(422, "exec_unsupported");
}

#[test]
fn port_door_reaches_nothing_outside_the_box() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    // A listener of this machine is not a port of the box.
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    server.client().get(&format!("/sessions/{id}/ports/{port}/")).problem(502, "nothing_listens");
    outside.set_nonblocking(true).unwrap();
    assert_eq!(outside.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // A redirect is passed on, and nothing follows it.
    for to in ["http://169.254.169.254/latest", &format!("http://127.0.0.1:{port}/")] {
        let encoded = to.replace(':', "%3A").replace('/', "%2F");
        let raw = send(
            &server,
            &[
                format!("GET /api/v1/sessions/{id}/ports/{PORT}/redirect?to={encoded} HTTP/1.1"),
                format!("Host: {}", authority(&server)),
                format!("Authorization: Bearer {}", token(&server)),
            ],
            "",
        );
        assert_eq!((raw.status, raw.header("location")), (302, Some(to)), "{raw:?}");
    }
    assert_eq!(outside.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
