//! The sign-in of the web page: links that work once, a cookie that acts as its token, and no use
//! of the cookie by other pages.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Answer;
use crate::harness::{TOKEN, TestServer};

const PAGE: (&str, &str) = ("X-Stead-Page", "1");

async fn link(server: &TestServer, token: &str) -> Answer {
    server.ask("POST", "/api/v1/sign-in-links").token(Some(token)).send().await
}

async fn code(server: &TestServer, token: &str) -> String {
    let answer = link(server, token).await;
    assert_eq!((answer.status, answer.header("cache-control")), (201, Some("no-store")), "{answer:?}");
    let path = answer.json()["path"].as_str().unwrap().to_owned();
    path.strip_prefix("/#/sign-in/").unwrap().to_owned()
}

async fn sign_in(server: &TestServer, code: &str) -> Answer {
    let request = server.ask("POST", "/sign-in").token(None).header(PAGE.0, PAGE.1);
    request.json(json!({"code": code})).send().await
}

/// Signs in with a new link and returns the `Cookie` header.
async fn cookie(server: &TestServer, token: &str) -> String {
    let answer = sign_in(server, &code(server, token).await).await;
    assert_eq!(answer.status, 204, "{answer:?}");
    let set = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("Domain") && !set.contains("Secure"), "{set}");
    set.split(';').next().unwrap().to_owned()
}

async fn whoami(server: &TestServer, cookie: &str) -> Answer {
    server.ask("GET", "/api/v1/whoami").token(None).header("Cookie", cookie).header(PAGE.0, PAGE.1).send().await
}

async fn made(server: &TestServer, role: &str) -> (String, String) {
    let body = json!({"name": format!("page-{role}"), "role": role});
    let made = server.ask("POST", "/api/v1/tokens").json(body).send().await.json();
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_link_signs_in_once_and_as_its_token() {
    let server = TestServer::start().await;
    let code = code(&server, TOKEN).await;
    assert_eq!(sign_in(&server, "another").await.status, 401);
    assert_eq!(sign_in(&server, &code).await.status, 204);
    let again = sign_in(&server, &code).await;
    assert_eq!((again.status, again.code().as_str()), (401, "unauthorized"));
    let (_, viewer) = made(&server, "viewer").await;
    let cookie = cookie(&server, &viewer).await;
    let who = whoami(&server, &cookie).await.json();
    assert_eq!((&who["role"], &who["actor"]), (&json!("viewer"), &json!("user:page-viewer")));
    assert!(who["expires_at"].is_string(), "{who}");
    let refused =
        server.ask("POST", "/api/v1/agent-types").token(None).header("Cookie", &cookie).header(PAGE.0, PAGE.1);
    assert_eq!(refused.json(json!({"id": "x"})).send().await.status, 403, "a page has the role of its token");
}

#[tokio::test]
async fn only_the_page_uses_the_cookie() {
    let server = TestServer::start().await;
    let cookie = cookie(&server, TOKEN).await;
    let ask = async |method: &str, header: (&str, &str)| {
        let request = server.ask(method, "/api/v1/platform").token(None).header("Cookie", &cookie);
        let request = if method == "PUT" { request.json(json!({})) } else { request };
        request.header(header.0, header.1).send().await.status
    };
    assert_eq!(ask("GET", PAGE).await, 200);
    assert_eq!(ask("PUT", PAGE).await, 200);
    assert_eq!(ask("GET", ("Sec-Fetch-Site", "same-origin")).await, 200, "a download is a link");
    for site in ["same-site", "cross-site", "none"] {
        assert_eq!(ask("GET", ("Sec-Fetch-Site", site)).await, 403, "{site}");
    }
    assert_eq!(ask("PUT", ("Sec-Fetch-Site", "same-origin")).await, 403, "a form of the same origin has no header");
    let foreign = server.ask("GET", "/api/v1/platform").token(None).header("Cookie", &cookie).header(PAGE.0, PAGE.1);
    assert_eq!(foreign.header("Origin", "http://evil.example").send().await.status, 403);
    // A sign-in that another page starts would put this browser into the account of an attacker.
    let body = json!({"code": code(&server, TOKEN).await});
    assert_eq!(server.ask("POST", "/sign-in").token(None).json(body).send().await.status, 403);
    // A page makes no links, so that a stolen moment does not become a new cookie.
    let more = server.ask("POST", "/api/v1/sign-in-links").token(None).header("Cookie", &cookie).header(PAGE.0, PAGE.1);
    assert_eq!(more.send().await.status, 403);
}

#[tokio::test]
async fn a_forged_or_doubled_cookie_is_no_cookie() {
    let server = TestServer::start().await;
    let good = cookie(&server, TOKEN).await;
    assert_eq!(whoami(&server, &good).await.status, 200);
    let value = good.strip_prefix("stead_page=").unwrap();
    let parts: Vec<&str> = value.split('.').collect();
    let later = format!("{:x}", i64::from_str_radix(parts[1], 16).unwrap() + 1);
    let zeros = "0".repeat(64);
    let forged = [
        format!("stead_page={}.{later}.{}.{}", parts[0], parts[2], parts[3]),
        format!("stead_page={}.{}.{}.{zeros}", parts[0], parts[1], parts[2]),
        format!("stead_page={}.{}.other.{}", parts[0], parts[1], parts[3]),
        format!("stead_page=t{zeros}.{}.{}.{}", parts[1], parts[2], parts[3]),
        format!("stead_page={value}.more"),
        "stead_page=".to_owned(),
        "stead_page=é".to_owned(),
        format!("{good}; stead_page=x"),
    ];
    for cookie in forged {
        assert_eq!(whoami(&server, &cookie).await.status, 401, "{cookie}");
    }
    // A wrong token is not replaced by a right cookie.
    let both = server.ask("GET", "/api/v1/whoami").token(Some("stead_wrong")).header("Cookie", &good);
    assert_eq!(both.header(PAGE.0, PAGE.1).send().await.status, 401);
}

#[tokio::test]
async fn a_cookie_ends_with_a_sign_out_and_with_its_token() {
    let server = TestServer::start().await;
    let first = cookie(&server, TOKEN).await;
    let out = server.ask("POST", "/sign-out").token(None).header("Cookie", &first).header(PAGE.0, PAGE.1).send().await;
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(whoami(&server, &first).await.status, 401, "a copy of the cookie");

    server.declare("t").await;
    let session = server.session("t").await;
    let (id, token) = made(&server, "viewer").await;
    let cookie = cookie(&server, &token).await;
    let path = format!("/api/v1/sessions/{}/events?after=1", session["id"].as_str().unwrap());
    let mut stream = crate::client::Connection::open(server.address).await;
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nX-Stead-Page: 1\r\n\r\n", server.address);
    stream.send(head.as_bytes()).await;
    assert_eq!(stream.head().await.unwrap().status, 200);
    assert_eq!(server.ask("DELETE", &format!("/api/v1/tokens/{id}")).send().await.status, 204);
    assert!(stream.closes_within(Duration::from_secs(30)).await, "the stream of a revoked token goes on");
    assert_eq!(whoami(&server, &cookie).await.status, 401);
}

#[tokio::test]
async fn the_token_of_a_session_makes_no_link() {
    let server = TestServer::start().await;
    server.declare("t").await;
    let session: Value = server.session("t").await;
    assert_eq!(link(&server, session["token"].as_str().unwrap()).await.status, 403);
}
