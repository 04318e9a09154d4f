//! `/sessions/{id}/runs`

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::LOCATION;
use stead_core::content::run::{CallFrom, RunEnd, RunRequest, StepRequest};
use stead_core::{Actor, RunId, SessionId};
use stead_engine::ops::{self, CallLink};
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::MaybeJson;
use crate::extract::headers::IdempotencyKey;
use crate::extract::path::{RunPath, SessionPath, StepPath};
use crate::extract::query::{Nothing, Parameters, Query, ReadQuery};
use crate::problem::Problem;
use crate::wire::IntoWire as _;
use crate::wire::run::bound_answer;
use stead_api::list::List;
use stead_api::run::{BoundAnswer, CallRequest, EndRequest, Format, Run, Step};
use stead_api::schema;

/// Start a run.
///
/// Content that is staged for the next run is adopted first.
#[utoipa::path(post, path = "/sessions/{id}/runs", tag = "runs", operation_id = "start_run",
    params(("id" = schema::SessionId, Path), ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")),
    request_body = schema::RunRequest,
    responses((status = 201, body = Run, headers(("Location" = String))), (status = 409), (status = 422)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    IdempotencyKey(key): IdempotencyKey,
    body: MaybeJson<RunRequest>,
) -> Result<Response, Problem> {
    let _reserved = app.idempotency_keys.begin(&actor, key.as_deref())?;
    let idempotency = key.map(|key| ops::Idempotency { key, body_hash: body.hash });
    let run: Run = ops::start_run(&app.engine, &actor, id, body.value, idempotency).await?.into_wire();
    let location = format!("/api/v1/sessions/{id}/runs/{}", run.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Answer(run)).into_response())
}

/// List the runs of a session, oldest first.
#[utoipa::path(get, path = "/sessions/{id}/runs", tag = "runs", operation_id = "list_runs",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = List<Run>)))]
pub(crate) async fn list(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<List<Run>>, Problem> {
    Ok(Answer(List::whole(ops::runs(&app.engine, id).await?.into_wire())))
}

/// Show a run.
#[utoipa::path(get, path = "/sessions/{id}/runs/{run}", tag = "runs", operation_id = "show_run",
    params(("id" = schema::SessionId, Path), ("run" = schema::RunId, Path)), responses((status = 200, body = Run)))]
pub(crate) async fn show(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    RunPath(run): RunPath,
    _: Query<Nothing>,
) -> Result<Answer<Run>, Problem> {
    Ok(Answer(ops::run(&app.engine, id, run).await?.into_wire()))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; Format holds it")]
pub(crate) struct FormatParams {
    /// Format of the model request: Stead's own (`neutral`, the default), Anthropic Messages
    /// (`anthropic`) or OpenAI Chat Completions (`openai`).
    #[param(value_type = Option<Format>)]
    format: Option<String>,
}

impl ReadQuery for Format {
    fn read(parameters: &mut Parameters) -> Self {
        match parameters.word("format", &["neutral", "anthropic", "openai"]) {
            Some("anthropic") => Self::Anthropic,
            Some("openai") => Self::Openai,
            _ => Self::Neutral,
        }
    }
}

/// Start a step of a run and return the request to send to the model.
///
/// A step is a boundary at which the session may adopt staged content.
#[utoipa::path(post, path = "/sessions/{id}/runs/{run}/steps", tag = "runs", operation_id = "start_step",
    params(("id" = schema::SessionId, Path), ("run" = schema::RunId, Path), FormatParams,
        ("Idempotency-Key" = Option<String>, Header, pattern = "^[!-~]{1,255}$")),
    request_body = schema::StepRequest,
    responses((status = 201, body = Step), (status = 409), (status = 422)))]
pub(crate) async fn step(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    RunPath(run): RunPath,
    Query(format): Query<Format>,
    IdempotencyKey(key): IdempotencyKey,
    body: MaybeJson<StepRequest>,
) -> Result<Response, Problem> {
    let _reserved = app.idempotency_keys.begin(&actor, key.as_deref())?;
    let idempotency = key.map(|key| ops::Idempotency { key, body_hash: body.hash });
    let reply = ops::start_step(&app.engine, &actor, id, run, body.value, idempotency).await?;
    Ok((StatusCode::CREATED, Answer((reply, format).into_wire())).into_response())
}

/// Show an earlier step, rebuilt from the journal.
#[utoipa::path(get, path = "/sessions/{id}/runs/{run}/steps/{step}", tag = "runs", operation_id = "show_step",
    params(("id" = schema::SessionId, Path), ("run" = schema::RunId, Path), ("step" = schema::Count, Path), FormatParams),
    responses((status = 200, body = Step)))]
pub(crate) async fn show_step(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    RunPath(run): RunPath,
    StepPath(step): StepPath,
    Query(format): Query<Format>,
) -> Result<Answer<Step>, Problem> {
    Ok(Answer((ops::step(&app.engine, id, run, step).await?, format).into_wire()))
}

async fn end(
    app: &App,
    actor: &Actor,
    id: SessionId,
    run: RunId,
    how: RunEnd,
    request: EndRequest,
) -> Result<Answer<Run>, Problem> {
    let EndRequest { code, detail, reason } = request;
    let (code, detail) = (code.map(|code| code.0), detail.or(reason).map(|detail| detail.0));
    Ok(Answer(ops::end_run(&app.engine, actor, id, run, how, code, detail).await?.into_wire()))
}

/// Mark a run as completed.
#[utoipa::path(post, path = "/sessions/{id}/runs/{run}/complete", tag = "runs", operation_id = "complete_run",
    params(("id" = schema::SessionId, Path), ("run" = schema::RunId, Path)), request_body = EndRequest,
    responses((status = 200, body = Run), (status = 409)))]
pub(crate) async fn complete(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    RunPath(run): RunPath,
    _: Query<Nothing>,
    body: MaybeJson<EndRequest>,
) -> Result<Answer<Run>, Problem> {
    end(&app, &actor, id, run, RunEnd::Completed, body.value).await
}

/// Mark a run as failed.
#[utoipa::path(post, path = "/sessions/{id}/runs/{run}/fail", tag = "runs", operation_id = "fail_run",
    params(("id" = schema::SessionId, Path), ("run" = schema::RunId, Path)), request_body = EndRequest,
    responses((status = 200, body = Run), (status = 409)))]
pub(crate) async fn fail(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    RunPath(run): RunPath,
    _: Query<Nothing>,
    body: MaybeJson<EndRequest>,
) -> Result<Answer<Run>, Problem> {
    end(&app, &actor, id, run, RunEnd::Failed, body.value).await
}

/// Cancel a run.
#[utoipa::path(post, path = "/sessions/{id}/runs/{run}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = schema::SessionId, Path), ("run" = schema::RunId, Path)), request_body = EndRequest,
    responses((status = 200, body = Run), (status = 409)))]
pub(crate) async fn cancel(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    RunPath(run): RunPath,
    _: Query<Nothing>,
    body: MaybeJson<EndRequest>,
) -> Result<Answer<Run>, Problem> {
    end(&app, &actor, id, run, RunEnd::Cancelled, body.value).await
}

/// Call a tool for a run.
///
/// The tool must be visible in the catalog, bound to an operation and allowed, and the arguments
/// must match its schema.
#[utoipa::path(post, path = "/sessions/{id}/runs/{run}/tool-calls", tag = "runs", operation_id = "call_run_tool",
    params(("id" = schema::SessionId, Path), ("run" = schema::RunId, Path)), request_body = CallRequest,
    responses((status = 200, body = BoundAnswer), (status = 409), (status = 422)))]
pub(crate) async fn call_tool(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    RunPath(run): RunPath,
    _: Query<Nothing>,
    body: MaybeJson<CallRequest>,
) -> Result<Answer<BoundAnswer>, Problem> {
    let request = stead_core::content::run::CallRequest::from(body.value);
    let (name, arguments, call_id) = (request.name.clone(), request.arguments.clone(), request.call_id.clone());
    match ops::call_bound_tool(&app.engine, &actor, id, CallFrom::Run(run), request, CallLink::default()).await {
        Ok(reply) => Ok(Answer(bound_answer(reply, name, &arguments, call_id))),
        Err(error) => Err(Problem::from(error).with_tool_result(call_id.as_deref(), &name)),
    }
}
