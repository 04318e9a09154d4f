//! The accept loop and the shutdown.
//!
//! Each connection is a task of its own. Connections are limited in number ([`Connections`]), time
//! and size. After shutdown begins, the server accepts no connection and ends event streams at
//! once. Requests have [`ServerConfig::drain_timeout`] to finish, and the rest is dropped. The
//! journal contains the intents of dropped requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stead_engine::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::App;
use crate::auth::denials::Denials;
use crate::auth::page_session::PageSessions;
use crate::config::ServerConfig;
use crate::idempotency_keys::KeysInProgress;
use crate::listener::connection::{self, Services};
use crate::listener::connections::Connections;
use crate::listener::door::{self, Tickets};
use crate::metrics::Metrics;
use crate::quota::{Quotas, Rates};
use crate::respond::stream_turns::StreamTurns;
use crate::router;

/// Pause before the next accept when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const FOLD_METRICS_EVERY: Duration = Duration::from_secs(5);

/// Serves until `shutdown` completes and the last connection is closed.
pub async fn serve(
    listener: TcpListener,
    engine: Engine,
    config: ServerConfig,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    listener.local_addr()?;
    let (stop, stopping) = watch::channel(false);
    let drain_timeout = config.drain_timeout;
    let app = App {
        engine,
        quotas: Quotas::new(&config),
        rates: Rates::default(),
        stream_turns: StreamTurns::default(),
        config: Arc::new(config),
        idempotency_keys: KeysInProgress::default(),
        denials: Denials::default(),
        page_sessions: PageSessions::default(),
        tickets: Tickets::default(),
        metrics: Metrics::install(),
        stopping: stopping.clone(),
    };
    let mut connections = JoinSet::new();
    tokio::select! {
        () = accept(&listener, &app, &mut connections) => {}
        () = shutdown => {}
    }
    drop(listener);
    // This fails only if every connection is closed already.
    let _ = stop.send(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(drain_timeout, drained).await.is_err() {
        tracing::warn!(left = connections.len(), "some requests did not finish in time");
        connections.shutdown().await;
    }
    Ok(())
}

/// Never returns. Accept errors are either connections that the client closed already, or temporary
/// (no file descriptor left).
async fn accept(listener: &TcpListener, app: &App, tasks: &mut JoinSet<()>) {
    let services = Services { api: router::router(app.clone()), door: door::router(app.clone()) };
    let connections = Connections::new(app.config.max_connections);
    let mut fold = tokio::time::interval(FOLD_METRICS_EVERY);
    loop {
        tokio::select! {
            stream = next(listener, &connections) => {
                // If the table is full, this drops and closes the stream. All other connections
                // have requests in progress.
                let Some(place) = connections.enter() else { continue };
                let (services, app) = (services.clone(), app.clone());
                tasks.spawn(async move { connection::run(stream, services, &app, place).await });
            }
            Some(_) = tasks.join_next() => {}
            _ = fold.tick() => app.metrics.fold(),
        }
    }
}

async fn next(listener: &TcpListener, connections: &Connections) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_client_gone(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; closing an idle one and trying again");
                connections.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_client_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
