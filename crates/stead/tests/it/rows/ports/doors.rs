//! The browser door without a browser: hosts, tickets, cookies and headers, byte by byte.

use std::io::{Read, Write};

use serde_json::{Value, json};
use stead_testkit::TestServer;

use super::{PORT, Raw, authority, send, start_app, token, with_app};
use crate::rows::Files;

/// A client at a door: its host, and its cookie once it has entered.
struct Visitor<'a> {
    server: &'a TestServer,
    host: String,
    cookie: Option<String>,
}

impl<'a> Visitor<'a> {
    /// Follows the link that `:open` gives.
    fn enter(server: &'a TestServer, id: &str, port: u16) -> Self {
        let url = link(server, id, port);
        let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
        let mut visitor = Self { server, host: host.to_owned(), cookie: None };
        let entered = visitor.get(&format!("/{path}"), &[]);
        assert_eq!((entered.status, entered.header("location")), (303, Some("/")), "{entered:?}");
        assert_eq!(entered.header("referrer-policy"), Some("no-referrer"));
        let cookie = entered.header("set-cookie").unwrap();
        assert!(cookie.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax"), "{cookie}");
        visitor.cookie = cookie.split(';').next().map(str::to_owned);
        visitor
    }

    fn get(&self, path: &str, headers: &[&str]) -> Raw {
        self.ask("GET", path, headers, "")
    }

    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Raw {
        let mut lines = vec![format!("{method} {path} HTTP/1.1"), format!("Host: {}", self.host)];
        lines.extend(self.cookie.iter().map(|cookie| format!("Cookie: theme=dark; {cookie}")));
        lines.extend(headers.iter().map(|header| (*header).to_owned()));
        if !body.is_empty() {
            lines.push(format!("Content-Length: {}", body.len()));
        }
        send(self.server, &lines, body)
    }

    fn seen(&self, headers: &[&str]) -> Value {
        let raw = self.get("/seen", headers);
        assert_eq!(raw.status, 200, "{raw:?}");
        serde_json::from_str(&raw.body).unwrap()
    }
}

fn link(server: &TestServer, id: &str, port: u16) -> String {
    let opened = server.client().post(&format!("/sessions/{id}/ports/{port}:open"), json!({})).expect(200);
    opened["url"].as_str().unwrap().to_owned()
}

#[test]
fn api_is_not_served_under_a_preview_host_nor_the_reverse() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let visitor = Visitor::enter(&server, &id, PORT);
    let bearer = format!("Authorization: Bearer {}", token(&server));
    // A path of the API under the door's host is a path of the program.
    for path in ["/api/v1/sessions", "/openapi.json", "/healthz", "/metrics", "/mcp"] {
        let raw = visitor.get(path, &[&bearer]);
        assert_eq!((raw.status, raw.body.as_str()), (404, "no such page in the box"), "{path}");
    }
    // Without its cookie the door gives nothing of the box, whatever else the request has.
    let stranger = Visitor { server: &server, host: visitor.host.clone(), cookie: None };
    for path in ["/", "/api/v1/sessions", "/healthz"] {
        let raw = stranger.get(path, &[&bearer]);
        assert_eq!((raw.status, raw.body.contains("box</h1>")), (401, false), "{path} {raw:?}");
    }
    // The cookie is worth nothing at the API, and the API has no door.
    let cookie = format!("Cookie: {}", visitor.cookie.as_ref().unwrap());
    let host = format!("Host: {}", authority(&server));
    let raw = send(&server, &["GET /api/v1/sessions HTTP/1.1".to_owned(), host.clone(), cookie], "");
    assert_eq!(raw.status, 401, "{raw:?}");
    let raw = send(&server, &["GET /.stead/enter?ticket=x HTTP/1.1".to_owned(), host, bearer], "");
    assert_eq!(raw.status, 404, "{raw:?}");
}

#[test]
fn door_without_cookie_wrong_cookie_other_session_other_port() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let other = server.session(json!({"agent_type": "w"}));
    let other_id = other["id"].as_str().unwrap();
    start_app(&server, &other, PORT, "127.0.0.1");
    let mut visitor = Visitor::enter(&server, &id, PORT);
    assert_eq!(visitor.get("/", &[]).status, 200);
    let right = visitor.cookie.clone();
    for wrong in [None, Some("stead_door=".to_owned()), Some(format!("stead_door={}", "0".repeat(64)))] {
        visitor.cookie = wrong;
        assert_eq!(visitor.get("/", &[]).status, 401, "{:?}", visitor.cookie);
    }
    visitor.cookie = right;
    let home = visitor.host.clone();
    for host in [home.replacen("8080-", "8081-", 1), Visitor::enter(&server, other_id, PORT).host] {
        visitor.host = host;
        assert_eq!(visitor.get("/", &[]).status, 401, "{}", visitor.host);
    }
    visitor.host = home;
    assert_eq!(visitor.get("/", &[]).status, 200);
    // A page that adds a cookie of the same name locks nobody out.
    visitor.cookie = visitor.cookie.map(|cookie| format!("stead_door=evil; {cookie}"));
    assert_eq!(visitor.get("/", &[]).status, 200);
}

#[test]
fn ticket_is_single_use_and_in_no_log() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let url = link(&server, &id, PORT);
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let visitor = Visitor { server: &server, host: host.to_owned(), cookie: None };
    assert_eq!(visitor.get(&format!("/{path}"), &[]).status, 303);
    let again = visitor.get(&format!("/{path}"), &[]);
    assert_eq!((again.status, again.header("set-cookie")), (401, None), "{again:?}");
    // A ticket for another door is worth nothing, and is used up.
    let url = link(&server, &id, 8081);
    let path = url.splitn(4, '/').nth(3).unwrap();
    assert_eq!(visitor.get(&format!("/{path}"), &[]).status, 401);
    let ticket = url.split("ticket=").nth(1).unwrap().split('&').next().unwrap();
    assert_eq!(ticket.len(), 64);
    assert!(!server.log().contains(ticket), "the log has the ticket");
    // The ticket leads to a path of the same origin only.
    let opened = server.client().post(&format!("/sessions/{id}/ports/{PORT}:open"), json!({"path": "/a/b?c=d"}));
    let url = opened.expect(200)["url"].as_str().unwrap().to_owned();
    let path = url.splitn(4, '/').nth(3).unwrap();
    assert_eq!(visitor.get(&format!("/{path}"), &[]).header("location"), Some("/a/b?c=d"));
    let evil = server.client().post(&format!("/sessions/{id}/ports/{PORT}:open"), json!({"path": "//evil.example/"}));
    assert_eq!(evil.invalid_fields(), ["path"]);
}

#[test]
fn door_cookie_never_reaches_the_app() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let visitor = Visitor::enter(&server, &id, PORT);
    let seen = visitor.seen(&["Authorization: Basic app", "X-Forwarded-For: 10.9.8.7", "X-Forwarded-Host: evil"]);
    let text = seen.to_string();
    let secret = visitor.cookie.as_ref().unwrap().split('=').nth(1).unwrap();
    assert!(!text.contains(secret) && !text.contains("stead_door"), "{text}");
    let header = |name: &str| {
        let headers = seen["headers"].as_array().unwrap();
        let found = headers.iter().find(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
        found.map(|pair| pair[1].as_str().unwrap().to_owned())
    };
    assert_eq!(header("cookie").as_deref(), Some("theme=dark"));
    assert_eq!(header("authorization").as_deref(), Some("Basic app"), "it is the program's own");
    assert_eq!(header("host"), Some(visitor.host.clone()));
    assert_eq!((header("x-forwarded-host"), header("x-forwarded-for")), (Some(visitor.host.clone()), None));
    assert_eq!(header("x-forwarded-proto").as_deref(), Some("http"));
}

#[test]
fn app_cannot_set_our_cookie_or_domain_cookies() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let visitor = Visitor::enter(&server, &id, PORT);
    let raw = visitor.get("/set", &[]);
    assert_eq!(raw.all("set-cookie"), ["app=1; Path=/", "plain=2"], "{raw:?}");
    for name in ["strict-transport-security", "service-worker-allowed", "alt-svc"] {
        assert_eq!(raw.header(name), None, "{raw:?}");
    }
    let to = format!("http%3A%2F%2Flocalhost%3A{PORT}%2Fnext");
    let moved = visitor.get(&format!("/redirect?to={to}"), &[]);
    let here = format!("http://{}/next", visitor.host);
    assert_eq!((moved.status, moved.header("location")), (302, Some(here.as_str())), "{moved:?}");
    // At the door for programs an answer sets no cookie at all: it would be the API's.
    let program = server.client().get(&format!("/sessions/{id}/ports/{PORT}/set"));
    assert_eq!((program.status, program.header("set-cookie")), (200, None));
}

#[test]
fn cross_site_websocket_is_refused() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let visitor = Visitor::enter(&server, &id, PORT);
    let handshake = |origin: Option<String>| {
        let origin = origin.map(|origin| format!("Origin: {origin}"));
        let mut headers = vec!["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"];
        headers.push("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==");
        headers.extend(origin.as_deref());
        visitor.get("/socket", &headers)
    };
    let other = visitor.host.replacen("8080-", "8081-", 1);
    for foreign in [format!("http://{other}"), format!("http://{}", authority(&server)), "null".to_owned()] {
        assert_eq!(handshake(Some(foreign.clone())).status, 403, "{foreign}");
    }
    for origin in [None, Some(format!("http://{}", visitor.host))] {
        let mut raw = handshake(origin.clone());
        assert_eq!((raw.status, raw.header("upgrade")), (101, Some("websocket")), "{origin:?} {raw:?}");
        // A masked text frame, and its echo.
        raw.stream.get_mut().write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).unwrap();
        let mut echo = [0; 9];
        raw.stream.read_exact(&mut echo).unwrap();
        assert_eq!(&echo[2..], b"echo hi");
    }
}

#[test]
fn requests_of_other_origins_are_refused() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let visitor = Visitor::enter(&server, &id, PORT);
    let own = format!("Origin: http://{}", visitor.host);
    assert_eq!(visitor.ask("POST", "/echo", &[&own], "x").status, 200);
    for header in
        ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"]
    {
        assert_eq!(visitor.ask("POST", "/echo", &[header], "x").status, 403, "{header}");
    }
    let link = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"];
    assert_eq!(visitor.get("/", &link).status, 200, "a link leads to the page");
}

#[test]
fn navigation_to_the_path_door_is_refused() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let path = format!("/sessions/{id}/ports/{PORT}/");
    for header in [
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "iframe"),
        ("sec-fetch-dest", "image"),
        ("cookie", "a=1"),
        ("service-worker", "script"),
    ] {
        let refused = server.client().send("GET", &path, &[header], None);
        refused.problem(403, "forbidden");
    }
    assert_eq!(server.client().send("GET", &path, &[("sec-fetch-mode", "cors")], None).status, 200);
}

#[test]
fn host_header_tricks() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let mut visitor = Visitor::enter(&server, &id, PORT);
    let right = visitor.host.clone();
    let listening = right.rsplit_once(':').unwrap().1.to_owned();
    visitor.host = right.to_uppercase();
    assert_eq!(visitor.get("/", &[]).status, 200, "a host is the same in capitals");
    let label = right.split('.').next().unwrap();
    let session = label.split_once('-').unwrap().1;
    for host in [
        format!("{label}.localhost.evil:{listening}"),
        format!("{label}.localhost.:{listening}"),
        format!("{label}.localhost"),
        format!("{label}.localhost:1"),
        format!("0-{session}.localhost:{listening}"),
        format!("65536-{session}.localhost:{listening}"),
        format!("+8080-{session}.localhost:{listening}"),
        format!("08080-{session}.localhost:{listening}"),
        format!("8080-{}.localhost:{listening}", id),
        format!("x.{right}"),
        format!("a.localhost:{listening}"),
    ] {
        visitor.host = host;
        let raw = visitor.get("/", &[]);
        assert_eq!((raw.status, raw.body.contains("From the box")), (403, false), "{} {raw:?}", visitor.host);
    }
    let cookie = format!("Cookie: {}", visitor.cookie.as_ref().unwrap());
    let line = |name: &str| format!("Host: {name}");
    for lines in [
        vec!["GET / HTTP/1.1".to_owned(), line(&right), line(&authority(&server)), cookie.clone()],
        vec!["GET / HTTP/1.1".to_owned(), line(&right), line(&right), cookie.clone()],
        vec![format!("GET http://{right}/ HTTP/1.1"), line(&authority(&server)), cookie.clone()],
        vec![format!("GET http://{}/ HTTP/1.1", authority(&server)), line(&right), cookie.clone()],
    ] {
        let raw = send(&server, &lines, "");
        assert!([400, 403].contains(&raw.status), "{lines:?} {raw:?}");
    }
}

#[test]
fn a_door_ends_with_its_token_and_its_session() {
    let server = Files::Disk.server();
    let (_, id) = with_app(&server, Files::Disk);
    let made = server.client().post("/api/v1/tokens", json!({"name": "guest", "role": "developer"}));
    let made = made.expect(201);
    let guest = server.client().with_token(made["token"].as_str().unwrap());
    let opened = guest.post(&format!("/sessions/{id}/ports/{PORT}:open"), json!({})).expect(200);
    let url = opened["url"].as_str().unwrap();
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut visitor = Visitor { server: &server, host: host.to_owned(), cookie: None };
    let entered = visitor.get(&format!("/{path}"), &[]);
    visitor.cookie = entered.header("set-cookie").unwrap().split(';').next().map(str::to_owned);
    assert_eq!(visitor.get("/", &[]).status, 200);
    server.client().delete(&format!("/api/v1/tokens/{}", made["id"].as_str().unwrap())).expect(204);
    let after = visitor.get("/", &[]);
    assert_eq!((after.status, after.body.contains("From the box")), (401, false), "{after:?}");
    // An ended session makes the browser forget its pages.
    let visitor = Visitor::enter(&server, &id, PORT);
    server.client().delete(&format!("/sessions/{id}")).expect(204);
    let gone = visitor.get("/", &[]);
    assert_eq!(gone.status, 410, "{gone:?}");
    assert_eq!(gone.header("clear-site-data"), Some("\"cookies\", \"storage\", \"cache\""));
}
