//! `/blobs`: bytes addressed by their hash, for bundles.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use stead_engine::ops;
use stead_fs::Content;

use crate::app::App;
use crate::auth::{InProject, Tenancy};
use crate::extract::conditions::Wanted;
use crate::extract::path::DigestPath;
use crate::extract::query::{Nothing, Query};
use crate::extract::upload::Upload;
use crate::problem::Problem;
use crate::respond::download::{self, Facts};
use crate::routes::paging::ProjectParams;
use stead_api::file::Blob;
use stead_api::schema;

/// Store a blob of any size.
///
/// Storing the same bytes again has no effect.
#[utoipa::path(post, path = "/blobs", tag = "blobs", operation_id = "create_blob", params(ProjectParams),
    request_body(content = schema::Bytes, content_type = "application/octet-stream"),
    responses((status = 201, body = Blob, headers(("Location" = String))), (status = 404)))]
pub(crate) async fn create(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
    upload: Upload,
) -> Result<Response, Problem> {
    let (digest, bytes) = ops::put_blob(&app.engine, &tenancy.tenant(project)?, upload.reader()).await?;
    let location = format!("/api/v1/blobs/{digest}");
    let blob = Blob { digest: digest.to_string(), bytes };
    Ok((StatusCode::CREATED, [(LOCATION, location)], Answer(blob)).into_response())
}

/// Read a blob, or a range of its bytes.
#[utoipa::path(get, path = "/blobs/{digest}", tag = "blobs", operation_id = "read_blob",
    params(("digest" = schema::Digest, Path), ProjectParams, ("Range" = Option<String>, Header), ("If-None-Match" = Option<String>, Header),
        ("If-Range" = Option<String>, Header)),
    responses((status = 200, content((schema::Bytes = "application/octet-stream")), headers(("ETag" = String), ("Accept-Ranges" = String))),
        (status = 206, content((schema::Bytes = "application/octet-stream")), headers(("Content-Range" = String))),
        (status = 304, description = "It is what you have."), (status = 416, headers(("Content-Range" = String)))))]
pub(crate) async fn read(
    State(app): State<App>,
    tenancy: Tenancy,
    DigestPath(digest): DigestPath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
    wanted: Wanted,
) -> Result<Response, Problem> {
    let blob = ops::open_blob(&app.engine, &tenancy.tenant(project)?, &digest).await?;
    let content = Content::Stream { reader: Box::new(blob.file.into_std().await), size: blob.len };
    download::file(content, &Facts { hash: digest.to_string(), modified_millis: None }, &wanted)
}
