//! `/sessions/{id}/files/{path}`: the files of a workspace as raw bytes.
//!
//! The entity tag of a file is its content hash, the same as `hash` in tool results. The workspace
//! root is `/sessions/{id}/files`.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use http::{HeaderValue, StatusCode};
use stead_core::event::{Existing, FileOperation, Parents};
use stead_core::{Actor, SessionId};
use stead_engine::OpError;
use stead_engine::ops::{self, Opened};
use stead_fs::{FsError, WorkspacePath};
use stead_providers::{OperateError, Placement};
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::conditions::{Required, Wanted};
use crate::extract::path::{FilePath, SessionPath};
use crate::extract::query::{Nothing, Parameters, Query, ReadQuery};
use crate::extract::upload::Upload;
use crate::problem::Problem;
use crate::respond::download::{self, Facts};
use crate::wire::IntoWire as _;
use stead_api::file::{Directory, Placed};
use stead_api::schema;

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; Form holds it")]
pub(crate) struct ReadParams {
    /// `tar` returns a directory and everything in it as a tar archive. By default a directory is
    /// returned as a listing.
    #[param(value_type = Option<schema::TarForm>)]
    format: Option<String>,
}

/// Format in which a directory is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Tar,
}

impl ReadQuery for Form {
    fn read(parameters: &mut Parameters) -> Self {
        match parameters.word("format", &["tar"]) {
            Some(_) => Self::Tar,
            None => Self::Plain,
        }
    }
}

/// Read a file, or list a directory.
///
/// `Range` selects one range of bytes. `If-None-Match` with the file's `ETag` gives status 304 if
/// the file is unchanged.
#[utoipa::path(get, path = "/sessions/{id}/files/{*path}", tag = "files", operation_id = "read_file",
    params(("id" = schema::SessionId, Path), ("path" = schema::FilePath, Path), ReadParams,
        ("Range" = Option<String>, Header), ("If-None-Match" = Option<String>, Header), ("If-Range" = Option<String>, Header)),
    responses((status = 200, content((schema::Bytes = "application/octet-stream"), (Directory = "application/json"), (schema::Bytes = "application/x-tar")),
            headers(("ETag" = String), ("Last-Modified" = String), ("Accept-Ranges" = String))),
        (status = 206, content((schema::Bytes = "application/octet-stream")), headers(("Content-Range" = String))),
        (status = 304, description = "It is what you have."), (status = 409), (status = 416, headers(("Content-Range" = String)))))]
pub(crate) async fn read(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    FilePath(path): FilePath,
    Query(form): Query<Form>,
    wanted: Wanted,
) -> Result<Response, Problem> {
    match form {
        Form::Plain => look(&app, &actor, id, &path, &wanted).await,
        Form::Tar => tar(&app, &actor, id, &path).await,
    }
}

/// Show the headers of a file without its bytes.
#[utoipa::path(head, path = "/sessions/{id}/files/{*path}", tag = "files", operation_id = "head_file",
    params(("id" = schema::SessionId, Path), ("path" = schema::FilePath, Path), ReadParams,
        ("Range" = Option<String>, Header), ("If-None-Match" = Option<String>, Header), ("If-Range" = Option<String>, Header)),
    responses((status = 200, headers(("ETag" = String), ("Last-Modified" = String), ("Accept-Ranges" = String))), (status = 206),
        (status = 304, description = "It is what you have."), (status = 409), (status = 416)))]
pub(crate) async fn head(
    app: State<App>,
    caller: Caller,
    session: SessionPath,
    path: FilePath,
    form: Query<Form>,
    wanted: Wanted,
) -> Result<Response, Problem> {
    read(app, caller, session, path, form, wanted).await
}

/// List the workspace root, or read all files as a tar archive.
#[utoipa::path(get, path = "/sessions/{id}/files", tag = "files", operation_id = "read_root",
    params(("id" = schema::SessionId, Path), ReadParams),
    responses((status = 200, content((Directory = "application/json"), (schema::Bytes = "application/x-tar"))), (status = 409)))]
pub(crate) async fn read_root(
    app: State<App>,
    caller: Caller,
    session: SessionPath,
    form: Query<Form>,
) -> Result<Response, Problem> {
    read(app, caller, session, FilePath(WorkspacePath::root()), form, Wanted::default()).await
}

async fn look(
    app: &App,
    actor: &Actor,
    id: SessionId,
    path: &WorkspacePath,
    wanted: &Wanted,
) -> Result<Response, Problem> {
    Ok(match ops::open_path(&app.engine, actor, id, &path.to_string()).await? {
        Opened::File(file) => {
            let facts = Facts { hash: file.hash.to_string(), modified_millis: Some(file.stat.updated_at_millis) };
            download::file(file.content, &facts, wanted)?
        }
        Opened::Directory(listing) => Answer((path, listing).into_wire()).into_response(),
    })
}

async fn tar(app: &App, actor: &Actor, id: SessionId, path: &WorkspacePath) -> Result<Response, Problem> {
    Ok(download::tar(ops::export_tar(&app.engine, actor, id, &path.to_string()).await?))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; PutQuery holds them")]
pub(crate) struct PutParams {
    /// `1` creates missing parent directories. The default is `0`: a missing parent directory is an
    /// error.
    #[param(minimum = 0, maximum = 1)]
    mkdir: Option<u64>,
    /// `directory` makes a directory and its missing parents; the body must be empty. `tar` unpacks
    /// the body (tar, tar.gz, tar.zst or zip) into the directory, completely or not at all. By
    /// default the body is the content of a file.
    #[param(value_type = Option<schema::PutForm>)]
    format: Option<String>,
}

/// Meaning of the body of a PUT request.
pub(crate) enum PutQuery {
    File(Parents),
    Directory,
    Archive,
}

impl ReadQuery for PutQuery {
    fn read(parameters: &mut Parameters) -> Self {
        let mkdir = parameters.number("mkdir", 0..=1) == Some(1);
        match parameters.word("format", &["directory", "tar"]) {
            Some("directory") => Self::Directory,
            Some(_) => Self::Archive,
            None => Self::File(if mkdir { Parents::Make } else { Parents::Require }),
        }
    }
}

/// Write a file of any size, make a directory, or unpack an archive into one.
///
/// `If-Match` with the file's `ETag` only replaces that version of the file. `If-None-Match: *`
/// only creates a new file.
#[utoipa::path(put, path = "/sessions/{id}/files/{*path}", tag = "files", operation_id = "put_file",
    params(("id" = schema::SessionId, Path), ("path" = schema::FilePath, Path), PutParams,
        ("If-Match" = Option<schema::EntityTag>, Header), ("If-None-Match" = Option<schema::AnyTag>, Header)),
    request_body(content = schema::Bytes, content_type = "application/octet-stream"),
    responses((status = 201, body = Placed, description = "It is new.", headers(("ETag" = String))),
        (status = 200, body = Placed, description = "It replaced what was there.", headers(("ETag" = String))),
        (status = 409), (status = 412, headers(("ETag" = String))), (status = 422)))]
pub(crate) async fn put(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    FilePath(path): FilePath,
    Query(query): Query<PutQuery>,
    required: Required,
    upload: Upload,
) -> Result<Response, Problem> {
    let text = path.to_string();
    match query {
        PutQuery::File(parents) => {
            let existing = if required.absent { Existing::Refuse } else { Existing::Replace };
            let target = ops::PutTarget { path: text, if_match: required.if_match, existing, parents };
            let put = ops::put_file(&app.engine, &actor, id, target, upload.reader()).await;
            let put = put.map_err(|error| advise(error, parents))?;
            let mut response = placed(put.operated.placement, (&path, &put).into_wire());
            if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", put.hash)) {
                response.headers_mut().insert(ETAG, tag);
            }
            Ok(response)
        }
        PutQuery::Directory => {
            upload.expect_empty().await?;
            let operation = FileOperation::MakeDirectory { path: text };
            let operated = ops::operate_files(&app.engine, &actor, id, operation).await?;
            Ok(placed(operated.placement, (&path, &operated).into_wire()))
        }
        PutQuery::Archive => {
            let operated = ops::unpack_archive(&app.engine, &actor, id, text, upload.reader()).await?;
            Ok(placed(operated.placement, (&path, &operated).into_wire()))
        }
    }
}

fn advise(error: OpError, parents: Parents) -> Problem {
    let parent_missing = matches!(error, OpError::Operate(OperateError::Fs(FsError::NotFound { .. })));
    let problem = Problem::from(error);
    if parent_missing && parents == Parents::Require {
        problem.hint("add ?mkdir=1 to make the directory")
    } else {
        problem
    }
}

fn placed(placement: Option<Placement>, placed: Placed) -> Response {
    let status = if placement == Some(Placement::Created) { StatusCode::CREATED } else { StatusCode::OK };
    (status, Answer(placed)).into_response()
}

/// Unpack an archive into the workspace root, completely or not at all.
#[utoipa::path(put, path = "/sessions/{id}/files", tag = "files", operation_id = "put_root",
    params(("id" = schema::SessionId, Path), ("format" = schema::TarForm, Query, description = "Always `tar`: the body is an archive (tar, tar.gz, tar.zst or zip).")),
    request_body(content = schema::Bytes, content_type = "application/octet-stream"),
    responses((status = 200, body = Placed), (status = 409), (status = 422)))]
pub(crate) async fn put_root(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(form): Query<Form>,
    upload: Upload,
) -> Result<Response, Problem> {
    if form == Form::Plain {
        return Err(Problem::invalid("format", "must be tar: the root is a directory"));
    }
    let root = WorkspacePath::root();
    let operated = ops::unpack_archive(&app.engine, &actor, id, root.to_string(), upload.reader()).await?;
    Ok(placed(operated.placement, (&root, &operated).into_wire()))
}

/// Remove a file, or a directory with everything in it.
#[utoipa::path(delete, path = "/sessions/{id}/files/{*path}", tag = "files", operation_id = "delete_file",
    params(("id" = schema::SessionId, Path), ("path" = schema::FilePath, Path), ("If-Match" = Option<schema::EntityTag>, Header)),
    responses((status = 204, description = "It is gone."), (status = 409), (status = 412, headers(("ETag" = String)))))]
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    FilePath(path): FilePath,
    _: Query<Nothing>,
    required: Required,
) -> Result<StatusCode, Problem> {
    let operation = FileOperation::Delete { path: path.to_string(), if_match: required.if_match };
    ops::operate_files(&app.engine, &actor, id, operation).await?;
    Ok(StatusCode::NO_CONTENT)
}
