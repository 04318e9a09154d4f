//! `/sessions/{id}/rewind` and `/sessions/{id}/blame/{path}`

use axum::Json as Answer;
use axum::extract::State;
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Json;
use crate::extract::path::{FilePath, SessionPath};
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::wire;
use crate::wire::IntoWire as _;
use stead_api::schema;
use stead_api::session::rewind::{Blame, Checkpoints, RewindRequest, Rewound};

/// Restore the files as they were after an event.
///
/// The server takes a checkpoint of the current files first, so that the rewind can be undone.
#[utoipa::path(post, path = "/sessions/{id}/rewind", tag = "snapshots", operation_id = "rewind_session",
    params(("id" = schema::SessionId, Path)), request_body = RewindRequest,
    responses((status = 200, body = Rewound), (status = 409)))]
pub(crate) async fn go(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    body: Json<RewindRequest>,
) -> Result<Answer<Rewound>, Problem> {
    let to = body.value.to.0;
    let operated = ops::rewind(&app.engine, &actor, id, to).await?;
    Ok(Answer(wire::session::rewound(to, operated)))
}

/// List the checkpoints of a session and the call that led to each.
#[utoipa::path(get, path = "/sessions/{id}/rewind", tag = "snapshots", operation_id = "list_moments",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = Checkpoints)))]
pub(crate) async fn list(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<Checkpoints>, Problem> {
    Ok(Answer(ops::checkpoints(&app.engine, id).await?.into_wire()))
}

/// Show the call that last wrote or removed a file.
#[utoipa::path(get, path = "/sessions/{id}/blame/{*path}", tag = "files", operation_id = "blame_file",
    params(("id" = schema::SessionId, Path), ("path" = schema::FilePath, Path)),
    responses((status = 200, body = Blame), (status = 409)))]
pub(crate) async fn blame(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    FilePath(path): FilePath,
    _: Query<Nothing>,
) -> Result<Answer<Blame>, Problem> {
    Ok(Answer(ops::blame(&app.engine, &actor, id, &path.to_string()).await?.into_wire()))
}
