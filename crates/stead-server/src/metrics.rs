//! Metrics and their names. The process has one recorder, which the first server installs.

use std::sync::OnceLock;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const DURATION: &str = "stead_http_request_duration_seconds";
const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// The recorder of the process; `None` if the embedding program installed its own.
#[derive(Clone)]
pub(crate) struct Metrics(Option<PrometheusHandle>);

impl Metrics {
    pub(crate) fn install() -> Self {
        let handle = RECORDER.get_or_init(|| {
            let builder = PrometheusBuilder::new();
            let builder = builder.set_buckets_for_metric(Matcher::Full(DURATION.to_owned()), SECONDS).ok()?;
            let handle = builder.install_recorder().ok()?;
            describe();
            begin_at_zero();
            Some(handle)
        });
        Self(handle.clone())
    }

    /// Returns all metrics in the Prometheus text format.
    pub(crate) fn render(&self) -> String {
        self.0.as_ref().map(PrometheusHandle::render).unwrap_or_default()
    }

    /// Aggregates samples into their buckets, so that memory does not grow between scrapes.
    pub(crate) fn fold(&self) {
        if let Some(handle) = &self.0 {
            handle.run_upkeep();
        }
    }
}

fn describe() {
    describe_counter!("stead_http_requests_total", "Requests answered, by route, method and status.");
    describe_histogram!(DURATION, Unit::Seconds, "Time to the head of the answer, by route and method.");
    describe_counter!("stead_refusals_total", "Problems answered, by code.");
    describe_counter!("stead_tool_calls_total", "Tool calls answered, by tool and outcome.");
    describe_counter!("stead_provisions_total", "Boxes asked for, by provider and outcome.");
    describe_counter!("stead_network_contacts_total", "First contacts of boxes with a host and port, by treatment.");
    describe_counter!("stead_network_refused_total", "First refusals of a host, port and reason, by reason.");
    describe_counter!("stead_network_bytes_total", "Bytes of boxes, by direction.");
    describe_counter!("stead_degraded_sessions_total", "Sessions that started without a workspace.");
    describe_counter!("stead_fallback_sessions_total", "Sessions whose workspace the fallback provider made.");
    describe_counter!(
        "stead_setup_cache_total",
        "Uses of kept setup results, by outcome: hit, miss, kept, not_kept, unsupported."
    );
    describe_gauge!("stead_pool_target", "Boxes that are to be kept ready, by agent type.");
    describe_gauge!("stead_pool_ready", "Boxes that are ready, by agent type.");
    describe_counter!("stead_pool_hits_total", "Sessions that found a box ready.");
    describe_counter!("stead_pool_misses_total", "Sessions that found none.");
    describe_counter!("stead_pool_fills_total", "Boxes that were made to be kept ready.");
    describe_counter!("stead_pool_discarded_total", "Boxes that were ready and no longer wanted.");
    describe_counter!("stead_database_reads_total", "Reads of the database.");
    describe_counter!("stead_database_writes_total", "Operations that may write to the database.");
    describe_gauge!("stead_sessions", "Sessions, by status.");
    describe_gauge!("stead_event_streams", "Event streams that are open.");
    describe_gauge!("stead_connections", "Connections that are open.");
    describe_counter!("stead_connections_evicted_total", "Idle connections that were closed to make room.");
}

/// Registers counters without labels, so that a scrape shows them before their first increment.
fn begin_at_zero() {
    for name in ["stead_degraded_sessions_total", "stead_fallback_sessions_total", "stead_connections_evicted_total"] {
        counter!(name).increment(0);
    }
}

/// Guard that adds 1 to a gauge until it is dropped.
pub(crate) struct Open(&'static str);

impl Open {
    pub(crate) fn new(name: &'static str) -> Self {
        gauge!(name).increment(1.0);
        Self(name)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        gauge!(self.0).decrement(1.0);
    }
}
