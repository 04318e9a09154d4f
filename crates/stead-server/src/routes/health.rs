//! `/healthz`, `/readyz`, `/metrics` and `/openapi.json`

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use serde::Serialize;
use serde_json::Value;
use stead_engine::ops;
use utoipa::ToSchema;

use crate::app::App;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;

/// Health of the server.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok` from `/healthz`, `ready` from `/readyz`.
    status: &'static str,
}

/// Check that the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "health", operation_id = "healthz", responses((status = 200, body = Health)))]
pub(crate) async fn healthz(_: Query<Nothing>) -> Result<Answer<Health>, Problem> {
    Ok(Answer(Health { status: "ok" }))
}

/// Check that the server can serve requests now.
#[utoipa::path(get, path = "/readyz", tag = "health", operation_id = "readyz", responses((status = 200, body = Health)))]
pub(crate) async fn readyz(State(app): State<App>, _: Query<Nothing>) -> Result<Answer<Health>, Problem> {
    app.engine.ready().await?;
    Ok(Answer(Health { status: "ready" }))
}

/// Show metrics in the Prometheus text format.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics",
    responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn metrics(State(app): State<App>, _: Query<Nothing>) -> Result<Response, Problem> {
    for (status, count) in ops::session_counts(&app.engine).await? {
        ::metrics::gauge!("stead_sessions", "status" => status.as_str()).set(count as f64);
    }
    let accesses = app.engine.database_accesses();
    ::metrics::counter!("stead_database_reads_total").absolute(accesses.reads);
    ::metrics::counter!("stead_database_writes_total").absolute(accesses.writes);
    for entry in ops::pool(&app.engine) {
        let gauges = [("stead_pool_target", entry.target), ("stead_pool_ready", entry.ready)];
        for (name, value) in gauges {
            ::metrics::gauge!(name, "agent_type" => entry.agent_type.clone()).set(value as f64);
        }
        let counters = [
            ("stead_pool_hits_total", entry.hits),
            ("stead_pool_misses_total", entry.misses),
            ("stead_pool_fills_total", entry.fills),
            ("stead_pool_discarded_total", entry.discarded),
        ];
        for (name, value) in counters {
            ::metrics::counter!(name, "agent_type" => entry.agent_type.clone()).absolute(value);
        }
    }
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render()).into_response())
}

/// Get this API description as JSON.
#[utoipa::path(get, path = "/openapi.json", tag = "health", operation_id = "openapi",
    responses((status = 200, body = Object)))]
pub(crate) async fn openapi(_: Query<Nothing>) -> Result<Answer<Value>, Problem> {
    Ok(Answer(crate::openapi()))
}
