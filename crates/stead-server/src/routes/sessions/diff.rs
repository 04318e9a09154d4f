//! `/sessions/{id}/diff` and `/sessions/{id}/export`: a session's changes and files.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use stead_engine::ops;
use stead_fs::Content;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::headers::AcceptsPatch;
use crate::extract::path::SessionPath;
use crate::extract::query::{Parameters, Query, ReadQuery};
use crate::problem::Problem;
use crate::respond::download;
use crate::wire::IntoWire as _;
use stead_api::file::Diff;
use stead_api::schema;

const PATCH: &str = "text/x-diff";

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; DiffForm holds it")]
pub(crate) struct DiffParams {
    /// `json` (the default), or `patch` for the patch alone as text. `Accept: text/x-diff` also
    /// selects `patch`.
    #[param(value_type = Option<schema::DiffForm>)]
    format: Option<String>,
}

pub(crate) struct DiffForm(Option<&'static str>);

impl ReadQuery for DiffForm {
    fn read(parameters: &mut Parameters) -> Self {
        Self(parameters.word("format", &["json", "patch"]))
    }
}

/// Show the changes to the files since the session started.
#[utoipa::path(get, path = "/sessions/{id}/diff", tag = "files", operation_id = "diff_session",
    params(("id" = schema::SessionId, Path), DiffParams),
    responses((status = 200, content((Diff = "application/json"), (schema::PatchText = "text/x-diff"))), (status = 409)))]
pub(crate) async fn show(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(DiffForm(form)): Query<DiffForm>,
    AcceptsPatch(accepts_patch): AcceptsPatch,
) -> Result<Response, Problem> {
    let patch = ops::diff(&app.engine, &actor, id).await?;
    let as_text = form.map_or(accepts_patch, |form| form == "patch");
    if as_text { text(patch.text) } else { Ok(Answer(patch.into_wire()).into_response()) }
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; ExportForm holds it")]
pub(crate) struct ExportParams {
    /// `tar` (the default) for all files as they are now, or `patch` for the changes since the
    /// session started.
    #[param(value_type = Option<schema::ExportForm>)]
    format: Option<String>,
}

#[derive(PartialEq)]
pub(crate) enum ExportForm {
    Tar,
    Patch,
}

impl ReadQuery for ExportForm {
    fn read(parameters: &mut Parameters) -> Self {
        match parameters.word("format", &["tar", "patch"]) {
            Some("patch") => Self::Patch,
            _ => Self::Tar,
        }
    }
}

/// Export the workspace: all files as a tar archive, or the changes as a patch.
#[utoipa::path(get, path = "/sessions/{id}/export", tag = "files", operation_id = "export_session",
    params(("id" = schema::SessionId, Path), ExportParams),
    responses((status = 200, content((schema::Bytes = "application/x-tar"), (schema::PatchText = "text/x-diff"))), (status = 409)))]
pub(crate) async fn export(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(form): Query<ExportForm>,
) -> Result<Response, Problem> {
    if form == ExportForm::Patch {
        return text(ops::diff(&app.engine, &actor, id).await?.text);
    }
    Ok(download::tar(ops::export_tar(&app.engine, &actor, id, "/").await?))
}

fn text(patch: String) -> Result<Response, Problem> {
    download::made(Content::Bytes(patch.into()), PATCH)
}
