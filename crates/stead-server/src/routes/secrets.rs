//! `/secrets`: values that the server adds to requests of boxes. They belong to a project or to the
//! platform. No route returns a value.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use stead_core::secret::SecretRequest;
use stead_engine::ops;

use crate::app::App;
use crate::auth::{Caller, InProject, Tenancy};
use crate::extract::body::Json;
use crate::extract::path::SecretPath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::routes::paging::{Paging, PagingParams, ProjectParams};
use stead_api::list::List;
use stead_api::schema;
use stead_api::secret::{Rekeyed, Secret};

fn shown(view: ops::SecretView) -> Secret {
    Secret::new(view.secret, view.usable)
}

/// List secrets, sorted by name.
///
/// A project sees its own secrets only. The values are never shown.
#[utoipa::path(get, path = "/secrets", tag = "secrets", operation_id = "list_secrets", params(PagingParams, ProjectParams),
    responses((status = 200, body = List<Secret>)))]
pub(crate) async fn list(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(InProject { project, rest: page }): Query<InProject<Paging>>,
) -> Result<axum::Json<List<Secret>>, Problem> {
    let tenant = tenancy.tenant(project)?;
    let asked = ops::Page { after: page.cursor.map(String::from), limit: page.limit + 1 };
    let found = ops::secrets(&app.engine, &tenant, &asked).await?;
    Ok(axum::Json(List::page(found, page.limit, |one| one.secret.name.to_string(), shown)))
}

/// Show a secret without its value.
#[utoipa::path(get, path = "/secrets/{name}", tag = "secrets", operation_id = "show_secret",
    params(("name" = schema::Name, Path), ProjectParams), responses((status = 200, body = Secret)))]
pub(crate) async fn show(
    State(app): State<App>,
    tenancy: Tenancy,
    SecretPath(name): SecretPath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<axum::Json<Secret>, Problem> {
    Ok(axum::Json(shown(ops::secret(&app.engine, &tenancy.tenant(project)?, &name).await?)))
}

/// Store a secret, or replace it.
///
/// The value is always written together with its hosts, so nobody can send a stored value to
/// another host. Running sessions use the new value with their next request.
#[utoipa::path(put, path = "/secrets/{name}", tag = "secrets", operation_id = "set_secret",
    params(("name" = schema::Name, Path), ProjectParams), request_body = schema::SecretRequest,
    responses((status = 201, body = Secret, description = "The name is new."),
        (status = 200, body = Secret, description = "The secret is replaced."), (status = 409)))]
pub(crate) async fn set(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    SecretPath(name): SecretPath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
    body: Json<SecretRequest>,
) -> Result<Response, Problem> {
    let tenant = tenancy.changed_tenant(project)?;
    let (view, new) = ops::set_secret(&app.engine, &actor, &tenant, &name, body.value).await?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(shown(view))).into_response())
}

/// Remove a secret.
#[utoipa::path(delete, path = "/secrets/{name}", tag = "secrets", operation_id = "remove_secret",
    params(("name" = schema::Name, Path), ProjectParams), responses((status = 204, description = "It is gone.")))]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    SecretPath(name): SecretPath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<StatusCode, Problem> {
    ops::remove_secret(&app.engine, &actor, &tenancy.changed_tenant(project)?, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Seal every secret under a new key, and replace the key.
#[utoipa::path(post, path = "/secrets:rekey", tag = "secrets", operation_id = "rekey_secrets",
    responses((status = 200, body = Rekeyed)))]
pub(crate) async fn rekey(State(app): State<App>, Caller(actor): Caller) -> Result<axum::Json<Rekeyed>, Problem> {
    Ok(axum::Json(Rekeyed { secrets: ops::rekey_secrets(&app.engine, &actor).await? }))
}
