//! `/sessions/{id}/network`

use axum::Json as Answer;
use axum::extract::State;
use stead_api::schema;
use stead_api::session::network_use::{NetworkReport, RefusedHost, UsedHost};
use stead_engine::ops::{self, SessionNetworkView};

use crate::app::App;
use crate::extract::path::SessionPath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;

/// Show the hosts that a session can reach, and what its box reached and was refused.
#[utoipa::path(get, path = "/sessions/{id}/network", tag = "sessions", operation_id = "session_network",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = NetworkReport)))]
pub(crate) async fn show(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<NetworkReport>, Problem> {
    let SessionNetworkView { phase, reachable, used } = ops::session_network(&app.engine, id).await?;
    Ok(Answer(NetworkReport {
        phase,
        reachable,
        used: used.used.values().map(UsedHost::from).collect(),
        refused: used.refused.values().cloned().map(RefusedHost::from).collect(),
        uncounted: used.uncounted,
    }))
}
