//! `/sessions/{id}/snapshots`

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::{Json, MaybeJson, NoFields};
use crate::extract::headers::IdempotencyKey;
use crate::extract::path::{SessionPath, SnapshotPath};
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::wire;
use stead_api::list::List;
use stead_api::schema;
use stead_api::session::snapshot::{Restored, Snapshot, SnapshotRequest};

/// Take a snapshot of the workspace's files.
#[utoipa::path(post, path = "/sessions/{id}/snapshots", tag = "snapshots", operation_id = "create_snapshot",
    params(("id" = schema::SessionId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body again get the same snapshot.", pattern = "^[!-~]{1,255}$")),
    request_body = SnapshotRequest,
    responses((status = 201, body = Snapshot), (status = 409), (status = 422)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    IdempotencyKey(key): IdempotencyKey,
    body: Json<SnapshotRequest>,
) -> Result<(StatusCode, Answer<Snapshot>), Problem> {
    let _reserved = app.idempotency_keys.begin(&actor, key.as_deref())?;
    let idempotency = key.map(|key| ops::Idempotency { key, body_hash: body.hash });
    let name = body.value.name.map(|name| name.0);
    let made = ops::create_snapshot(&app.engine, &actor, id, name, idempotency).await?;
    Ok((StatusCode::CREATED, Answer(made.into())))
}

/// List the snapshots of a session, oldest first.
#[utoipa::path(get, path = "/sessions/{id}/snapshots", tag = "snapshots", operation_id = "list_snapshots",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = List<Snapshot>)))]
pub(crate) async fn list(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<List<Snapshot>>, Problem> {
    let found = ops::snapshots(&app.engine, id).await?;
    Ok(Answer(List::whole(found.into_iter().map(Snapshot::from).collect())))
}

/// Restore the files of a snapshot.
///
/// This undoes all later changes and removes files that were created later.
#[utoipa::path(post, path = "/sessions/{id}/snapshots/{snap}/restore", tag = "snapshots", operation_id = "restore_snapshot",
    params(("id" = schema::SessionId, Path), ("snap" = schema::SnapshotId, Path)),
    responses((status = 200, body = Restored), (status = 409)))]
pub(crate) async fn restore(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    SnapshotPath(snapshot): SnapshotPath,
    _: Query<Nothing>,
    _: MaybeJson<NoFields>,
) -> Result<Answer<Restored>, Problem> {
    let operated = ops::restore_snapshot(&app.engine, &actor, id, snapshot).await?;
    Ok(Answer(wire::session::restored(snapshot, operated)))
}
