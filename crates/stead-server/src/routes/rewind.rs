//! `/sessions/{id}/rewind` and `/sessions/{id}/blame/{path}`

use axum::Json as Answer;
use axum::extract::State;
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::body::Json;
use crate::path::{FilePath, SessionPath};
use crate::problem::Problem;
use crate::query::{Nothing, Query};
use crate::wire;
use crate::wire::IntoWire as _;
use stead_api::schema;
use stead_api::session::rewind::{Blame, Moments, RewindRequest, Rewound};

/// Puts the files back as they were when an event had just happened. What they are until then is kept first, so this can be undone.
#[utoipa::path(post, path = "/sessions/{id}/rewind", tag = "snapshots", operation_id = "rewind_session",
    params(("id" = schema::SessionId, Path)), request_body = schema::RewindRequest,
    responses((status = 200, body = Rewound), (status = 409)))]
pub(crate) async fn go(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    body: Json<RewindRequest>,
) -> Result<Answer<Rewound>, Problem> {
    let to = body.value.to;
    let operated = ops::rewind(&app.engine, &actor, id, to).await?;
    Ok(Answer(wire::session::rewound(to, operated)))
}

/// Lists the moments of a session: what led to each, and whether it can be gone back to.
#[utoipa::path(get, path = "/sessions/{id}/rewind", tag = "snapshots", operation_id = "list_moments",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = Moments)))]
pub(crate) async fn list(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<Moments>, Problem> {
    Ok(Answer(ops::moments(&app.engine, id).await?.into_wire()))
}

/// Tells which call last wrote a file, or removed it.
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
