//! `/projects/{id}/quotas` and `/projects/{id}/usage`

use axum::Json as Answer;
use axum::extract::State;
use stead_api::project::quota::{NamedUsage, ProjectUsage, QuotaUsage};
use stead_api::schema;
use stead_core::admission::Amounts;
use stead_core::quota::Quotas;
use stead_engine::ops;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Json;
use crate::extract::path::NamePath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;

/// Show the quotas of a project.
#[utoipa::path(get, path = "/projects/{id}/quotas", tag = "projects", operation_id = "show_quotas",
    params(("id" = schema::Name, Path)), responses((status = 200, body = schema::Quotas)))]
pub(crate) async fn show(
    State(app): State<App>,
    NamePath(id): NamePath,
    _: Query<Nothing>,
) -> Result<Answer<Quotas>, Problem> {
    Ok(Answer(ops::quotas(&app.engine, &id).await?))
}

/// Replace the quotas of a project.
///
/// An absent field sets no limit of its own, and zero allows nothing. Sessions that live already
/// are not affected.
#[utoipa::path(put, path = "/projects/{id}/quotas", tag = "projects", operation_id = "set_quotas",
    params(("id" = schema::Name, Path)), request_body = schema::Quotas,
    responses((status = 200, body = schema::Quotas)))]
pub(crate) async fn set(
    State(app): State<App>,
    Caller(actor): Caller,
    NamePath(id): NamePath,
    _: Query<Nothing>,
    body: Json<Quotas>,
) -> Result<Answer<Quotas>, Problem> {
    Ok(Answer(ops::set_quotas(&app.engine, &actor, &id, body.value).await?))
}

/// Show what the sessions of a project reserve, next to its quotas.
#[utoipa::path(get, path = "/projects/{id}/usage", tag = "projects", operation_id = "project_usage",
    params(("id" = schema::Name, Path)), responses((status = 200, body = ProjectUsage)))]
pub(crate) async fn usage(
    State(app): State<App>,
    NamePath(id): NamePath,
    _: Query<Nothing>,
) -> Result<Answer<ProjectUsage>, Problem> {
    let reserved = ops::reserved(&app.engine, &id).await?;
    let quotas = ops::quotas(&app.engine, &id).await?;
    let of_user = quotas.per_user.as_ref().map(|quota| quota.amounts.allowed()).unwrap_or_default();
    let users = reserved.users.iter().map(|(name, used)| named(name, QuotaUsage::new(used, &of_user)));
    let mut agent_types = reserved.agent_types;
    for agent_type in quotas.per_agent_type.keys() {
        agent_types.entry(agent_type.to_string()).or_insert_with(Amounts::default);
    }
    let agent_types = agent_types.iter().map(|(name, used)| {
        let quota = quotas.per_agent_type.iter().find(|(agent_type, _)| agent_type.as_str() == name);
        named(name, QuotaUsage::new(used, &quota.map(|(_, quota)| quota.allowed()).unwrap_or_default()))
    });
    Ok(Answer(ProjectUsage {
        project: QuotaUsage::new(&reserved.project, &quotas.amounts.allowed()),
        users: users.collect(),
        agent_types: agent_types.collect(),
        creates_per_minute: quotas.rates.creates_per_minute,
        requests_per_second: quotas.rates.requests_per_second,
    }))
}

fn named(name: &str, usage: QuotaUsage) -> NamedUsage {
    NamedUsage { name: name.to_owned(), usage }
}
