//! State that all handlers share.

use std::sync::Arc;

use stead_engine::Engine;
use tokio::sync::watch;

use crate::auth::denials::Denials;
use crate::auth::page_session::PageSessions;
use crate::config::ServerConfig;
use crate::idempotency_keys::KeysInProgress;
use crate::listener::door::Tickets;
use crate::metrics::Metrics;
use crate::quota::{Quotas, Rates};
use crate::respond::stream_turns::StreamTurns;

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) idempotency_keys: KeysInProgress,
    pub(crate) denials: Denials,
    pub(crate) page_sessions: PageSessions,
    pub(crate) tickets: Tickets,
    pub(crate) metrics: Metrics,
    pub(crate) quotas: Quotas,
    pub(crate) rates: Rates,
    pub(crate) stream_turns: StreamTurns,
    /// Becomes true once, when the server starts to shut down.
    pub(crate) stopping: watch::Receiver<bool>,
}
