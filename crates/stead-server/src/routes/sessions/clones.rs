//! `/sessions/{id}/clone`

use std::time::Instant;

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use stead_engine::ops;

use crate::app::App;
use crate::auth::{Caller, Tenancy};
use crate::extract::body::Json;
use crate::extract::headers::IdempotencyKey;
use crate::extract::path::SessionPath;
use crate::extract::query::Query;
use crate::problem::Problem;
use crate::routes::sessions::first_token;
use crate::routes::sessions::{Wait, WaitParams};
use crate::wire::session::shown;
use stead_api::list::List;
use stead_api::schema;
use stead_api::session::Session;
use stead_api::session::snapshot::{CloneRequest, Isolation};

/// Clone a session.
///
/// With isolation `none` the clones share the session's workspace. With `full` each clone gets its
/// own copy of the files, as they are now or as they were after the event `at`. The request creates
/// all clones or none.
#[utoipa::path(post, path = "/sessions/{id}/clone", tag = "snapshots", operation_id = "clone_session",
    params(("id" = schema::SessionId, Path), WaitParams,
        ("Idempotency-Key" = Option<String>, Header, description = "The same key and body again get the same clones.", pattern = "^[!-~]{1,255}$")),
    request_body = CloneRequest,
    responses((status = 201, body = List<Session>), (status = 409), (status = 422),
        (status = 429, headers(("Retry-After" = u32)))))]
pub(crate) async fn create(
    State(app): State<App>,
    Caller(actor): Caller,
    tenancy: Tenancy,
    SessionPath(id): SessionPath,
    Query(Wait(wait)): Query<Wait>,
    IdempotencyKey(key): IdempotencyKey,
    body: Json<CloneRequest>,
) -> Result<(StatusCode, Answer<List<Session>>), Problem> {
    let _reserved = app.idempotency_keys.begin(&actor, key.as_deref())?;
    let idempotency = key.map(|key| ops::Idempotency { key, body_hash: body.hash });
    let CloneRequest { isolation, count, at } = body.value;
    let isolation = match isolation {
        Isolation::None => ops::Isolation::None,
        Isolation::Full => ops::Isolation::Full,
    };
    // `Whole` bounds the number by `MAX_CLONES`.
    let count = u32::try_from(count.0).unwrap_or(u32::MAX);
    let source = ops::session(&app.engine, id).await?.session;
    let project = source.as_ref().and_then(|source| source.spec.project.as_ref());
    app.rates.create(&app.engine, &actor, project, count).await?;
    let wanted = ops::CloneOrder { isolation, count, at: at.map(|at| at.0) };
    let states = ops::clone_session(&app.engine, &actor, id, wanted, idempotency).await?;
    let deadline = wait.map(|wait| Instant::now() + wait);
    let mut clones = Vec::with_capacity(states.len());
    for state in states {
        let mut session = shown(state)?;
        if let Some(deadline) = deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            session = shown(ops::wait_settled(&app.engine, session.id, left).await?)?;
        }
        session.token = first_token(&app, &tenancy, &session);
        clones.push(session);
    }
    Ok((StatusCode::CREATED, Answer(List::whole(clones))))
}
