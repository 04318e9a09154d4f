//! `/sessions/{id}/network:narrow` and `/sessions/{id}/network:grant`

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use stead_api::schema;
use stead_api::session::Session;
use stead_api::session::network::{NetworkGrantRequest, NetworkNarrowing};
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Json;
use crate::extract::path::SessionPath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::wire::session::shown;

/// Take network access away from a running session.
///
/// Open connections that the rules are about end. The change holds until the session ends.
#[utoipa::path(post, path = "/sessions/{id}/network:narrow", tag = "sessions", operation_id = "narrow_network",
    params(("id" = schema::SessionId, Path)), request_body = NetworkNarrowing,
    responses((status = 200, body = Session), (status = 409), (status = 422)))]
pub(crate) async fn narrow(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    body: Json<NetworkNarrowing>,
) -> Result<Answer<Session>, Problem> {
    Ok(Answer(shown(ops::narrow_network(&app.engine, &actor, id, body.value.deny.0).await?)?))
}

/// Grant a running session network access for a time.
///
/// A grant counts as a rule of the agent type. The platform, the project and the task have to allow
/// it too.
#[utoipa::path(post, path = "/sessions/{id}/network:grant", tag = "sessions", operation_id = "grant_network",
    params(("id" = schema::SessionId, Path)), request_body = NetworkGrantRequest,
    responses((status = 200, body = Session), (status = 409), (status = 422)))]
pub(crate) async fn grant(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    body: Json<NetworkGrantRequest>,
) -> Result<Answer<Session>, Problem> {
    let NetworkGrantRequest { allow, phase, ttl_seconds } = body.value;
    let time = Duration::from_secs(ttl_seconds.0);
    Ok(Answer(shown(ops::grant_network(&app.engine, &actor, id, (allow.0, phase), time).await?)?))
}
