//! `/sessions/{id}/execs`

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use stead_engine::ops;
use stead_providers::InputEnd;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Json;
use crate::extract::headers::{IdempotencyKey, LastEventId};
use crate::extract::path::{ExecPath, SessionPath};
use crate::extract::query::{Nothing, Parameters, Query, ReadQuery};
use crate::problem::Problem;
use crate::respond::exec_stream;
use crate::wire::IntoWire as _;
use stead_api::exec::{Exec, ExecRequest, OutputPage, ResizeRequest, SignalRequest, StdinRequest};
use stead_api::list::List;
use stead_api::schema;

/// Number of bytes after which an answer with output ends.
const PAGE_BYTES: usize = 1 << 20;

/// Run a command in the session's box.
///
/// The response comes at the end of the command, or at once if the command runs in the background.
/// The command continues if the client disconnects or the server restarts. A missing program
/// gives the exit code 127, one that cannot be executed 126. If the box cannot start any process,
/// the exec has `status: failed`.
#[utoipa::path(post, path = "/sessions/{id}/execs", tag = "execs", operation_id = "create_exec",
    params(("id" = schema::SessionId, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body again get the same exec.", pattern = "^[!-~]{1,255}$")),
    request_body = ExecRequest,
    responses((status = 201, body = Exec), (status = 409), (status = 422)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    IdempotencyKey(key): IdempotencyKey,
    body: Json<ExecRequest>,
) -> Result<(StatusCode, Answer<Exec>), Problem> {
    let _reserved = app.idempotency_keys.begin(&actor, key.as_deref())?;
    let idempotency = key.map(|key| ops::Idempotency { key, body_hash: body.hash });
    let made = ops::start_exec(&app.engine, &actor, id, body.value.into_order(), idempotency).await?;
    Ok((StatusCode::CREATED, Answer(made.into_wire())))
}

/// List running and recently ended execs, oldest first, without their output.
#[utoipa::path(get, path = "/sessions/{id}/execs", tag = "execs", operation_id = "list_execs",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = List<Exec>)))]
pub(crate) async fn list(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<List<Exec>>, Problem> {
    let found = ops::execs(&app.engine, &actor, id).await?;
    Ok(Answer(List::whole(found.into_wire())))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; Patience holds them")]
pub(crate) struct WaitParams {
    /// Maximum number of seconds to wait for the end of the command. Without it, the response comes
    /// at once.
    #[param(minimum = 0, maximum = 300)]
    wait: Option<u64>,
}

pub(crate) struct Patience(Option<Duration>);

impl ReadQuery for Patience {
    fn read(parameters: &mut Parameters) -> Self {
        Self(parameters.number("wait", 0..=300).map(Duration::from_secs))
    }
}

/// Show an exec.
///
/// After its end this includes the start and the end of its output.
#[utoipa::path(get, path = "/sessions/{id}/execs/{exec}", tag = "execs", operation_id = "show_exec",
    params(("id" = schema::SessionId, Path), ("exec" = schema::ExecId, Path), WaitParams),
    responses((status = 200, body = Exec)))]
pub(crate) async fn show(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    ExecPath(exec): ExecPath,
    Query(Patience(patience)): Query<Patience>,
) -> Result<Answer<Exec>, Problem> {
    Ok(Answer(ops::exec(&app.engine, &actor, id, exec, patience).await?.into_wire()))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; After holds them")]
pub(crate) struct AfterParams {
    /// Number of the last chunk that the client has; 0 by default.
    #[param(minimum = 0, maximum = 9007199254740992_u64)]
    after: Option<u64>,
}

pub(crate) struct After(Option<u64>);

impl ReadQuery for After {
    fn read(parameters: &mut Parameters) -> Self {
        Self(parameters.number("after", 0..=1 << 53))
    }
}

/// Stream the output of an exec as numbered chunks until it ends.
///
/// `id:` is the number of the chunk. A client that reconnects, also after a restart of the server,
/// sends `Last-Event-ID` and gets the following chunks without repetition. A client that reads too
/// slowly gets a `missed` event with the range of lost chunks.
#[utoipa::path(get, path = "/sessions/{id}/execs/{exec}/stream", tag = "execs", operation_id = "stream_exec",
    params(("id" = schema::SessionId, Path), ("exec" = schema::ExecId, Path), AfterParams,
        ("Last-Event-ID" = Option<String>, Header, description = "As `after`; a browser sends it when it reconnects.", pattern = "^[0-9]{1,15}$")),
    responses((status = 200, content((schema::OutputStream = "text/event-stream")))))]
pub(crate) async fn stream(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    ExecPath(exec): ExecPath,
    Query(After(after)): Query<After>,
    LastEventId(last): LastEventId,
) -> Result<Response, Problem> {
    let reader = ops::follow_exec(&app.engine, &actor, id, exec, last.or(after).unwrap_or(0)).await?;
    Ok(exec_stream::output(app, id, reader).into_response())
}

/// Read the output of an exec as numbered chunks, without waiting for more.
///
/// `after` of the answer is the number for the next request. An answer has about 1 MiB of output at
/// most; `more` tells that there is more.
#[utoipa::path(get, path = "/sessions/{id}/execs/{exec}/output", tag = "execs", operation_id = "exec_output",
    params(("id" = schema::SessionId, Path), ("exec" = schema::ExecId, Path), AfterParams),
    responses((status = 200, body = OutputPage)))]
pub(crate) async fn output(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    ExecPath(exec): ExecPath,
    Query(After(after)): Query<After>,
) -> Result<Answer<OutputPage>, Problem> {
    Ok(Answer(ops::exec_output(&app.engine, &actor, id, exec, after.unwrap_or(0), PAGE_BYTES).await?))
}

/// Write to an exec's standard input, or close it.
///
/// The response comes when the buffer of the command has room for all bytes.
#[utoipa::path(post, path = "/sessions/{id}/execs/{exec}/stdin", tag = "execs", operation_id = "feed_exec",
    params(("id" = schema::SessionId, Path), ("exec" = schema::ExecId, Path)),
    request_body = StdinRequest, responses((status = 204), (status = 409), (status = 422)))]
pub(crate) async fn stdin(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    ExecPath(exec): ExecPath,
    _: Query<Nothing>,
    body: Json<StdinRequest>,
) -> Result<StatusCode, Problem> {
    let end = if body.value.close { InputEnd::Last } else { InputEnd::More };
    // The parser has checked that the data can be decoded.
    let bytes = body.value.bytes().unwrap_or_default();
    ops::feed_exec(&app.engine, &actor, id, exec, &bytes, end).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a signal to an exec's process group.
#[utoipa::path(post, path = "/sessions/{id}/execs/{exec}/signal", tag = "execs", operation_id = "signal_exec",
    params(("id" = schema::SessionId, Path), ("exec" = schema::ExecId, Path)),
    request_body = SignalRequest, responses((status = 204), (status = 409), (status = 422)))]
pub(crate) async fn signal(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    ExecPath(exec): ExecPath,
    _: Query<Nothing>,
    body: Json<SignalRequest>,
) -> Result<StatusCode, Problem> {
    ops::signal_exec(&app.engine, &actor, id, exec, body.value.signal.0).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Resize an exec's terminal.
#[utoipa::path(post, path = "/sessions/{id}/execs/{exec}/resize", tag = "execs", operation_id = "resize_exec",
    params(("id" = schema::SessionId, Path), ("exec" = schema::ExecId, Path)),
    request_body = ResizeRequest, responses((status = 204), (status = 409), (status = 422)))]
pub(crate) async fn resize(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    ExecPath(exec): ExecPath,
    _: Query<Nothing>,
    body: Json<ResizeRequest>,
) -> Result<StatusCode, Problem> {
    ops::resize_exec(&app.engine, &actor, id, exec, body.value.size()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Kill every process of an exec, including orphaned ones.
///
/// The response comes when no process is left. Killing an exec again gives the same response.
#[utoipa::path(delete, path = "/sessions/{id}/execs/{exec}", tag = "execs", operation_id = "kill_exec",
    params(("id" = schema::SessionId, Path), ("exec" = schema::ExecId, Path)),
    responses((status = 204), (status = 409), (status = 422)))]
pub(crate) async fn kill(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    ExecPath(exec): ExecPath,
    _: Query<Nothing>,
) -> Result<StatusCode, Problem> {
    ops::kill_exec(&app.engine, &actor, id, exec).await?;
    Ok(StatusCode::NO_CONTENT)
}
