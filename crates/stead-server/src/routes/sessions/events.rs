//! `/sessions/{id}/events`

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use stead_core::Actor;
use stead_core::content::event::{EventRequest, SyncRequest};
use stead_engine::ops;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::Json;
use crate::extract::headers::{EventForm, LastEventId};
use crate::extract::path::SessionPath;
use crate::extract::query::{Nothing, Parameters, Query, ReadQuery};
use crate::problem::Problem;
use crate::respond::stream;
use crate::routes::paging;
use crate::wire::shown_event;
use stead_api::event::{Accepted, Event};
use stead_api::list::List;
use stead_api::schema;

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the fields only describe the parameters; FieldPath holds them")]
pub(crate) struct EventParams {
    /// Sequence number of the last event that the client has; 0 by default.
    #[param(minimum = 0, maximum = 9007199254740992_u64)]
    after: Option<u64>,
    /// `next_cursor` of the previous page. It means the same as `after` and takes precedence over
    /// it.
    #[param(minimum = 0, maximum = 9007199254740992_u64)]
    cursor: Option<u64>,
    /// Maximum number of events on a page; 50 by default. Streams ignore it.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

pub(crate) struct FieldPath {
    after: Option<u64>,
    limit: u32,
}

impl ReadQuery for FieldPath {
    fn read(parameters: &mut Parameters) -> Self {
        Self { after: paging::after(parameters), limit: paging::limit(parameters) }
    }
}

/// Read the journal of a session.
///
/// The response is a stream of server-sent events that continues with new events. With `Accept:
/// application/json` it is one page.
///
/// On the stream, `id:` is the sequence number and `event:` the type. A client that reconnects
/// sends `Last-Event-ID` and continues without a gap.
///
/// A session token sees the names of environment variables and not their values. `hash` is that of
/// the whole event.
#[utoipa::path(get, path = "/sessions/{id}/events", tag = "sessions", operation_id = "read_events",
    params(("id" = schema::SessionId, Path), EventParams,
        ("Last-Event-ID" = Option<String>, Header, description = "As `after`; a browser sends it when it reconnects.", pattern = "^[0-9]{1,15}$")),
    responses((status = 200, content((List<Event> = "application/json"), (schema::StreamedEvent = "text/event-stream")))))]
pub(crate) async fn read(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    Query(place): Query<FieldPath>,
    LastEventId(last): LastEventId,
    form: EventForm,
) -> Result<Response, Problem> {
    let after = last.or(place.after).unwrap_or(0);
    // A stream reads one event before it starts, so that an unknown session gives a 404 instead of
    // an empty stream.
    let limit = if form == EventForm::Stream { 1 } else { place.limit };
    let found = ops::events(&app.engine, id, after, limit).await?;
    Ok(match form {
        EventForm::Stream => stream::events(app, id, after, actor).into_response(),
        EventForm::Page => axum::Json(page(found, &actor)).into_response(),
    })
}

fn page(found: ops::EventPage, reader: &Actor) -> List<Event> {
    let next_cursor = found.events.last().filter(|_| found.more).map(|event| event.seq.to_string());
    List { items: found.events.iter().map(|event| shown_event(event, reader)).collect(), next_cursor }
}

/// Ask a session to stage a content version, or to adopt the staged one.
///
/// The outcome of a sync appears in the journal as `WorkspaceSnapshotReady`,
/// `WorkspaceSyncUnchanged` or `WorkspaceSyncFailed`.
#[utoipa::path(post, path = "/sessions/{id}/events", tag = "sessions", operation_id = "create_event",
    params(("id" = schema::SessionId, Path)), request_body = schema::EventRequest,
    responses((status = 202, body = Accepted, description = "It is recorded."), (status = 409), (status = 422)))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    SessionPath(id): SessionPath,
    _: Query<Nothing>,
    body: Json<EventRequest>,
) -> Result<Response, Problem> {
    let seq = match body.value {
        EventRequest::Sync(SyncRequest { workspace_binding: target, prompt_pack, tool_catalog, known_version }) => {
            let request = ops::SyncRequest { target, prompt_pack, tool_catalog, known_version };
            ops::sync_content(&app.engine, &actor, id, request).await?
        }
        EventRequest::Apply(apply) => ops::apply_content(&app.engine, &actor, id, apply.mode).await?,
    };
    Ok((StatusCode::ACCEPTED, axum::Json(Accepted { seq })).into_response())
}
