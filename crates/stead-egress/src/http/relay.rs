//! Reads requests of a box and sends each anew to the target.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use stead_core::network::{HostName, RefusalCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::head::{self, Expected};
use super::inject::{check_bound, inject};
use super::placeholders::Finder;
use super::scrub::Scrubber;
use super::streamed::{BodyError, Filter, Filtered};
use super::{RequestJudge, Stream, Target, Upstream, UsableSecret, tls};

/// The header of an answer that the server gives itself.
const REFUSED: HeaderName = HeaderName::from_static("x-stead-refused");
const COPY_BYTES: usize = 16 * 1024;

/// Bounds of one connection.
#[derive(Debug, Clone, Copy)]
pub struct RelayLimits {
    /// Bytes of a request head or an answer head.
    pub head_bytes: usize,
    /// Time for a request head, from its first byte or from the last answer.
    pub request_head: Duration,
    /// Time to connect, with the TLS handshake.
    pub connect: Duration,
    /// Time from the request to the head of the answer, with all informational answers.
    pub answer_head: Duration,
}

impl Default for RelayLimits {
    fn default() -> Self {
        Self {
            head_bytes: 64 * 1024,
            request_head: Duration::from_secs(120),
            connect: Duration::from_secs(10),
            answer_head: Duration::from_secs(600),
        }
    }
}

type RequestBody = Filtered<Incoming, WatchedFinder>;
type AnswerBody = UnsyncBoxBody<Bytes, BodyError>;

struct Relay {
    expected: Expected,
    target: Target,
    judge: Arc<dyn RequestJudge>,
    upstream: Arc<dyn Upstream>,
    limits: RelayLimits,
    /// The connection to the target, kept for the next request.
    kept: Mutex<Option<client::SendRequest<RequestBody>>>,
    /// True after the first request.
    requested: AtomicBool,
    /// Connections to the target and switched connections. They end with this value.
    tasks: std::sync::Mutex<JoinSet<()>>,
}

/// The content of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relayed {
    Nothing,
    /// Requests, or bytes that are none and were refused.
    Requests,
}

/// Serves the requests of one connection of a box until it ends. Dropping the future ends
/// everything that belongs to it. `host` and `port` are what the
/// requests must name.
pub async fn relay(
    stream: impl Stream,
    (host, port): (HostName, u16),
    target: Target,
    judge: Arc<dyn RequestJudge>,
    upstream: Arc<dyn Upstream>,
    limits: RelayLimits,
) -> Relayed {
    let expected = Expected { host, port };
    let (kept, tasks) = (Mutex::default(), std::sync::Mutex::default());
    let requested = AtomicBool::new(false);
    let relay = Arc::new(Relay { expected, target, judge, upstream, limits, kept, requested, tasks });
    let answering = Arc::clone(&relay);
    let service = service_fn(move |request| {
        let relay = Arc::clone(&answering);
        async move { Ok::<_, Infallible>(relay.answer(request).await) }
    });
    let mut builder = server::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.request_head).max_buf_size(limits.head_bytes);
    let served = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of a box with requests ended");
        if error.is_parse() {
            relay.requested.store(true, Relaxed);
            relay.judge.refused(RefusalCode::NotHttp).await;
        }
    }
    // Switched connections go on after the last request.
    drop(relay.kept.lock().await.take());
    let mut tasks = std::mem::take(&mut *relay.tasks.lock().unwrap_or_else(PoisonError::into_inner));
    while tasks.join_next().await.is_some() {}
    if relay.requested.load(Relaxed) { Relayed::Requests } else { Relayed::Nothing }
}

/// Remembers that it found a placeholder, because hyper reports every error of a body alike.
struct WatchedFinder {
    finder: Finder,
    found: Arc<AtomicBool>,
}

impl Filter for WatchedFinder {
    fn take(&mut self, piece: &[u8]) -> Option<Bytes> {
        let passed = self.finder.take(piece);
        self.found.fetch_or(passed.is_none(), Relaxed);
        passed
    }

    fn rest(&mut self) -> Bytes {
        self.finder.rest()
    }

    fn holds(&self) -> bool {
        self.finder.holds()
    }
}

/// A request that may go to the target.
struct Admitted {
    request: Request<RequestBody>,
    scrubber: Scrubber,
    has_secrets: bool,
    /// The client's side of a switch to another protocol.
    upgrade: Option<OnUpgrade>,
    then: Then,
    misplaced: Arc<AtomicBool>,
}

/// The use of the target's connection after a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Keep,
    /// The request has a body. A target that answers without reading the body would read it as the
    /// next request, which was not judged.
    Close,
}

impl Relay {
    async fn answer(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        self.requested.store(true, Relaxed);
        let answered = match self.admit(request).await {
            Ok(admitted) => self.forward(admitted).await,
            Err(code) => Err(code),
        };
        match answered {
            Ok(answer) => answer,
            Err(code) => {
                self.judge.refused(code).await;
                refusal(code)
            }
        }
    }

    async fn admit(&self, mut request: Request<Incoming>) -> Result<Admitted, RefusalCode> {
        let target = head::check(&self.expected, request.method(), request.uri(), request.headers())?;
        let allowance = self.judge.judge(request.method().as_str(), &target)?;
        let mut secrets: Vec<UsableSecret> = Vec::new();
        for name in &allowance.secrets {
            let secret = self.judge.secret(name).await?;
            check_bound(&secret, &self.target)?;
            secrets.push(secret);
        }
        let switches = allowance.upgrade && head::wants_upgrade(request.headers());
        let upgrade = switches.then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let then = if body.is_end_stream() { Then::Keep } else { Then::Close };
        if then == Then::Close && matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(RefusalCode::NotHttp);
        }
        let mut headers = parts.headers;
        let protocol = headers.get(UPGRADE).cloned();
        head::without_connection_headers(&mut headers);
        inject(&mut headers, &target, &secrets)?;
        for secret in &secrets {
            self.judge.using(secret).await?;
        }
        let authority = HeaderValue::from_str(&self.target.authority()).map_err(|_| RefusalCode::InvalidName)?;
        headers.insert(HOST, authority);
        if let (true, Some(protocol)) = (switches, protocol) {
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(UPGRADE, protocol);
        } else if then == Then::Close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let misplaced = Arc::new(AtomicBool::new(false));
        let filter = WatchedFinder { finder: Finder::new(), found: Arc::clone(&misplaced) };
        let built = Request::builder().method(parts.method).uri(target).body(Filtered::new(body, filter));
        let mut request = built.map_err(|_| RefusalCode::PathUnclear)?;
        *request.headers_mut() = headers;
        let scrubber = Scrubber::new(secrets.iter().map(|secret| secret.value.expose()));
        Ok(Admitted { request, scrubber, has_secrets: !secrets.is_empty(), upgrade, then, misplaced })
    }

    async fn forward(&self, admitted: Admitted) -> Result<Response<AnswerBody>, RefusalCode> {
        let Admitted { request, scrubber, has_secrets, upgrade, then, misplaced } = admitted;
        let mut sender = self.sender().await?;
        let sent = tokio::time::timeout(self.limits.answer_head, sender.send_request(request)).await;
        let mut answer = match sent {
            _ if misplaced.load(Relaxed) => return Err(RefusalCode::SecretMisplaced),
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Err(RefusalCode::Unreachable),
            Err(_) => return Err(RefusalCode::TooSlow),
        };
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(client_side) = upgrade else { return Err(RefusalCode::NotHttp) };
            let server_side = hyper::upgrade::on(&mut answer);
            self.spawn(switched(client_side, server_side, scrubber.clone(), Arc::clone(&self.judge)));
            return Ok(switching(&answer, &scrubber));
        }
        if then == Then::Keep {
            *self.kept.lock().await = Some(sender);
        }
        let (parts, body) = answer.into_parts();
        let mut headers = parts.headers;
        head::without_connection_headers(&mut headers);
        let encoded = headers.get_all(CONTENT_ENCODING).iter().any(|encoding| encoding != "identity");
        if has_secrets && encoded {
            // The value could not be found in it.
            return Err(RefusalCode::NotHttp);
        }
        scrubber.clean_headers(&mut headers);
        let mut answer = Response::new(Filtered::new(body, scrubber).boxed_unsync());
        *answer.status_mut() = parts.status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Returns the kept connection if the target has not closed it, else a new one.
    async fn sender(&self) -> Result<client::SendRequest<RequestBody>, RefusalCode> {
        if let Some(mut kept) = self.kept.lock().await.take()
            && kept.ready().await.is_ok()
        {
            return Ok(kept);
        }
        let connecting = tokio::time::timeout(self.limits.connect, self.connect());
        connecting.await.map_err(|_| RefusalCode::Unreachable)?
    }

    async fn connect(&self) -> Result<client::SendRequest<RequestBody>, RefusalCode> {
        let stream = self.upstream.connect().await?;
        let stream: Box<dyn Stream> = match &self.target.tls {
            Some(config) => Box::new(tls::connect(config, &self.target, stream).await?),
            None => stream,
        };
        let mut builder = client::Builder::new();
        builder.max_buf_size(self.limits.head_bytes);
        let connected = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = connected.map_err(|_| RefusalCode::Unreachable)?;
        // It ends with the sender.
        self.spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to the target of a service ended");
            }
        });
        Ok(sender)
    }
}

/// The answer to the client when both sides switch to another protocol.
fn switching(answer: &Response<Incoming>, scrubber: &Scrubber) -> Response<AnswerBody> {
    let protocol = answer.headers().get(UPGRADE).cloned();
    let mut headers: HeaderMap = answer.headers().clone();
    head::without_connection_headers(&mut headers);
    scrubber.clean_headers(&mut headers);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.extend(protocol.map(|protocol| (UPGRADE, protocol)));
    let mut switching = Response::new(empty());
    *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *switching.headers_mut() = headers;
    switching
}

/// Copies bytes after a switch, with the same filters as bodies.
async fn switched(client_side: OnUpgrade, server_side: OnUpgrade, scrubber: Scrubber, judge: Arc<dyn RequestJudge>) {
    let (Ok(client_side), Ok(server_side)) = tokio::join!(client_side, server_side) else { return };
    let (mut from_client, mut to_client) = tokio::io::split(TokioIo::new(client_side));
    let (mut from_server, mut to_server) = tokio::io::split(TokioIo::new(server_side));
    let misplaced = Arc::new(AtomicBool::new(false));
    let finder = WatchedFinder { finder: Finder::new(), found: Arc::clone(&misplaced) };
    // When one direction fails, the other one ends with it.
    let _ = tokio::try_join!(
        pump(&mut from_client, &mut to_server, finder),
        pump(&mut from_server, &mut to_client, scrubber),
    );
    if misplaced.load(Relaxed) {
        judge.refused(RefusalCode::SecretMisplaced).await;
    }
}

async fn pump(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    mut filter: impl Filter,
) -> std::io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            to.write_all(&filter.rest()).await?;
            return to.shutdown().await;
        }
        let passed = filter.take(&buffer[..count]).ok_or_else(|| std::io::Error::other("a placeholder was refused"))?;
        to.write_all(&passed).await?;
        to.flush().await?;
    }
}

fn empty() -> AnswerBody {
    Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync()
}

/// The answer to a request that goes nowhere.
fn refusal(code: RefusalCode) -> Response<AnswerBody> {
    let status = match code {
        RefusalCode::Unreachable | RefusalCode::NotFound | RefusalCode::Certificate => StatusCode::BAD_GATEWAY,
        RefusalCode::TooSlow => StatusCode::GATEWAY_TIMEOUT,
        RefusalCode::NotHttp => StatusCode::BAD_REQUEST,
        RefusalCode::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::FORBIDDEN,
    };
    let text = format!("{{\"error\": {{\"code\": \"{code}\", \"message\": \"{}\"}}}}\n", sentence(code));
    let mut answer = Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(REFUSED, HeaderValue::from_static(code.as_str()));
    answer
}

fn sentence(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::RequestNotAllowed => "the network policy does not allow this method and path",
        RefusalCode::PathUnclear => "the path has more than one reading",
        RefusalCode::NameMismatch => "the Host header must be the name that was looked up",
        RefusalCode::SecretMisplaced => "a placeholder of a secret is where it must not be",
        RefusalCode::SecretUnavailable => "the secret that this request needs cannot be used",
        RefusalCode::Certificate => "the certificate of the host is not valid",
        RefusalCode::Unreachable => "the host cannot be reached",
        RefusalCode::TooSlow => "the host did not answer in time",
        RefusalCode::TooManyRequests => "the session sends more requests in a minute than its limit",
        RefusalCode::NotHttp => {
            "the message is not valid HTTP, has a body that its method has no use for, or an encoding that was not asked for"
        }
        _ => "the network policy refuses this request",
    }
}
