//! `/platform`

use axum::Json as Answer;
use axum::extract::State;
use stead_core::registry::Platform;
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Json;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use stead_api::schema;

/// Show the settings for all sessions.
#[utoipa::path(get, path = "/platform", tag = "platform", operation_id = "show_platform",
    responses((status = 200, body = schema::Platform)))]
pub(crate) async fn show(State(app): State<App>, _: Query<Nothing>) -> Result<Answer<Platform>, Problem> {
    Ok(Answer(ops::platform(&app.engine).await?))
}

/// Replace the settings for all sessions.
///
/// A list that is left out allows nothing.
#[utoipa::path(put, path = "/platform", tag = "platform", operation_id = "set_platform",
    request_body = schema::Platform, responses((status = 200, body = schema::Platform)))]
pub(crate) async fn set(
    State(app): State<App>,
    Caller(actor): Caller,
    _: Query<Nothing>,
    body: Json<Platform>,
) -> Result<Answer<Platform>, Problem> {
    Ok(Answer(ops::set_platform(&app.engine, &actor, body.value).await?))
}
