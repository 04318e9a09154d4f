//! What every handler is given.

use std::sync::Arc;

use stead_engine::Engine;
use tokio::sync::watch;

use crate::answering::Answering;
use crate::config::ServerConfig;
use crate::metrics::Metrics;
use crate::quota::Quotas;
use crate::stream_turns::StreamTurns;

#[derive(Clone)]
pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) answering: Answering,
    pub(crate) metrics: Metrics,
    pub(crate) quotas: Quotas,
    pub(crate) stream_turns: StreamTurns,
    /// Turns true once, when the server begins to stop.
    pub(crate) stopping: watch::Receiver<bool>,
}
