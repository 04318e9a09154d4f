//! `/usage` and `/sessions/{id}/usage`

use axum::Json as Answer;
use axum::extract::State;
use stead_engine::ops;

use crate::app::App;
use crate::extract::path::SessionPath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::wire::IntoWire as _;
use stead_api::schema;
use stead_api::usage::{Usage, WorkspaceUsage};

/// Show the disk usage of workspaces, layers, mirrors and blobs.
#[utoipa::path(get, path = "/usage", tag = "providers", operation_id = "usage", responses((status = 200, body = Usage)))]
pub(crate) async fn show(State(app): State<App>, _: Query<Nothing>) -> Result<Answer<Usage>, Problem> {
    Ok(Answer(ops::usage(&app.engine).await?.into_wire()))
}

/// Show the disk usage of a session's workspace; `null` if it has none.
#[utoipa::path(get, path = "/sessions/{id}/usage", tag = "sessions", operation_id = "session_usage",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = Option<WorkspaceUsage>)))]
pub(crate) async fn of_session(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<Option<WorkspaceUsage>>, Problem> {
    Ok(Answer(ops::session_usage(&app.engine, id).await?.into_wire()))
}
