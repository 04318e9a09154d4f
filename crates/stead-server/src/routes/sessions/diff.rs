//! `/sessions/{id}/diff` and `/sessions/{id}/export`: a session's changes and files.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use stead_engine::ops::{self, DiffScope, DiffTime};
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
const STAT: &str = "text/plain";

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; DiffQuery holds them")]
pub(crate) struct DiffParams {
    /// `json` (the default), `patch` for the patch alone as text, or `stat` for one line per
    /// changed file. `Accept: text/x-diff` also selects `patch`.
    #[param(value_type = Option<schema::DiffForm>)]
    format: Option<String>,
    /// Includes files that `.gitignore` matches. They are otherwise left out of a git workspace,
    /// unless the repository tracks them.
    all: Option<bool>,
    /// Sequence number of an event: shows the changes as they were after it. A checkpoint must hold
    /// the files (`GET /sessions/{id}/rewind`). Without it, the changes are those until now.
    #[param(minimum = 1, maximum = 9007199254740992_u64)]
    at: Option<u64>,
}

pub(crate) struct DiffQuery {
    form: Option<&'static str>,
    scope: DiffScope,
    time: DiffTime,
}

impl ReadQuery for DiffQuery {
    fn read(parameters: &mut Parameters) -> Self {
        let time = parameters.number("at", 1..=1 << 53).map_or(DiffTime::Now, DiffTime::After);
        Self { form: parameters.word("format", &["json", "patch", "stat"]), scope: scope(parameters), time }
    }
}

fn scope(parameters: &mut Parameters) -> DiffScope {
    match parameters.word("all", &["true", "false"]) {
        Some("true") => DiffScope::All,
        _ => DiffScope::WithoutIgnored,
    }
}

/// Show the changes to the files since the session started, now or after an event.
#[utoipa::path(get, path = "/sessions/{id}/diff", tag = "files", operation_id = "diff_session",
    params(("id" = schema::SessionId, Path), DiffParams),
    responses((status = 200, content((Diff = "application/json"), (schema::PatchText = "text/x-diff"), (schema::StatText = "text/plain"))), (status = 409)))]
pub(crate) async fn show(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(DiffQuery { form, scope, time }): Query<DiffQuery>,
    AcceptsPatch(accepts_patch): AcceptsPatch,
) -> Result<Response, Problem> {
    let patch = ops::diff(&app.engine, &actor, id, scope, time).await?;
    match form.or(accepts_patch.then_some("patch")) {
        Some("patch") => text(patch.annotated(), PATCH),
        Some("stat") => text(patch.stat(), STAT),
        _ => Ok(Answer(patch.into_wire()).into_response()),
    }
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; ExportForm holds them")]
pub(crate) struct ExportParams {
    /// `tar` (the default) for all files as they are now, or `patch` for the changes since the
    /// session started.
    #[param(value_type = Option<schema::ExportForm>)]
    format: Option<String>,
    /// For `patch`: includes files that `.gitignore` matches. A tar always has all files.
    all: Option<bool>,
}

pub(crate) enum ExportForm {
    Tar,
    Patch(DiffScope),
}

impl ReadQuery for ExportForm {
    fn read(parameters: &mut Parameters) -> Self {
        let scope = scope(parameters);
        match parameters.word("format", &["tar", "patch"]) {
            Some("patch") => Self::Patch(scope),
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
    match form {
        ExportForm::Patch(scope) => {
            text(ops::diff(&app.engine, &actor, id, scope, DiffTime::Now).await?.annotated(), PATCH)
        }
        ExportForm::Tar => Ok(download::tar(ops::export_tar(&app.engine, &actor, id, "/").await?)),
    }
}

fn text(text: String, media_type: &'static str) -> Result<Response, Problem> {
    download::made(Content::Bytes(text.into()), media_type)
}
