//! `/sessions`

pub(crate) mod clones;
pub(crate) mod diff;
pub(crate) mod digests;
pub(crate) mod events;
pub(crate) mod execs;
pub(crate) mod files;
pub(crate) mod lifecycle;
pub(crate) mod network;
pub(crate) mod network_use;
pub(crate) mod ports;
pub(crate) mod prompts;
pub(crate) mod rewind;
pub(crate) mod runs;
pub(crate) mod snapshots;

use std::sync::Arc;
use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::StatusCode;
use http::header::LOCATION;
use stead_core::identity::Permission;
use stead_core::request::SessionRequest;
use stead_core::{Actor, Resource, SessionId, Status, Timestamp};
use stead_engine::{SessionTokenClaims, ops};
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::{Caller, Tenancy};
use crate::extract::body::{Json, MaybeJson};
use crate::extract::headers::{AcceptsOctets, IdempotencyKey};
use crate::extract::path::SessionPath;
use crate::extract::query::{Nothing, Parameters, Query, ReadQuery};
use crate::problem::{Code, Problem};
use crate::respond::download;
use crate::routes::paging;
use crate::wire::IntoWire as _;
use crate::wire::session::shown;
use stead_api::list::List;
use stead_api::schema;
use stead_api::session::plan::SessionPlan;
use stead_api::session::replay::{Replay, ReplayAgainst};
use stead_api::session::{Session, SessionFold, SessionToken, SessionTokenRequest};

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; Wait holds it")]
pub(crate) struct WaitParams {
    /// Maximum number of seconds to wait until provisioning has ended. Without it, the response
    /// comes at once.
    #[param(minimum = 0, maximum = 300)]
    wait: Option<u64>,
}

pub(crate) struct Wait(pub(crate) Option<Duration>);

impl ReadQuery for Wait {
    fn read(parameters: &mut Parameters) -> Self {
        Self(parameters.number("wait", 0..=300).filter(|seconds| *seconds > 0).map(Duration::from_secs))
    }
}

/// Create a session.
///
/// The server provisions the workspace in the background. `wait` delays the response until it is
/// ready.
#[utoipa::path(post, path = "/sessions", tag = "sessions", operation_id = "create_session",
    params(WaitParams, ("Idempotency-Key" = Option<String>, Header, description = "The same key and body again get the same session.", pattern = "^[!-~]{1,255}$")),
    request_body = schema::SessionRequest,
    responses((status = 201, body = Session, description = "It is recorded.", headers(("Location" = String))),
        (status = 404), (status = 409), (status = 422), (status = 429, headers(("Retry-After" = u32)))))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    Query(Wait(wait)): Query<Wait>,
    IdempotencyKey(key): IdempotencyKey,
    body: Json<SessionRequest>,
) -> Result<Response, Problem> {
    let request = within(&tenancy, body.value)?;
    let _reserved = app.idempotency_keys.begin(&actor, key.as_deref())?;
    app.rates.create(&app.engine, &actor, request.project.as_ref(), 1).await?;
    let idempotency = key.map(|key| ops::Idempotency { key, body_hash: body.hash });
    let mut session = shown(ops::create_session(&app.engine, &actor, request, idempotency).await?)?;
    if let Some(wait) = wait {
        session = shown(ops::wait_settled(&app.engine, session.id, wait).await?)?;
    }
    session.token = first_token(&app, &tenancy, &session);
    let location = format!("/api/v1/sessions/{}", session.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Answer(session)).into_response())
}

/// Puts a request into the caller's project. An agent type that the token does not name looks as if
/// it did not exist.
fn within(tenancy: &Tenancy, mut request: SessionRequest) -> Result<SessionRequest, Problem> {
    request.project = tenancy.project(request.project)?;
    match tenancy.principal().may_use_agent_type(&request.agent_type) {
        true => Ok(request),
        false => Err(Problem::not_found(Resource::AgentType, request.agent_type.as_str())),
    }
}

/// Life of a session token for which the request gives none: 30 days.
const TOKEN_SECONDS: u64 = 30 * 24 * 3600;

/// Returns the token in the answer to a creation. A repeated request gets the same one. A caller
/// that may not use the session itself gets none.
pub(crate) fn first_token(app: &App, tenancy: &Tenancy, session: &Session) -> Option<String> {
    let allowed = |permission| tenancy.principal().permissions.contains(&permission);
    if !allowed(Permission::SessionsUse) || !allowed(Permission::SessionsRead) {
        return None;
    }
    let end = session.created_at.plus_seconds(TOKEN_SECONDS);
    Some(app.engine.session_token(claims(tenancy, session.id, end)))
}

/// No token of a session outlives the token that asks for it.
fn claims(tenancy: &Tenancy, session: SessionId, end: Timestamp) -> SessionTokenClaims {
    let expires_at = tenancy.principal().expires_at.map_or(end, |own| end.min(own));
    SessionTokenClaims { session, expires_at, asked_by: tenancy.token() }
}

/// Preview a session without creating it: policy, capabilities, init plan and limits.
#[utoipa::path(post, path = "/sessions:plan", tag = "sessions", operation_id = "plan_session",
    request_body = schema::SessionRequest,
    responses((status = 200, body = SessionPlan), (status = 404), (status = 422)))]
pub(crate) async fn plan(
    State(app): State<App>,
    tenancy: Tenancy,
    _: Query<Nothing>,
    body: Json<SessionRequest>,
) -> Result<Answer<SessionPlan>, Problem> {
    Ok(Answer(ops::plan_session(&app.engine, within(&tenancy, body.value)?).await?.into_wire()))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; Filter holds them")]
pub(crate) struct SessionParams {
    /// Only sessions with this status.
    #[param(value_type = Option<schema::SessionStatus>)]
    status: Option<String>,
    /// Only sessions of this agent type.
    #[param(value_type = Option<schema::Name>)]
    agent_type: Option<String>,
    /// Only sessions of this project.
    #[param(value_type = Option<schema::Name>)]
    project: Option<String>,
    /// Only sessions that this caller created, such as `user:alice@web`.
    #[param(min_length = 1, max_length = 256)]
    owner: Option<String>,
    /// Only sessions whose metadata has the value under the key `KEY`: `metadata.ticket=OPS-1`.
    /// May be given several times with different keys; all must match. A field of an object has the
    /// key `outer.inner`.
    #[param(rename = "metadata.KEY")]
    metadata: Option<String>,
    /// Only sessions in which every one of these words begins a word of the id, the owner, the
    /// agent type, the task's id, the id of the session that it is a clone of, or a value of the
    /// metadata. Case does not matter.
    #[param(min_length = 1, max_length = 256)]
    q: Option<String>,
    /// `next_cursor` of the previous page.
    #[param(value_type = Option<schema::SessionId>)]
    cursor: Option<String>,
    /// Maximum number of sessions; 50 by default.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

pub(crate) struct Filter(ops::SessionPage);

impl ReadQuery for Filter {
    fn read(parameters: &mut Parameters) -> Self {
        Self(ops::SessionPage {
            after: parameters.parsed::<SessionId>("cursor"),
            limit: paging::limit(parameters),
            status: parameters.parsed::<Status>("status"),
            agent_type: parameters.parsed::<stead_core::Name>("agent_type").map(String::from),
            project: parameters.parsed("project"),
            owner: parameters.text("owner", 256),
            metadata: parameters.prefixed("metadata.", "metadata.KEY"),
            words: words(parameters.text("q", 256).unwrap_or_default()),
        })
    }
}

/// Maximum number of words of a search. Further ones are not used.
const MOST_WORDS: usize = 8;

fn words(text: String) -> Vec<String> {
    text.split_whitespace().take(MOST_WORDS).map(str::to_owned).collect()
}

/// List sessions, newest first.
#[utoipa::path(get, path = "/sessions", tag = "sessions", operation_id = "list_sessions", params(SessionParams),
    responses((status = 200, body = List<Session>)))]
pub(crate) async fn list(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(Filter(mut page)): Query<Filter>,
) -> Result<Answer<List<Session>>, Problem> {
    page.project = tenancy.project(page.project)?;
    let found = match &tenancy.principal().agent_types {
        Some(allowed) => of_agent_types(&app, page, allowed).await?,
        None => ops::sessions(&app.engine, page).await?,
    };
    let items = found.states.into_iter().map(shown).collect::<Result<Vec<_>, Problem>>()?;
    Ok(Answer(List { items, next_cursor: found.next.map(|id| id.to_string()) }))
}

/// Lists the sessions of some agent types only. Each type is a query of its own, so that the page
/// and its cursor tell nothing about others.
async fn of_agent_types(
    app: &App,
    page: ops::SessionPage,
    allowed: &[stead_core::Name],
) -> Result<ops::SessionList, Problem> {
    let (mut states, mut more) = (Vec::new(), false);
    for agent_type in allowed {
        if page.agent_type.as_ref().is_some_and(|asked| asked != agent_type.as_str()) {
            continue;
        }
        let one = ops::SessionPage { agent_type: Some(agent_type.to_string()), ..page.clone() };
        let found = ops::sessions(&app.engine, one).await?;
        more |= found.next.is_some();
        states.extend(found.states);
    }
    let id = |state: &stead_core::State| state.session.as_ref().map(|session| session.id);
    states.sort_by_key(|state| std::cmp::Reverse(id(state)));
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    more |= states.len() > limit;
    states.truncate(limit);
    let next = states.last().and_then(id).filter(|_| more);
    Ok(ops::SessionList { states, next })
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; ShowWait holds it")]
pub(crate) struct ShowWaitParams {
    /// Maximum number of seconds to wait until the session is neither provisioning, closing,
    /// pausing nor resuming. Without it, the response comes at once.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<u64>,
}

pub(crate) struct ShowWait(Option<Duration>);

impl ReadQuery for ShowWait {
    fn read(parameters: &mut Parameters) -> Self {
        Self(parameters.number("wait", 0..=60).filter(|seconds| *seconds > 0).map(Duration::from_secs))
    }
}

/// Show a session.
///
/// A session token sees the names of environment variables and not their values.
#[utoipa::path(get, path = "/sessions/{id}", tag = "sessions", operation_id = "show_session",
    params(("id" = schema::SessionId, Path), ShowWaitParams), responses((status = 200, body = Session)))]
pub(crate) async fn show(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(ShowWait(wait)): Query<ShowWait>,
) -> Result<Answer<Session>, Problem> {
    let state = match wait {
        Some(wait) => ops::wait_settled(&app.engine, id, wait).await?,
        None => ops::session(&app.engine, id).await?,
    };
    let mut session = shown(state)?;
    if matches!(actor, Actor::Session { .. }) {
        session.task.env = session.task.env.without_values();
    }
    Ok(Answer(session))
}

/// Close a session and wait until its workspace is removed.
///
/// Closing a closed session has no effect.
#[utoipa::path(delete, path = "/sessions/{id}", tag = "sessions", operation_id = "close_session",
    params(("id" = schema::SessionId, Path)),
    responses((status = 204, description = "It is closed."), (status = 202, body = Session, description = "It is still closing.")))]
pub(crate) async fn close(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Response, Problem> {
    let session = shown(ops::close_session(&app.engine, &actor, id).await?)?;
    Ok(match session.status {
        Status::Closed => StatusCode::NO_CONTENT.into_response(),
        _ => (StatusCode::ACCEPTED, Answer(session)).into_response(),
    })
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; At holds it")]
pub(crate) struct AtParams {
    /// Sequence number of the event after which to show the state; the latest event by default.
    #[param(minimum = 1, maximum = 9007199254740992_u64)]
    at: Option<u64>,
}

pub(crate) struct At(Option<u64>);

impl ReadQuery for At {
    fn read(parameters: &mut Parameters) -> Self {
        Self(parameters.number("at", 1..=1 << 53))
    }
}

/// Show the state that the journal folds to, and its hash.
///
/// A session token sees the names of environment variables and not their values. The hash is that
/// of the whole state.
#[utoipa::path(get, path = "/sessions/{id}/state", tag = "sessions", operation_id = "show_state",
    params(("id" = schema::SessionId, Path), AtParams), responses((status = 200, body = SessionFold)))]
pub(crate) async fn state(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(At(at)): Query<At>,
) -> Result<Answer<SessionFold>, Problem> {
    let state = match at {
        Some(seq) => ops::state_at(&app.engine, id, seq).await?,
        None => ops::session(&app.engine, id).await?,
    };
    let mut fold = SessionFold::from(state);
    if let (Actor::Session { .. }, Some(session)) = (&actor, &mut fold.state) {
        let spec = session.spec.for_agent().into();
        Arc::make_mut(session).spec = spec;
    }
    Ok(Answer(fold))
}

/// Fold the journal again and compare the result with the live state.
#[utoipa::path(get, path = "/sessions/{id}/replay", tag = "sessions", operation_id = "replay_session",
    params(("id" = schema::SessionId, Path)), responses((status = 200, body = Replay)))]
pub(crate) async fn replay(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
) -> Result<Answer<Replay>, Problem> {
    Ok(Answer(ops::replay(&app.engine, id).await?.into_wire()))
}

/// Get a token for the session.
///
/// It gives access to this session only, and ends after `expires_in` seconds; 30 days by default.
/// It also ends when the token that asks for it is revoked or expires. A rotation keeps it.
#[utoipa::path(post, path = "/sessions/{id}/token", tag = "sessions", operation_id = "session_token",
    params(("id" = schema::SessionId, Path)), request_body = SessionTokenRequest,
    responses((status = 200, body = SessionToken)))]
pub(crate) async fn token(
    State(app): State<App>,
    tenancy: Tenancy,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    body: MaybeJson<SessionTokenRequest>,
) -> Result<Answer<SessionToken>, Problem> {
    if !tenancy.principal().permissions.contains(&Permission::SessionsRead) {
        return Err(Problem::new(Code::Forbidden, "a session token reads the session, which needs sessions:read"));
    }
    ops::session(&app.engine, id).await?;
    let seconds = body.value.expires_in.map_or(TOKEN_SECONDS, |seconds| seconds.0);
    let claims = claims(&tenancy, id, app.engine.now().plus_seconds(seconds));
    Ok(Answer(SessionToken { token: app.engine.session_token(claims), expires_at: claims.expires_at }))
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; Against holds them")]
pub(crate) struct AgainstParams {
    /// Content version to replay with, as `name@version`. Give either this or `agent_type`.
    #[param(value_type = Option<schema::ContentRef>)]
    content: Option<String>,
    /// Agent type to replay with, in its current configuration.
    #[param(value_type = Option<schema::Name>)]
    agent_type: Option<String>,
}

pub(crate) struct Against {
    content: Option<ContentRef>,
    agent_type: Option<stead_core::Name>,
}

struct ContentRef(stead_core::Name, u64);

impl std::str::FromStr for ContentRef {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const WANTED: &str = "must be name@version";
        let (name, version) = text.split_once('@').ok_or(WANTED)?;
        let digits = version.bytes().all(|byte| byte.is_ascii_digit()) && !version.starts_with('0');
        let version = version.parse().ok().filter(|_| digits).ok_or(WANTED)?;
        Ok(Self(name.parse().map_err(|_| WANTED)?, version))
    }
}

impl ReadQuery for Against {
    fn read(parameters: &mut Parameters) -> Self {
        Self { content: parameters.parsed("content"), agent_type: parameters.parsed("agent_type") }
    }
}

/// Repeat the recorded decisions with other content or another agent type.
///
/// The response lists the decisions that would change. The request changes nothing.
#[utoipa::path(get, path = "/sessions/{id}/replay/against", tag = "sessions", operation_id = "replay_against",
    params(("id" = schema::SessionId, Path), AgainstParams),
    responses((status = 200, body = ReplayAgainst), (status = 422)))]
pub(crate) async fn replay_against(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    Query(against): Query<Against>,
) -> Result<Answer<ReplayAgainst>, Problem> {
    let other = match (against.content, against.agent_type) {
        (Some(ContentRef(name, version)), None) => ops::Other::Content { name, version },
        (None, Some(name)) => ops::Other::AgentType(name),
        _ => return Err(Problem::new(Code::SemanticMismatch, "give either content or agent_type")),
    };
    Ok(Answer(ops::replay_against(&app.engine, id, other).await?.into_wire()))
}

/// Export the whole journal as JSON lines, to replay it elsewhere.
///
/// With `Accept: application/octet-stream` the same lines come as bytes, for clients that know no
/// type of JSON lines.
#[utoipa::path(get, path = "/sessions/{id}/journal", tag = "sessions", operation_id = "export_journal",
    params(("id" = schema::SessionId, Path)),
    responses((status = 200, content((schema::Bytes = "application/x-ndjson"), (schema::Bytes = "application/octet-stream")))))]
pub(crate) async fn journal(
    State(app): State<App>,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    AcceptsOctets(octets): AcceptsOctets,
) -> Result<Response, Problem> {
    let lines = ops::export_journal(&app.engine, id).await?;
    let pieces = stream::try_unfold(lines, |mut lines| async { Ok(lines.next().await?.map(|piece| (piece, lines))) });
    Ok(download::streamed(pieces, if octets { download::OCTETS } else { "application/x-ndjson" }))
}
