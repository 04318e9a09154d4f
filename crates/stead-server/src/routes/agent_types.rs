//! `/agent-types`

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use stead_core::config::WorkspaceConfig;
use stead_core::registry::AgentTypeDeclaration;
use stead_engine::ops;

use crate::app::App;
use crate::auth::{Caller, InProject, Tenancy};
use crate::extract::body::Json;
use crate::extract::headers::IdempotencyKey;
use crate::extract::path::NamePath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::routes::paging::{Paging, PagingParams, ProjectParams};
use stead_api::agent_type::AgentType;
use stead_api::list::List;
use stead_api::schema;

/// Create an agent type.
#[utoipa::path(post, path = "/agent-types", tag = "agent types", operation_id = "create_agent_type",
    params(ProjectParams, ("Idempotency-Key" = Option<String>, Header, description = "The same key and body again get the same answer.", pattern = "^[!-~]{1,255}$")),
    request_body = schema::AgentTypeDeclaration,
    responses((status = 201, body = AgentType, description = "It is declared.", headers(("Location" = String))), (status = 404), (status = 409), (status = 422)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
    IdempotencyKey(key): IdempotencyKey,
    body: Json<AgentTypeDeclaration>,
) -> Result<Response, Problem> {
    let tenant = tenancy.changed_tenant(project)?;
    let _reserved = app.idempotency_keys.begin(&actor, key.as_deref())?;
    let idempotency = key.map(|key| ops::Idempotency { key, body_hash: body.hash });
    let created = ops::create_agent_type(&app.engine, &actor, &tenant, body.value, idempotency).await?;
    let location = format!("/api/v1/agent-types/{}", created.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], axum::Json(AgentType::from(created))).into_response())
}

/// Returns an agent type as the caller may see it. A member sees no secrets of the platform: the
/// values of its variables, and its MCP servers.
fn shown(tenancy: &Tenancy, mut found: stead_core::registry::AgentType) -> AgentType {
    let own = tenancy.principal().project.as_ref();
    if own.is_some() && found.project.as_ref() != own {
        found.env = found.env.without_values();
        if let Some(content) = &mut found.content {
            content.mcp_servers.clear();
        }
    }
    found.into()
}

/// List agent types, sorted by id.
#[utoipa::path(get, path = "/agent-types", tag = "agent types", operation_id = "list_agent_types", params(PagingParams, ProjectParams),
    responses((status = 200, body = List<AgentType>)))]
pub(crate) async fn list(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(InProject { project, rest: page }): Query<InProject<Paging>>,
) -> Result<axum::Json<List<AgentType>>, Problem> {
    let tenant = tenancy.tenant(project)?;
    let asked = ops::Page { after: page.cursor.map(String::from), limit: page.limit + 1 };
    let found = ops::agent_types(&app.engine, &tenant, &asked).await?;
    Ok(axum::Json(List::page(found, page.limit, |one| one.id.to_string(), |one| shown(&tenancy, one))))
}

/// Show an agent type.
#[utoipa::path(get, path = "/agent-types/{id}", tag = "agent types", operation_id = "show_agent_type",
    params(("id" = schema::Name, Path), ProjectParams), responses((status = 200, body = AgentType)))]
pub(crate) async fn show(
    State(app): State<App>,
    tenancy: Tenancy,
    NamePath(id): NamePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<axum::Json<AgentType>, Problem> {
    let found = ops::agent_type(&app.engine, &tenancy.tenant(project)?, &id).await?;
    Ok(axum::Json(shown(&tenancy, found)))
}

/// Replace an agent type.
///
/// An absent field gets its default. Running sessions keep the configuration that they were created
/// with.
#[utoipa::path(put, path = "/agent-types/{id}", tag = "agent types", operation_id = "replace_agent_type",
    params(("id" = schema::Name, Path), ProjectParams), request_body = schema::AgentTypeDeclaration,
    responses((status = 200, body = AgentType)))]
pub(crate) async fn replace(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    NamePath(id): NamePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
    body: Json<AgentTypeDeclaration>,
) -> Result<axum::Json<AgentType>, Problem> {
    let tenant = tenancy.changed_tenant(project)?;
    if body.value.id != id {
        return Err(Problem::invalid("id", "must be the id of the path"));
    }
    Ok(axum::Json(ops::replace_agent_type(&app.engine, &actor, &tenant, body.value).await?.into()))
}

/// Delete an agent type that has no live sessions.
#[utoipa::path(delete, path = "/agent-types/{id}", tag = "agent types", operation_id = "delete_agent_type",
    params(("id" = schema::Name, Path), ProjectParams), responses((status = 204, description = "It is gone."), (status = 409)))]
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    NamePath(id): NamePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<StatusCode, Problem> {
    ops::delete_agent_type(&app.engine, &actor, &tenancy.changed_tenant(project)?, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show the workspace configuration of an agent type, with all defaults filled in.
#[utoipa::path(get, path = "/agent-types/{id}/workspace-config", tag = "agent types", operation_id = "show_workspace_config",
    params(("id" = schema::Name, Path), ProjectParams), responses((status = 200, body = schema::WorkspaceConfig)))]
pub(crate) async fn workspace_config(
    State(app): State<App>,
    tenancy: Tenancy,
    NamePath(id): NamePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<axum::Json<WorkspaceConfig>, Problem> {
    Ok(axum::Json(ops::agent_type(&app.engine, &tenancy.tenant(project)?, &id).await?.workspace))
}

/// Replace the workspace configuration of an agent type.
///
/// Running sessions keep the configuration that they were created with.
#[utoipa::path(put, path = "/agent-types/{id}/workspace-config", tag = "agent types", operation_id = "set_workspace_config",
    params(("id" = schema::Name, Path), ProjectParams), request_body = schema::WorkspaceConfig,
    responses((status = 200, body = schema::WorkspaceConfig)))]
pub(crate) async fn set_workspace_config(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    NamePath(id): NamePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
    body: Json<WorkspaceConfig>,
) -> Result<axum::Json<WorkspaceConfig>, Problem> {
    let tenant = tenancy.changed_tenant(project)?;
    Ok(axum::Json(ops::set_workspace_config(&app.engine, &actor, &tenant, &id, body.value).await?.workspace))
}
