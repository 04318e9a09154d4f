//! Services: real clients on loopback, TLS servers with a root of the test.

use std::convert::Infallible;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use stead_core::network::{RefusalCode, RequestAllowance};
use stead_core::secret::{PlaceholderKey, SecretValue};
use stead_core::{Name, SessionId};
use stead_egress::http::{RelayLimits, RequestJudge, Stream, Target, Upstream, UsableSecret, client_config, relay};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const CANARY: &str = "canary-7f3a9c51-value";
const HOST: &str = "api.svc.stead";

/// A certificate authority of one test.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        Self { issuer: Issuer::new(params, key), root }
    }

    fn acceptor(&self, name: &str, last_year: i32) -> TlsAcceptor {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = config.with_no_client_auth().with_single_cert(vec![leaf], key).unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A server that answers with what it received, and remembers it.
#[derive(Clone, Default)]
struct Mirror {
    seen: Arc<Mutex<Vec<String>>>,
}

impl Mirror {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let text =
            format!("{} {}\n{:?}\n{}", parts.method, parts.uri, plain(&parts.headers), String::from_utf8_lossy(&body));
        self.seen.lock().unwrap().push(text.clone());
        let mut answer = Response::new(Full::new(Bytes::from(text)));
        if let Some(sent) = parts.headers.get("authorization") {
            answer.headers_mut().insert("x-echo", sent.clone());
        }
        if parts.uri.path() == "/redirect" {
            *answer.status_mut() = StatusCode::FOUND;
            answer.headers_mut().insert("location", "https://evil.example/".parse().unwrap());
        }
        Ok(answer)
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn plain(headers: &http::HeaderMap) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
}

async fn mirror(acceptor: Option<TlsAcceptor>) -> (Mirror, u16) {
    let mirror = Mirror::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = mirror.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (served, acceptor) = (served.clone(), acceptor.clone());
            tokio::spawn(async move {
                let stream: Box<dyn Stream> = match acceptor {
                    Some(acceptor) => match acceptor.accept(stream).await {
                        Ok(stream) => Box::new(stream),
                        Err(_) => return,
                    },
                    None => Box::new(stream),
                };
                let service = service_fn(move |request| served.clone().answer(request));
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (mirror, port)
}

/// Allows what the test says, and has one secret.
struct Judge {
    secret: Mutex<Option<UsableSecret>>,
    upgrade: bool,
    refused: Mutex<Vec<RefusalCode>>,
}

impl Judge {
    fn new(binding: Option<serde_json::Value>) -> Arc<Self> {
        let secret = binding.map(|binding| usable(binding, CANARY));
        Arc::new(Self { secret: Mutex::new(secret), upgrade: false, refused: Mutex::default() })
    }

    fn refused(&self) -> Vec<RefusalCode> {
        self.refused.lock().unwrap().clone()
    }
}

fn usable(binding: serde_json::Value, value: &str) -> UsableSecret {
    UsableSecret {
        name: "api".parse().unwrap(),
        project: None,
        version: 1,
        binding: serde_json::from_value(binding).unwrap(),
        value: SecretValue::parse(value.to_owned()).unwrap(),
        placeholder: PlaceholderKey::derive(b"s").placeholder(SessionId::from_bits(1), &"api".parse().unwrap()),
    }
}

#[async_trait]
impl RequestJudge for Judge {
    fn judge(&self, method: &str, target: &str) -> Result<RequestAllowance, RefusalCode> {
        if method == "DELETE" || target.starts_with("/admin") {
            return Err(RefusalCode::RequestNotAllowed);
        }
        let secrets = if self.secret.lock().unwrap().is_some() { vec!["api".parse().unwrap()] } else { Vec::new() };
        Ok(RequestAllowance { secrets, upgrade: self.upgrade })
    }

    async fn secret(&self, _: &Name) -> Result<UsableSecret, RefusalCode> {
        self.secret.lock().unwrap().clone().ok_or(RefusalCode::SecretUnavailable)
    }

    async fn using(&self, _: &UsableSecret) -> Result<(), RefusalCode> {
        Ok(())
    }

    async fn refused(&self, code: RefusalCode) {
        self.refused.lock().unwrap().push(code);
    }
}

struct To(u16);

#[async_trait]
impl Upstream for To {
    async fn connect(&self) -> Result<Box<dyn Stream>, RefusalCode> {
        let stream = TcpStream::connect(("127.0.0.1", self.0)).await.map_err(|_| RefusalCode::Unreachable)?;
        Ok(Box::new(stream))
    }
}

/// Serves a service on a port of loopback, as a captured connection would be served.
async fn service(judge: &Arc<Judge>, target: Target, port: u16, limits: RelayLimits) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    let judge = judge.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let host = (HOST.parse().unwrap(), 80);
            tokio::spawn(relay(stream, host, target.clone(), judge.clone(), Arc::new(To(port)), limits));
        }
    });
    own
}

/// A service with TLS to a mirror under the name `api.example`.
async fn tls_service(judge: &Arc<Judge>, name_in_certificate: &str, last_year: i32) -> (Mirror, u16) {
    let authority = Authority::new();
    let (mirror, port) = mirror(Some(authority.acceptor(name_in_certificate, last_year))).await;
    let tls = Some(client_config(vec![authority.root.clone()]).unwrap());
    let target = Target { host: "api.example".to_owned(), port: 443, tls };
    let own = service(judge, target, port, RelayLimits::default()).await;
    (mirror, own)
}

/// Runs real curl and returns its status and its output with headers.
async fn curl(port: u16, args: &[&str], path: &str) -> (u16, String) {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let url = format!("http://{HOST}{path}");
    let to = format!("{HOST}:80:127.0.0.1:{port}");
    let output = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--show-error",
            "--include",
            "--max-time",
            "60",
            "--noproxy",
            "*",
            "--connect-to",
            &to,
        ]);
        command.args(args).arg(url).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap()
    });
    let output = output.await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&output.stderr))), text)
}

fn bound() -> serde_json::Value {
    serde_json::json!({"hosts": ["api.example"]})
}

#[tokio::test]
async fn a_real_client_uses_a_key_that_it_never_sees() {
    let judge = Judge::new(Some(bound()));
    let (mirror, port) = tls_service(&judge, "api.example", 2100).await;
    let (status, text) = curl(port, &["-H", "Authorization: Bearer mine", "-d", "hello"], "/v1/messages?a=b").await;
    assert_eq!(status, 200, "{text}");
    let seen = mirror.seen().join("\n");
    assert!(seen.contains("POST /v1/messages?a=b") && seen.contains(&format!("Bearer {CANARY}")), "{seen}");
    assert!(
        seen.contains("(\"host\", \"api.example\")") && !seen.contains("mine") && seen.ends_with("hello"),
        "{seen}"
    );
    // The mirror repeats the value in a header and in the body.
    assert!(!text.contains(CANARY) && text.contains("x-echo: Bearer ***"), "{text}");
    assert_eq!(judge.refused(), []);
}

#[tokio::test]
async fn echoed_secret_is_scrubbed_also_if_the_client_asks_for_gzip() {
    let judge = Judge::new(Some(bound()));
    let (mirror, port) = tls_service(&judge, "api.example", 2100).await;
    let (_, text) = curl(port, &["--compressed", "-H", "Accept-Encoding: gzip, br"], "/").await;
    assert!(mirror.seen()[0].contains("(\"accept-encoding\", \"identity\")"), "{:?}", mirror.seen());
    assert!(!text.contains(CANARY), "{text}");
}

/// A server that answers every request without reading its body, on connections that it keeps.
async fn hasty() -> (Arc<Mutex<Vec<String>>>, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let record = record.clone();
            tokio::spawn(async move {
                let mut held = Vec::new();
                while stream.read_buf(&mut held).await.is_ok_and(|count| count > 0) {
                    while let Some(end) = held.windows(4).position(|window| window == b"\r\n\r\n") {
                        let head = String::from_utf8_lossy(&held[..end]).into_owned();
                        held.drain(..end + 4);
                        let close = head.to_lowercase().contains("connection: close");
                        record.lock().unwrap().push(head);
                        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
                        if close {
                            return;
                        }
                    }
                }
            });
        }
    });
    (seen, port)
}

#[tokio::test]
async fn a_body_that_the_target_does_not_read_is_no_request() {
    let judge = Judge::new(Some(serde_json::json!({"hosts": ["127.0.0.1"], "over_http": true})));
    let (seen, port) = hasty().await;
    let target = Target { host: "127.0.0.1".to_owned(), port, tls: None };
    let own = service(&judge, target, port, RelayLimits::default()).await;
    let hidden = "DELETE /admin/users/1 HTTP/1.1\r\nX-Swallow: ";
    for method in ["GET", "POST"] {
        let mut stream = TcpStream::connect(("127.0.0.1", own)).await.unwrap();
        let length = hidden.len();
        let first = format!("{method} /early HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n\r\n{hidden}");
        let second = format!("GET /next HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
        stream.write_all(format!("{first}{second}").as_bytes()).await.unwrap();
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers).await;
    }
    let seen = seen.lock().unwrap().clone();
    assert!(seen.iter().all(|head| !head.starts_with("DELETE")), "{seen:?}");
    assert!(seen.iter().any(|head| head.starts_with("POST /early")), "{seen:?}");
    assert_eq!(judge.refused(), [RefusalCode::NotHttp], "a GET has no body");
}

#[tokio::test]
async fn upstream_certificate_wrong_name_expired_self_signed() {
    for (name, year) in [("other.example", 2100), ("api.example", 2020)] {
        let judge = Judge::new(Some(bound()));
        let (mirror, port) = tls_service(&judge, name, year).await;
        assert_eq!(curl(port, &[], "/").await.0, 502, "{name} {year}");
        assert_eq!((judge.refused(), mirror.seen().len()), (vec![RefusalCode::Certificate], 0), "{name} {year}");
    }
    let judge = Judge::new(Some(bound()));
    let (mirror, port) = mirror(Some(Authority::new().acceptor("api.example", 2100))).await;
    let tls = Some(client_config(vec![Authority::new().root]).unwrap());
    let target = Target { host: "api.example".to_owned(), port: 443, tls };
    let own = service(&judge, target, port, RelayLimits::default()).await;
    assert_eq!(curl(own, &[], "/").await.0, 502);
    assert_eq!((judge.refused(), mirror.seen().len()), (vec![RefusalCode::Certificate], 0));
}

#[tokio::test]
async fn secret_only_to_its_host_over_verified_tls() {
    let (mirror, port) = mirror(None).await;
    let plain = Target { host: "127.0.0.1".to_owned(), port, tls: None };
    for (binding, status) in [
        (serde_json::json!({"hosts": ["127.0.0.1"]}), 403),
        (serde_json::json!({"hosts": ["evil.example"], "over_http": true}), 403),
        (serde_json::json!({"hosts": ["127.0.0.1:1"], "over_http": true}), 403),
        (serde_json::json!({"hosts": ["127.0.0.1"], "over_http": true}), 200),
    ] {
        let judge = Judge::new(Some(binding.clone()));
        let own = service(&judge, plain.clone(), port, RelayLimits::default()).await;
        assert_eq!(curl(own, &[], "/").await.0, status, "{binding}");
    }
    let seen = mirror.seen();
    assert_eq!((seen.len(), seen[0].contains(CANARY)), (1, true), "{seen:?}");
}

#[tokio::test]
async fn placeholder_elsewhere_is_refused_and_reported() {
    let judge = Judge::new(Some(bound()));
    let (mirror, port) = tls_service(&judge, "api.example", 2100).await;
    let placeholder = usable(bound(), CANARY).placeholder.to_string();
    let (status, _) = curl(port, &["-H", &format!("Authorization: token {placeholder}")], "/").await;
    assert_eq!(status, 200);
    assert!(mirror.seen()[0].contains(&format!("token {CANARY}")), "{:?}", mirror.seen());
    let body = format!("{}{placeholder}", "x".repeat(20_000));
    for (args, path) in [
        (vec!["-H".to_owned(), format!("X-Key: {placeholder}")], "/".to_owned()),
        (vec![], format!("/?key={placeholder}")),
        (vec!["-d".to_owned(), body], "/".to_owned()),
        (
            vec!["-H".to_owned(), "Transfer-Encoding: chunked".to_owned(), "-d".to_owned(), placeholder.clone()],
            "/".to_owned(),
        ),
    ] {
        let before = judge.refused().len();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        assert_eq!(curl(port, &args, &path).await.0, 403, "{path}");
        assert_eq!(judge.refused()[before..], [RefusalCode::SecretMisplaced], "{path}");
    }
    assert!(mirror.seen().iter().all(|seen| !seen.contains(&placeholder)), "{:?}", mirror.seen());
}

#[tokio::test]
async fn rotated_secret_is_used_by_the_next_request_and_the_old_one_never() {
    let judge = Judge::new(Some(bound()));
    let (mirror, port) = tls_service(&judge, "api.example", 2100).await;
    curl(port, &[], "/one").await;
    *judge.secret.lock().unwrap() = Some(usable(bound(), "rotated-canary-2"));
    curl(port, &[], "/two").await;
    let seen = mirror.seen();
    assert!(seen[0].contains(CANARY) && seen[1].contains("rotated-canary-2") && !seen[1].contains(CANARY), "{seen:?}");
}

/// Sends raw bytes and returns the head of the answer, or nothing if the connection is closed.
async fn raw(port: u16, bytes: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let _ = stream.write_all(bytes.as_bytes()).await;
    let mut answer = Vec::new();
    let head = async {
        while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
            match stream.read_buf(&mut answer).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), head).await.expect("the relay must answer or close");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn hostile_requests_do_not_reach_the_target() {
    let judge = Judge::new(Some(bound()));
    let (mirror, port) = tls_service(&judge, "api.example", 2100).await;
    for request in [
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: api.svc.stead\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: api.svc.stead\r\nHost: evil.example\r\n\r\n".to_owned(),
        "GET http://evil.example/ HTTP/1.1\r\nHost: api.svc.stead\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "DELETE / HTTP/1.1\r\nHost: api.svc.stead\r\n\r\n".to_owned(),
        "GET /admin HTTP/1.1\r\nHost: api.svc.stead\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: api.svc.stead\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd".to_owned(),
        "GET / HTTP/1.1\r\nHost: api.svc.stead\r\nX: a\r\n b\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nHost: api.svc.stead\r\nX: {}\r\n\r\n", "x".repeat(200_000)),
    ] {
        let answer = raw(port, &request).await;
        assert!(!answer.starts_with("HTTP/1.1 200"), "{}: {answer}", &request[..60.min(request.len())]);
    }
    assert_eq!(mirror.seen(), Vec::<String>::new());
    // Control: a plain request passes, with an override that is not passed on.
    let fine = "GET / HTTP/1.1\r\nHost: api.svc.stead\r\nX-HTTP-Method-Override: DELETE\r\nConnection: close\r\n\r\n";
    assert!(raw(port, fine).await.starts_with("HTTP/1.1 200"));
    assert!(!mirror.seen()[0].contains("override"), "{:?}", mirror.seen());
    // With two lengths the chunks count, and the message is written anew with one of them.
    let both = "POST /both HTTP/1.1\r\nHost: api.svc.stead\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    raw(port, both).await;
    let later = mirror.seen().split_off(1);
    assert!(later.iter().all(|seen| seen.starts_with("POST /both") && !seen.contains("content-length")), "{later:?}");
}

#[tokio::test]
async fn upgrade_without_permission_stays_http_and_redirects_are_the_clients() {
    let judge = Judge::new(None);
    let (mirror, port) = tls_service(&judge, "api.example", 2100).await;
    let (status, _) = curl(port, &["-H", "Connection: Upgrade", "-H", "Upgrade: websocket"], "/").await;
    assert_eq!(status, 200);
    assert!(!mirror.seen()[0].contains("upgrade"), "{:?}", mirror.seen());
    let (status, text) = curl(port, &[], "/redirect").await;
    assert_eq!((status, text.contains("location: https://evil.example/")), (302, true), "{text}");
}

/// A target that sends these bytes again and again.
async fn hostile_target(first: &'static str, again: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(first.as_bytes()).await;
                while stream.write_all(again.as_bytes()).await.is_ok() {
                    tokio::task::yield_now().await;
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn response_splitting_1xx_flood_endless_head_from_upstream() {
    let limits = RelayLimits { answer_head: Duration::from_secs(2), ..RelayLimits::default() };
    for (first, again) in [
        ("HTTP/1.1 200 OK\r\n", "x-more: more\r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "x"),
        ("no http at all", "x"),
    ] {
        let judge = Judge::new(None);
        let port = hostile_target(first, again).await;
        let own = service(&judge, Target { host: "127.0.0.1".to_owned(), port, tls: None }, port, limits).await;
        let (status, text) = curl(own, &[], "/").await;
        assert!(matches!(status, 400 | 502 | 504), "{first:?} {again:?}: {text}");
        assert_eq!(judge.refused().len(), 1, "{first:?} {again:?}");
    }
}
