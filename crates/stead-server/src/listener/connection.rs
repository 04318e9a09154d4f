//! Serves one connection and enforces its timeouts.
//!
//! The server closes a connection in five cases: the client sends no complete request header after
//! it connects, stays idle between requests, sends a partial header, does not read the response, or
//! stays connected after shutdown began. hyper's header timeout cannot distinguish these cases. So
//! [`Watched`] records when bytes pass, and [`overdue`] compares the times with the limits.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use crate::app::App;
use crate::config::ServerConfig;
use crate::host::LocalAddress;
use crate::listener::body_drain::Tracked;
use crate::listener::connections::{Registration, Standing};
use crate::listener::door;
use crate::metrics::Open;
use crate::problem::Problem;

/// Silence after which an idle connection is closed during shutdown.
const PARTING: Duration = Duration::from_millis(250);

/// The API, and the doors for browsers. The host of a request chooses between them.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) api: Router,
    pub(crate) door: Router,
}

/// Serves one connection until it ends, exceeds a timeout, or is evicted.
pub(crate) async fn run(stream: TcpStream, services: Services, app: &App, registration: Registration) {
    let _open = Open::new("stead_connections");
    let Ok(local) = stream.local_addr() else { return };
    // Send small responses and events without delay.
    let _ = stream.set_nodelay(true);
    let (clocks, standing) = (registration.clocks.clone(), registration.standing);
    let service = {
        let (clocks, config) = (clocks.clone(), app.config.clone());
        service_fn(move |request| {
            let (service, request) = chosen(&services, &config, local.port(), request);
            answer(request, service, local, (clocks.clone(), standing))
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A second line of defence in case the loop below misses a partial request.
        .header_read_timeout(app.config.idle_timeout.max(app.config.header_timeout))
        .max_header_size(app.config.max_header_bytes)
        .max_buf_size(app.config.max_header_bytes.max(8192))
        .serve_connection(TokioIo::new(Watched { stream, clocks: clocks.clone() }), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut stopping = app.stopping.clone();
    let mut announced = false;
    loop {
        let look_again = if announced { PARTING / 5 } else { next_look(&clocks, &app.config) };
        tokio::select! {
            _ = connection.as_mut() => return,
            () = registration.evicted.cancelled() => return,
            () = tokio::time::sleep(look_again) => {
                if overdue(&clocks, &app.config) || (announced && clocks.idle_for(PARTING)) {
                    return;
                }
            }
            _ = stopping.wait_for(|stopping| *stopping), if !announced => {
                announced = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Returns the time until the connection can exceed a timeout. Thousands of idle connections must
/// not each cause a wakeup per second. A header or a stalled write that starts in the meantime is
/// noticed after one more of its own timeouts at the latest.
fn next_look(clocks: &Clocks, config: &ServerConfig) -> Duration {
    let left = |limit: Duration, since: Option<Duration>| limit.saturating_sub(since.unwrap_or_default());
    let stalled = left(config.write_timeout, clocks.since(&clocks.stalled));
    let wait = if clocks.is_answering() {
        stalled
    } else {
        match clocks.since(&clocks.heading) {
            Some(heading) => stalled.min(left(config.header_timeout, Some(heading))),
            None => stalled.min(left(config.idle_timeout, Some(clocks.silence()))).min(config.header_timeout),
        }
    };
    wait.max(Duration::from_millis(5))
}

fn overdue(clocks: &Clocks, config: &ServerConfig) -> bool {
    if clocks.since(&clocks.stalled).is_some_and(|stalled| stalled >= config.write_timeout) {
        return true;
    }
    if clocks.answering.load(Relaxed) > 0 {
        return false;
    }
    match clocks.since(&clocks.heading) {
        Some(heading) => heading >= config.header_timeout,
        None => clocks.idle_for(config.idle_timeout),
    }
}

/// Chooses the service by the host that the request names.
fn chosen(
    services: &Services,
    config: &ServerConfig,
    listening: u16,
    mut request: Request<Incoming>,
) -> (Result<Router, Problem>, Request<Incoming>) {
    let service = match door::named(config, listening, &request) {
        Ok(None) => Ok(services.api.clone()),
        Ok(Some(door)) => {
            request.extensions_mut().insert(door);
            Ok(services.door.clone())
        }
        Err(problem) => Err(problem),
    };
    (service, request)
}

async fn answer(
    mut request: Request<Incoming>,
    service: Result<Router, Problem>,
    local: std::net::SocketAddr,
    (clocks, standing): (Arc<Clocks>, Standing),
) -> Result<Response<Body>, std::convert::Infallible> {
    let in_progress = clocks.clone().begin();
    request.extensions_mut().insert(LocalAddress(local));
    request.extensions_mut().insert(clocks);
    request.extensions_mut().insert(standing);
    let (parts, body) = request.into_parts();
    let (body, unread) = Tracked::new(body);
    let mut response = match service {
        Ok(router) => router.oneshot(Request::from_parts(parts, Body::new(body))).await?,
        Err(problem) => problem.into_response(),
    };
    if unread.load(Relaxed) || standing == Standing::OpenRoutesOnly {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    // The guard lives until the end of the body, so an event stream counts as in progress for all
    // its life.
    Ok(response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &in_progress;
            frame
        }))
    }))
}

/// Timestamps of a connection, in milliseconds since its start plus one. Zero means "not set".
pub(crate) struct Clocks {
    began: Instant,
    /// Time of the last byte in either direction.
    active: AtomicU64,
    /// Start of the wait for a complete header: the start of the connection, later the first byte
    /// of each request.
    heading: AtomicU64,
    /// Time since which a write waits for the client.
    stalled: AtomicU64,
    answering: AtomicUsize,
    /// True after a request on this connection had a valid token.
    authenticated: AtomicBool,
}

impl Clocks {
    pub(crate) fn start() -> Self {
        let (active, heading, stalled) = (AtomicU64::new(1), AtomicU64::new(1), AtomicU64::new(0));
        let (answering, authenticated) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { began: Instant::now(), active, heading, stalled, answering, authenticated }
    }

    /// Records that a request had a valid token.
    pub(crate) fn authenticated(&self) {
        self.authenticated.store(true, Relaxed);
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Relaxed)
    }

    pub(crate) fn is_answering(&self) -> bool {
        self.answering.load(Relaxed) > 0
    }

    /// Returns the time since the last byte in either direction.
    pub(crate) fn silence(&self) -> Duration {
        self.since(&self.active).unwrap_or_default()
    }

    /// Marks a request as in progress. Its header is complete.
    pub(crate) fn begin(self: Arc<Self>) -> RequestInProgress {
        self.answering.fetch_add(1, Relaxed);
        self.heading.store(0, Relaxed);
        RequestInProgress(self)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    fn since(&self, clock: &AtomicU64) -> Option<Duration> {
        let moment = clock.load(Relaxed);
        (moment > 0).then(|| Duration::from_millis(self.now().saturating_sub(moment)))
    }

    fn idle_for(&self, limit: Duration) -> bool {
        self.answering.load(Relaxed) == 0 && self.since(&self.active).is_none_or(|silent| silent >= limit)
    }

    fn read_something(&self) {
        let now = self.now();
        self.active.store(now, Relaxed);
        if self.answering.load(Relaxed) == 0 && self.heading.load(Relaxed) == 0 {
            self.heading.store(now, Relaxed);
        }
    }

    fn wrote(&self, progress: bool) {
        if progress {
            self.active.store(self.now(), Relaxed);
            self.stalled.store(0, Relaxed);
        } else if self.stalled.load(Relaxed) == 0 {
            self.stalled.store(self.now(), Relaxed);
        }
    }
}

/// Guard of a request in progress, from the end of its header to the end of its response.
pub(crate) struct RequestInProgress(Arc<Clocks>);

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.active.store(self.0.now(), Relaxed);
        self.0.answering.fetch_sub(1, Relaxed);
    }
}

/// A TCP stream that updates the timestamps.
struct Watched {
    stream: TcpStream,
    clocks: Arc<Clocks>,
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            self.clocks.read_something();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.clocks.wrote(written.is_ready());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.clocks.wrote(written.is_ready());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
