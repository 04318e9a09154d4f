//! `/projects`

use axum::Json as Answer;
use axum::extract::State;
use stead_core::registry::Project;
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Json;
use crate::extract::path::NamePath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use stead_api::schema;

/// Show a project.
#[utoipa::path(get, path = "/projects/{id}", tag = "projects", operation_id = "show_project",
    params(("id" = schema::Name, Path)), responses((status = 200, body = schema::Project)))]
pub(crate) async fn show(
    State(app): State<App>,
    NamePath(id): NamePath,
    _: Query<Nothing>,
) -> Result<Answer<Project>, Problem> {
    Ok(Answer(ops::project(&app.engine, &id).await?))
}

/// Create or replace a project.
#[utoipa::path(put, path = "/projects/{id}", tag = "projects", operation_id = "set_project",
    params(("id" = schema::Name, Path)), request_body = schema::Project,
    responses((status = 200, body = schema::Project)))]
pub(crate) async fn set(
    State(app): State<App>,
    Caller(actor): Caller,
    NamePath(id): NamePath,
    _: Query<Nothing>,
    body: Json<Project>,
) -> Result<Answer<Project>, Problem> {
    Ok(Answer(ops::set_project(&app.engine, &actor, &id, body.value).await?))
}
