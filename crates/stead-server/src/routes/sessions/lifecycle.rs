//! `PATCH /sessions/{id}`, `/sessions/{id}/pause` and `/sessions/{id}/resume`

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use stead_api::schema;
use stead_api::session::Session;
use stead_api::session::update::{PatchedEnd, PauseRequest, SessionPatch, SessionUpdateRequest};
use stead_core::session::WorkspaceStatus;
use stead_engine::ops::{self, NewEnd};

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::{Json, MaybeJson, NoFields};
use crate::extract::path::SessionPath;
use crate::extract::query::{Nothing, Query};
use crate::problem::{Code, Problem};
use crate::wire::session::shown;

/// Change the end or the metadata of a session.
#[utoipa::path(patch, path = "/sessions/{id}", tag = "sessions", operation_id = "update_session",
    params(("id" = schema::SessionId, Path)), request_body = SessionUpdateRequest,
    responses((status = 200, body = Session), (status = 409), (status = 422)))]
pub(crate) async fn update(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    body: Json<SessionPatch>,
) -> Result<Answer<Session>, Problem> {
    let SessionPatch { request: SessionUpdateRequest { expires_at, ttl_seconds, metadata }, end } = body.value;
    if end == PatchedEnd::Removed {
        let detail = "a session always has an end; give expires_at or ttl_seconds";
        return Err(Problem::new(Code::SemanticMismatch, detail));
    }
    let end = match (expires_at, ttl_seconds) {
        (Some(_), Some(_)) => {
            return Err(Problem::new(Code::SemanticMismatch, "give either expires_at or ttl_seconds"));
        }
        (Some(at), None) => Some(NewEnd::At(at)),
        (None, Some(seconds)) => Some(NewEnd::After(Duration::from_secs(seconds.0))),
        (None, None) => None,
    };
    let metadata = metadata.map(|patch| patch.0);
    Ok(Answer(shown(ops::update_session(&app.engine, &actor, id, end, metadata).await?)?))
}

/// Pause a session: stop or freeze its box.
///
/// The session refuses calls until it is resumed. Its idle time does not count meanwhile, but it
/// still ends at `expires_at`. Pausing a paused session has no effect.
#[utoipa::path(post, path = "/sessions/{id}/pause", tag = "sessions", operation_id = "pause_session",
    params(("id" = schema::SessionId, Path)), request_body(content = PauseRequest, description = "Optional."),
    responses((status = 200, body = Session), (status = 202, body = Session, description = "It is still being paused."),
        (status = 409), (status = 422)))]
pub(crate) async fn pause(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    body: MaybeJson<PauseRequest>,
) -> Result<Response, Problem> {
    answer(shown(ops::pause_session(&app.engine, &actor, id, body.value.mode).await?)?)
}

/// Resume a paused session.
///
/// Resuming an active session has no effect.
#[utoipa::path(post, path = "/sessions/{id}/resume", tag = "sessions", operation_id = "resume_session",
    params(("id" = schema::SessionId, Path)),
    responses((status = 200, body = Session), (status = 202, body = Session, description = "It is still being resumed."),
        (status = 409), (status = 429, headers(("Retry-After" = u32)))))]
pub(crate) async fn resume(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    _: MaybeJson<NoFields>,
) -> Result<Response, Problem> {
    answer(shown(ops::resume_session(&app.engine, &actor, id).await?)?)
}

fn answer(session: Session) -> Result<Response, Problem> {
    let status = session.workspace.as_ref().map(|workspace| workspace.status);
    let code = match status {
        Some(WorkspaceStatus::Pausing | WorkspaceStatus::Resuming) => StatusCode::ACCEPTED,
        _ => StatusCode::OK,
    };
    Ok((code, Answer(session)).into_response())
}
