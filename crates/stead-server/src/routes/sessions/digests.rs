//! `/sessions/{id}/digest`

use axum::Json as Answer;
use axum::extract::State;
use stead_core::Name;
use stead_core::digest::{DEFAULT_TAG, default_key};
use stead_engine::ops::{self, DigestName};
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Json;
use crate::extract::path::SessionPath;
use crate::extract::query::{Parameters, Query, ReadQuery};
use crate::problem::Problem;
use crate::wire::IntoWire as _;
use stead_api::digest::{DigestRequest, GenerateRequest, WorkspaceDigest};
use stead_api::schema;

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; DigestName holds them")]
pub(crate) struct DigestParams {
    /// Key of the digest; `workspace-digest` by default.
    #[param(value_type = Option<schema::Name>)]
    section_key: Option<String>,
    /// Tag of the digest for all sessions; `latest` by default.
    #[param(value_type = Option<schema::Name>)]
    tag: Option<String>,
}

impl ReadQuery for DigestName {
    fn read(parameters: &mut Parameters) -> Self {
        let section_key = parameters.parsed::<Name>("section_key").unwrap_or_else(default_key);
        let tag = parameters.parsed::<Name>("tag");
        // `DEFAULT_TAG` always parses. The section key is only there because the type needs a
        // value.
        let tag = tag.or_else(|| DEFAULT_TAG.parse().ok()).unwrap_or_else(|| section_key.clone());
        Self { section_key, tag }
    }
}

/// Show a digest.
///
/// Returns the session's own digest, else the digest for all sessions, else a placeholder. A
/// placeholder also adds a warning to the session.
#[utoipa::path(get, path = "/sessions/{id}/digest", tag = "digests", operation_id = "get_digest",
    params(("id" = schema::SessionId, Path), DigestParams), responses((status = 200, body = WorkspaceDigest)))]
pub(crate) async fn show(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    Query(name): Query<DigestName>,
) -> Result<Answer<WorkspaceDigest>, Problem> {
    Ok(Answer(ops::digest(&app.engine, id, name).await?.into_wire()))
}

/// Set a digest for the session.
///
/// An operator can set it for all sessions with `"scope": "global"`.
#[utoipa::path(put, path = "/sessions/{id}/digest", tag = "digests", operation_id = "set_digest",
    params(("id" = schema::SessionId, Path), DigestParams), request_body = DigestRequest,
    responses((status = 200, body = WorkspaceDigest), (status = 409)))]
pub(crate) async fn set(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(name): Query<DigestName>,
    body: Json<DigestRequest>,
) -> Result<Answer<WorkspaceDigest>, Problem> {
    Ok(Answer(ops::set_digest(&app.engine, &actor, id, name, body.value.into()).await?.into_wire()))
}

/// Generate a digest from the current files and set it.
///
/// The server uses no model for this. The same files give the same digest.
#[utoipa::path(post, path = "/sessions/{id}/digest:generate", tag = "digests", operation_id = "generate_digest",
    params(("id" = schema::SessionId, Path), DigestParams), request_body = GenerateRequest,
    responses((status = 200, body = WorkspaceDigest), (status = 409), (status = 503)))]
pub(crate) async fn generate(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(name): Query<DigestName>,
    body: Json<GenerateRequest>,
) -> Result<Answer<WorkspaceDigest>, Problem> {
    Ok(Answer(ops::generate_digest(&app.engine, &actor, id, name, body.value.scope).await?.into_wire()))
}
