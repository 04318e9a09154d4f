//! `/images`: named root directories for boxes, imported from archives. They belong to a project or
//! to the platform.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use stead_engine::ops;
use stead_providers::Naming;

use crate::app::App;
use crate::auth::{Caller, InProject, Tenancy};
use crate::extract::path::ImagePath;
use crate::extract::query::{Nothing, Query};
use crate::extract::upload::Upload;
use crate::problem::Problem;
use crate::routes::paging::ProjectParams;
use crate::wire::IntoWire as _;
use stead_api::image::Image;
use stead_api::list::List;
use stead_api::schema;

/// List imported images, sorted by name.
///
/// A project sees its own images, and those of the platform whose names it has not taken.
#[utoipa::path(get, path = "/images", tag = "images", operation_id = "list_images", params(ProjectParams),
    responses((status = 200, body = List<Image>)))]
pub(crate) async fn list(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<Answer<List<Image>>, Problem> {
    let found = ops::images(&app.engine, &tenancy.tenant(project)?).await?;
    Ok(Answer(List::whole(found.into_wire())))
}

/// Show the image that a name refers to now.
#[utoipa::path(get, path = "/images/{*name}", tag = "images", operation_id = "show_image",
    params(("name" = schema::ImageName, Path), ProjectParams), responses((status = 200, body = Image)))]
pub(crate) async fn show(
    State(app): State<App>,
    tenancy: Tenancy,
    ImagePath(name): ImagePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<Answer<Image>, Problem> {
    Ok(Answer(ops::image(&app.engine, &tenancy.tenant(project)?, name).await?.into_wire()))
}

/// Import an image under a name.
///
/// The body is a tar archive of a root directory or an OCI archive, plain or compressed with gzip
/// or zstd. The server imports all of it or nothing. If the name exists, it then refers to the new
/// image. Running sessions keep the image they were created with.
#[utoipa::path(put, path = "/images/{*name}", tag = "images", operation_id = "import_image",
    params(("name" = schema::ImageName, Path), ProjectParams),
    request_body(content = schema::Bytes, content_type = "application/octet-stream"),
    responses((status = 201, body = Image, description = "The name is new."),
        (status = 200, body = Image, description = "The name meant something before."), (status = 422)))]
pub(crate) async fn import(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    ImagePath(name): ImagePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
    upload: Upload,
) -> Result<Response, Problem> {
    let tenant = tenancy.changed_tenant(project)?;
    let (archive, _) = upload.into_file().await?;
    let (record, naming) = ops::import_image(&app.engine, &actor, &tenant, name, archive).await?;
    let status = if naming == Naming::New { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Answer(record.into_wire())).into_response())
}

/// Remove an image name.
///
/// The server deletes the files as well if no other name refers to them. It refuses the request
/// while a box uses them.
#[utoipa::path(delete, path = "/images/{*name}", tag = "images", operation_id = "remove_image",
    params(("name" = schema::ImageName, Path), ProjectParams),
    responses((status = 204, description = "It is gone."), (status = 409)))]
pub(crate) async fn remove(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    ImagePath(name): ImagePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<StatusCode, Problem> {
    let tenant = tenancy.changed_tenant(project)?;
    ops::remove_image(&app.engine, &actor, &tenant, name).await?;
    Ok(StatusCode::NO_CONTENT)
}
