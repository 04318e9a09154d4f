//! `/projects`

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use stead_api::list::List;
use stead_api::project::{ProjectDeletion, ProjectEntry, ProjectStatus, ProjectView};
use stead_api::schema;
use stead_core::Name;
use stead_core::identity::Permission;
use stead_core::registry::Project;
use stead_engine::ops::{self, DeletionProgress};

use crate::app::App;
use crate::auth::{Caller, Tenancy};
use crate::extract::body::Json;
use crate::extract::path::NamePath;
use crate::extract::query::{Nothing, Query};
use crate::problem::Problem;
use crate::routes::paging::{Paging, PagingParams};

/// List projects by name.
#[utoipa::path(get, path = "/projects", tag = "projects", operation_id = "list_projects", params(PagingParams),
    responses((status = 200, body = List<ProjectEntry>)))]
pub(crate) async fn list(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(Paging { limit, cursor }): Query<Paging>,
) -> Result<Answer<List<ProjectEntry>>, Problem> {
    // A member has one project, whatever the cursor.
    if let Some(own) = tenancy.project(None)? {
        let deleting = ops::project_deletion(&app.engine, &own).await?.is_some();
        let status = if deleting { ProjectStatus::Deleting } else { ProjectStatus::Active };
        return Ok(Answer(List::whole(vec![ProjectEntry { id: own.to_string(), status }])));
    }
    let page = ops::Page { after: cursor.map(String::from), limit: limit + 1 };
    let found = ops::projects(&app.engine, &page).await?;
    let entry = |(id, deletion): (String, Option<ops::Deletion>)| {
        let status = if deletion.is_some() { ProjectStatus::Deleting } else { ProjectStatus::Active };
        ProjectEntry { id, status }
    };
    Ok(Answer(List::page(found, limit, |(id, _)| id.clone(), entry)))
}

/// Show a project.
#[utoipa::path(get, path = "/projects/{id}", tag = "projects", operation_id = "show_project",
    params(("id" = schema::Name, Path)), responses((status = 200, body = ProjectView)))]
pub(crate) async fn show(
    State(app): State<App>,
    NamePath(id): NamePath,
    _: Query<Nothing>,
) -> Result<Answer<ProjectView>, Problem> {
    let project = ops::project(&app.engine, &id).await?;
    let deletion = ops::project_deletion(&app.engine, &id).await?;
    Ok(Answer(ProjectView::new(project, deletion.map(|progress| shown(id, progress)))))
}

fn shown(id: Name, progress: DeletionProgress) -> ProjectDeletion {
    let DeletionProgress { deletion, sessions, documents } = progress;
    ProjectDeletion {
        id,
        status: ProjectStatus::Deleting,
        requested_by: deletion.requested_by,
        requested_at: deletion.requested_at,
        remaining_sessions: sessions,
        remaining_documents: documents,
    }
}

/// Create or replace a project.
#[utoipa::path(put, path = "/projects/{id}", tag = "projects", operation_id = "set_project",
    params(("id" = schema::Name, Path)), request_body = schema::Project,
    responses((status = 200, body = schema::Project), (status = 409)))]
pub(crate) async fn set(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    NamePath(id): NamePath,
    _: Query<Nothing>,
    body: Json<Project>,
) -> Result<Answer<Project>, Problem> {
    if !tenancy.principal().permissions.contains(&Permission::ProjectsManage) {
        ops::project(&app.engine, &id).await?;
    }
    Ok(Answer(ops::set_project(&app.engine, &actor, &id, body.value).await?))
}

/// Delete a project with everything in it.
///
/// The deletion runs in the background: the server closes the project's sessions, then deletes its
/// agent types, content and tokens, then the project. `GET /projects/{id}` shows the progress and
/// answers 404 at the end.
#[utoipa::path(delete, path = "/projects/{id}", tag = "projects", operation_id = "delete_project",
    params(("id" = schema::Name, Path)), responses((status = 202, body = ProjectDeletion)))]
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(actor): Caller,
    NamePath(id): NamePath,
    _: Query<Nothing>,
) -> Result<(StatusCode, Answer<ProjectDeletion>), Problem> {
    let progress = ops::delete_project(&app.engine, &actor, &id).await?;
    Ok((StatusCode::ACCEPTED, Answer(shown(id, progress))))
}
