//! `/content`: named, versioned trees of prompts, tool descriptors and context files, and the JSON
//! Schemas of those files.

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::{FromRequest as _, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};
use serde_json::Value;
use stead_core::content::{ContentPath, schema as published};
use stead_core::parse::{FieldPath, Fields, Read};
use stead_engine::content::NewFile;
use stead_engine::content::tree::FileMode;
use stead_engine::ops;
use stead_fs::Content;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::{Caller, InProject, Tenancy};
use crate::extract::body::MaybeJson;
use crate::extract::conditions::Wanted;
use crate::extract::headers::IdempotencyKey;
use crate::extract::path::{ContentFilePath, ContentName, SchemaPath, VersionPath};
use crate::extract::query::{Nothing, Parameters, Query, ReadQuery};
use crate::extract::upload::Upload;
use crate::problem::Problem;
use crate::respond::download::{self, Facts};
use crate::routes::paging::{Paging, PagingParams, ProjectParams};
use crate::wire::IntoWire;
use stead_api::content::{ContentDiff, ContentHistory, ContentSchema, ContentTree, ContentVersion};
use stead_api::list::List;
use stead_api::schema;

/// List content by name, each with its newest version.
#[utoipa::path(get, path = "/content", tag = "content", operation_id = "list_content", params(PagingParams, ProjectParams),
    responses((status = 200, body = List<ContentVersion>)))]
pub(crate) async fn list(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(InProject { project, rest: paging }): Query<InProject<Paging>>,
) -> Result<Answer<List<ContentVersion>>, Problem> {
    let tenant = tenancy.tenant(project)?;
    let page = ops::Page { after: paging.cursor.map(String::from), limit: paging.limit + 1 };
    let found = ops::contents(&app.engine, &tenant, &page).await?;
    Ok(Answer(List::page(found, paging.limit, |version| version.name.to_string(), IntoWire::into_wire)))
}

/// Show all versions of one name, oldest first.
#[utoipa::path(get, path = "/content/{name}", tag = "content", operation_id = "show_content",
    params(("name" = schema::Name, Path), ProjectParams), responses((status = 200, body = ContentHistory)))]
pub(crate) async fn show(
    State(app): State<App>,
    tenancy: Tenancy,
    ContentName(name): ContentName,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<Answer<ContentHistory>, Problem> {
    let versions = ops::content_versions(&app.engine, &tenancy.tenant(project)?, &name).await?;
    let head = versions.last().map_or(0, |version| version.version);
    Ok(Answer(ContentHistory { name, head, versions: versions.into_wire() }))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; Conditions holds them")]
pub(crate) struct PushParams {
    /// Fail with 409 unless this is the newest version. 0 means that no version may exist.
    #[param(minimum = 0, maximum = 9007199254740992_u64)]
    expected_head: Option<u64>,
    /// `1` stores the version even if it is not valid. Sessions cannot adopt an invalid version.
    /// The default is `0`.
    #[param(value_type = Option<schema::Flag>)]
    allow_invalid: Option<String>,
}

pub(crate) struct Conditions {
    expected_head: Option<u64>,
    faulty: ops::Faulty,
}

impl ReadQuery for Conditions {
    fn read(parameters: &mut Parameters) -> Self {
        let expected_head = parameters.number("expected_head", 0..=1 << 53);
        let keep = parameters.word("allow_invalid", &["0", "1"]) == Some("1");
        Self { expected_head, faulty: if keep { ops::Faulty::Keep } else { ops::Faulty::Refuse } }
    }
}

/// Push a new version of content.
///
/// The body is JSON, or a tar, tar.gz, tar.zst or zip archive. The server stores all files or none.
#[utoipa::path(post, path = "/content/{name}/versions", tag = "content", operation_id = "push_content",
    params(("name" = schema::Name, Path), ProjectParams, PushParams, ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")),
    request_body(content((schema::ContentFiles = "application/json"), (schema::Bytes = "application/octet-stream"))),
    responses((status = 201, body = ContentVersion, headers(("Location" = String))), (status = 409), (status = 422)))]
pub(crate) async fn push(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    ContentName(name): ContentName,
    Query(InProject { project, rest: conditions }): Query<InProject<Conditions>>,
    IdempotencyKey(key): IdempotencyKey,
    request: Request,
) -> Result<Response, Problem> {
    let tenant = tenancy.changed_tenant(project)?;
    let _reserved = app.idempotency_keys.begin(&actor, key.as_deref())?;
    let (files, body_hash) = body(&app, request).await?;
    let idempotency = key.map(|key| ops::Idempotency { key, body_hash });
    let Conditions { expected_head, faulty } = conditions;
    let version = ops::NewVersion { tenant, name, files, expected_head, faulty };
    let pushed = ops::push_content(&app.engine, &actor, version, idempotency).await?;
    let version = pushed.into_wire();
    let location = format!("/api/v1/content/{}/versions/{}", version.name, version.version);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Answer(version)).into_response())
}

async fn body(app: &App, request: Request) -> Result<(Vec<NewFile>, [u8; 32]), Problem> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.trim_start().to_ascii_lowercase().starts_with("application/json") {
        let MaybeJson { value: Files(files), hash } = MaybeJson::from_request(request, app).await?;
        return Ok((files, hash));
    }
    let upload = Upload::from_request(request, app).await?;
    let (archive, hash) = upload.into_file().await?;
    Ok((ops::content_of_archive(archive).await?, hash))
}

/// A request body of the form `{"files": {path: text}}`.
struct Files(Vec<NewFile>);

impl Read for Files {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let given = fields.required::<BTreeMap<String, AnyText>>("files");
        let mut files = Vec::new();
        for (path, text) in given.into_iter().flatten() {
            match path.parse::<ContentPath>() {
                Ok(path) => files.push(NewFile { path, bytes: text.0.into(), mode: FileMode::Plain }),
                Err(error) => fields.fail("files", error.to_string()),
            }
        }
        fields.done();
        Some(Self(files))
    }
}

/// A string that may contain any character.
struct AnyText(String);

impl Read for AnyText {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self(text)),
            _ => at.fail("expected a string"),
        }
    }
}

/// Show a version and the list of its files.
#[utoipa::path(get, path = "/content/{name}/versions/{v}", tag = "content", operation_id = "show_content_version",
    params(("name" = schema::Name, Path), ProjectParams, ("v" = schema::Count, Path)), responses((status = 200, body = ContentTree)))]
pub(crate) async fn tree(
    State(app): State<App>,
    tenancy: Tenancy,
    ContentName(name): ContentName,
    VersionPath(version): VersionPath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
) -> Result<Answer<ContentTree>, Problem> {
    let version = ops::content_version(&app.engine, &tenancy.tenant(project)?, &name, Some(version)).await?;
    let files = ops::content_files(&app.engine, &version).await?;
    let tree = files.into_wire();
    Ok(Answer(ContentTree { version: version.into_wire(), tree }))
}

/// Read a file of a version, or a range of its bytes.
#[utoipa::path(get, path = "/content/{name}/versions/{v}/files/{*path}", tag = "content", operation_id = "read_content_file",
    params(("name" = schema::Name, Path), ProjectParams, ("v" = schema::Count, Path), ("path" = schema::ContentPath, Path),
        ("Range" = Option<String>, Header), ("If-None-Match" = Option<String>, Header), ("If-Range" = Option<String>, Header)),
    responses((status = 200, content((schema::Bytes = "application/octet-stream")), headers(("ETag" = String), ("Accept-Ranges" = String))),
        (status = 206, content((schema::Bytes = "application/octet-stream")), headers(("Content-Range" = String))),
        (status = 304, description = "It is what you have."), (status = 416, headers(("Content-Range" = String)))))]
pub(crate) async fn read_file(
    State(app): State<App>,
    tenancy: Tenancy,
    ContentName(name): ContentName,
    VersionPath(version): VersionPath,
    ContentFilePath(path): ContentFilePath,
    Query(InProject { project, .. }): Query<InProject<Nothing>>,
    wanted: Wanted,
) -> Result<Response, Problem> {
    let version = ops::content_version(&app.engine, &tenancy.tenant(project)?, &name, Some(version)).await?;
    let (file, blob) = ops::open_content_file(&app.engine, &version, &path).await?;
    let content = Content::Stream { reader: Box::new(blob.file.into_std().await), size: blob.len };
    download::file(content, &Facts { hash: file.hash.to_string(), modified_millis: None }, &wanted)
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; Between holds them")]
pub(crate) struct DiffParams {
    /// Version to compare from; the version before `to` by default.
    #[param(minimum = 1, maximum = 9007199254740992_u64)]
    from: Option<u64>,
    /// Version to compare with; the newest version by default.
    #[param(minimum = 1, maximum = 9007199254740992_u64)]
    to: Option<u64>,
}

pub(crate) struct Between {
    from: Option<u64>,
    to: Option<u64>,
}

impl ReadQuery for Between {
    fn read(parameters: &mut Parameters) -> Self {
        Self { from: parameters.number("from", 1..=1 << 53), to: parameters.number("to", 1..=1 << 53) }
    }
}

/// Compare two versions of content.
#[utoipa::path(get, path = "/content/{name}/diff", tag = "content", operation_id = "diff_content",
    params(("name" = schema::Name, Path), ProjectParams, DiffParams), responses((status = 200, body = ContentDiff)))]
pub(crate) async fn diff(
    State(app): State<App>,
    tenancy: Tenancy,
    ContentName(name): ContentName,
    Query(InProject { project, rest: Between { from, to } }): Query<InProject<Between>>,
) -> Result<Answer<ContentDiff>, Problem> {
    let tenant = tenancy.tenant(project)?;
    let to = ops::content_version(&app.engine, &tenant, &name, to).await?;
    let from = from.unwrap_or_else(|| to.version.saturating_sub(1).max(1));
    let from = ops::content_version(&app.engine, &tenant, &name, Some(from)).await?;
    let changes = ops::content_diff(&app.engine, &from, &to).await?;
    let changes = changes.into_wire();
    Ok(Answer(ContentDiff { name, from: from.version, to: to.version, changes }))
}

/// List the JSON Schemas of the files in a content tree.
#[utoipa::path(get, path = "/schemas", tag = "content", operation_id = "list_schemas",
    responses((status = 200, body = List<ContentSchema>)))]
pub(crate) async fn schemas(_: Query<Nothing>) -> Answer<List<ContentSchema>> {
    let one =
        |(name, _): &(&str, &str)| ContentSchema { name: (*name).to_owned(), path: format!("/api/v1/schemas/{name}") };
    Answer(List::whole(published::SCHEMAS.iter().map(one).collect()))
}

/// Show one JSON Schema for content files.
#[utoipa::path(get, path = "/schemas/{schema}", tag = "content", operation_id = "show_schema",
    params(("schema" = schema::SchemaName, Path)),
    responses((status = 200, content((schema::JsonSchema = "application/schema+json")))))]
pub(crate) async fn schema(SchemaPath(text): SchemaPath, _: Query<Nothing>) -> Response {
    ([(CONTENT_TYPE, "application/schema+json")], text).into_response()
}
