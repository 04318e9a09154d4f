//! Authentication and authorization.
//!
//! All routes require a token, except those in [`OPEN`] and the parts of the web page.
//! [`table::ROUTES`] has the permission and
//! the place of every route, and [`decide_access`] decides. What a caller may not know of looks as
//! if it did not exist, with the same number of queries.

pub(crate) mod denials;
pub(crate) mod lifetime;
pub(crate) mod page_session;
pub(crate) mod table;
mod tenancy;

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use stead_core::identity::{Access, Location, Permission, Principal, decide_access};
use stead_core::{Actor, Name, Resource, SessionId, TokenId};
use stead_engine::ops;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::app::App;
use crate::extract::query::{Parameters, Query, ReadQuery};
use crate::listener::connection::Clocks;
use crate::listener::connections::Standing;
use crate::problem::{Code, Problem};
use crate::routes::page;
use lifetime::Lifetime;
use page_session::Subject;
use table::{Row, Scope};
pub(crate) use tenancy::{InProject, Tenancy};

/// Paths that require no token.
pub(crate) const OPEN: &[&str] = &["/", "/healthz", "/readyz", "/openapi.json"];

/// Returns true for the paths in [`OPEN`] and for the parts of the web page.
fn is_open(path: &str) -> bool {
    OPEN.contains(&path) || page::is_part(path)
}

/// The authenticated caller, for handlers and for the log.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Actor);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Only open routes run without a caller, and none of their handlers extracts one.
        parts.extensions.get::<Caller>().cloned().ok_or_else(no_token)
    }
}

/// Everything that is known about the caller of a request.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) actor: Actor,
    /// `None` for the token of a session.
    pub(crate) principal: Option<Arc<Principal>>,
    /// The token, if it was created at run time.
    pub(crate) token: Option<TokenId>,
    pub(crate) lifetime: Lifetime,
    pub(crate) source: Source,
}

/// The way in which a request shows its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The `Authorization` header. `subject` is `None` for the token of a session.
    Bearer { subject: Option<Subject> },
    /// The cookie of the web page.
    Page,
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Identity>().cloned().ok_or_else(no_token)
    }
}

/// Middleware that adds the [`Caller`] to the request, or responds with an error.
pub(crate) async fn authenticate(State(app): State<App>, request: Request, next: Next) -> Response {
    if is_open(request.uri().path()) {
        return next.run(request).await;
    }
    if request.extensions().get::<Standing>() == Some(&Standing::OpenRoutesOnly) {
        let detail = "every connection of this server is in use by a request that is being answered";
        return Problem::new(Code::Capacity, detail).retry_after(5).into_response();
    }
    let (mut parts, body) = request.into_parts();
    let identity = match identify(&app, &parts) {
        Ok(identity) => identity,
        Err(problem) => return problem.into_response(),
    };
    if let Some(clocks) = parts.extensions.get::<Arc<Clocks>>() {
        clocks.authenticated();
    }
    if let Err(problem) = app.rates.request(&app.engine, &identity.actor).await {
        return problem.into_response();
    }
    let refusal = Box::pin(authorize(&app, &identity, &mut parts)).await.err();
    let (caller, lifetime) = (Caller(identity.actor.clone()), identity.lifetime.clone());
    parts.extensions.insert(caller.clone());
    parts.extensions.insert(identity);
    let mut response = match refusal {
        Some(problem) => problem.into_response(),
        None if lifetime.is_endless() => next.run(Request::from_parts(parts, body)).await,
        None => {
            let answered = next.run(Request::from_parts(parts, body));
            tokio::select! {
                response = answered => response.map(|body| lifetime.limit(app.engine.clone(), body)),
                // Operations that append events run to their end without their caller.
                () = lifetime.ended(&app.engine) => no_token().into_response(),
            }
        }
    };
    response.extensions_mut().insert(caller);
    response
}

fn no_token() -> Problem {
    Problem::new(Code::Unauthorized, "this request carries no valid token").hint(
        "send Authorization: Bearer <token>; the first start wrote one to $STEAD_HOME/token. \
         For the web page, `stead open` prints a sign-in link",
    )
}

/// Returns the caller of a request. A request with an `Authorization` header is never one of the
/// page, even if the header is wrong.
fn identify(app: &App, parts: &Parts) -> Result<Identity, Problem> {
    let headers = &parts.headers;
    if !headers.contains_key(AUTHORIZATION) {
        let identity = page_session::identify(app, headers).ok_or_else(no_token)?;
        page_session::comes_from_the_page(&parts.method, headers)?;
        return Ok(identity);
    }
    let text = bearer(headers).ok_or_else(no_token)?;
    if let Some((name, hash)) = admin(&app.config.admin_tokens, text) {
        let principal = Principal::admin(name);
        let (actor, principal) = (principal.actor.clone(), Some(Arc::new(principal)));
        let source = Source::Bearer { subject: Some(Subject::Configured { name: name.clone(), hash: *hash }) };
        return Ok(Identity { actor, principal, token: None, lifetime: Lifetime::default(), source });
    }
    if let Some(found) = app.engine.authenticate(text) {
        let actor = found.principal.actor.clone();
        let source = Source::Bearer { subject: Some(Subject::Issued { secret_hash: found.secret_hash.clone() }) };
        let lifetime = Lifetime {
            revoked: Some(found.revoked),
            until: found.until,
            secret_hash: Some(found.secret_hash),
            ..Lifetime::default()
        };
        return Ok(Identity { actor, principal: Some(found.principal), token: Some(found.token), lifetime, source });
    }
    let claims = app.engine.verify_session_token(text).ok_or_else(no_token)?;
    // A token that is revoked between these two lines is not valid at the first look.
    let revoked = claims.asked_by.and_then(|token| app.engine.revocation(token));
    let lifetime = Lifetime { revoked, until: Some(claims.expires_at), secret_hash: None, asked_by: claims.asked_by };
    let (actor, source) = (Actor::Session { session: claims.session }, Source::Bearer { subject: None });
    Ok(Identity { actor, principal: None, token: None, lifetime, source })
}

/// Returns the token of the `Authorization: Bearer` header. Two such headers count as none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns the matching admin token. It compares all hashes in constant time, so that the response
/// time reveals nothing.
fn admin<'a>(tokens: &'a [(String, [u8; 32])], token: &str) -> Option<&'a (String, [u8; 32])> {
    // E2B clients insist on their own prefix.
    let own = token.strip_prefix("e2b_").map(|digits| format!("stead_{digits}"));
    let hash = blake3::hash(own.as_deref().unwrap_or(token).as_bytes());
    let mut found = u32::MAX;
    for (position, (_, known)) in (0u32..).zip(tokens) {
        let same: Choice = known[..].ct_eq(&hash.as_bytes()[..]);
        found.conditional_assign(&position, same);
    }
    tokens.get(usize::try_from(found).ok()?)
}

/// Decides whether the caller may use the route for the thing that the request names.
async fn authorize(app: &App, identity: &Identity, parts: &mut Parts) -> Result<(), Problem> {
    let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let row = route.as_deref().and_then(|route| table::find(&parts.method, route));
    let Some(principal) = &identity.principal else {
        let Actor::Session { session } = identity.actor else { return Err(no_token()) };
        return confine(session, row, parts).await;
    };
    if matches!(principal.actor, Actor::Admin { .. }) {
        return Ok(());
    }
    // The router answers an unknown path.
    if route.is_none() {
        return Ok(());
    }
    let Some(row) = row else {
        return Err(Problem::new(Code::Forbidden, "only an administrator may use this route"));
    };
    let Some(permission) = row.permission else { return Ok(()) };
    // Without the permission the answer is the same whatever the request names.
    if !principal.permissions.contains(&permission) {
        let access = decide_access(principal, permission, &Location::Own);
        return refuse(app, principal, permission, access, None).await;
    }
    let (place, missing) = location_of(app, row, parts).await?;
    let access = match &place {
        Some(place) => decide_access(principal, permission, place),
        None => Access::Hidden { because: "it does not exist".to_owned() },
    };
    refuse(app, principal, permission, access, missing).await
}

/// Returns the place that a request names, and the answer if it is hidden.
async fn location_of(app: &App, row: &Row, parts: &mut Parts) -> Result<(Option<Location>, Option<Problem>), Problem> {
    match row.scope {
        Scope::Own => Ok((Some(Location::Own), None)),
        Scope::Platform => Ok((Some(Location::Platform), None)),
        Scope::Project => {
            let id = path_id(parts).await;
            let missing = Problem::not_found(Resource::Project, &id);
            let place = id.parse::<Name>().ok().map(|id| Location::Project { project: Some(id), agent_type: None });
            Ok((place, Some(missing)))
        }
        Scope::Session => {
            let id = path_id(parts).await;
            let missing = Problem::not_found(Resource::Session, &id);
            let place = match id.parse::<SessionId>() {
                Ok(id) => ops::session_location(&app.engine, id).await?,
                Err(_) => None,
            };
            Ok((place, Some(missing)))
        }
        Scope::QuerySession => {
            // A request without a session gets the error of the handler.
            let Ok(Query(NamedSession(Some(id)))) = Query::<NamedSession>::from_uri(&parts.uri) else {
                return Ok((Some(Location::Own), None));
            };
            let missing = Problem::not_found(Resource::Session, &id.to_string());
            Ok((ops::session_location(&app.engine, id).await?, Some(missing)))
        }
    }
}

/// The session that the query of `/mcp` names.
struct NamedSession(Option<SessionId>);

impl ReadQuery for NamedSession {
    fn read(parameters: &mut Parameters) -> Self {
        // Read by the handler, too. Here it only must not count as unknown.
        let _: Option<String> = parameters.parsed("profile");
        Self(parameters.parsed("session"))
    }
}

/// Answers with the refusal, and records it. A hidden thing and a missing one get the same answer
/// and the same record.
async fn refuse(
    app: &App,
    principal: &Principal,
    permission: Permission,
    access: Access,
    missing: Option<Problem>,
) -> Result<(), Problem> {
    let (because, problem) = match (access, missing) {
        (Access::Allowed { .. }, _) => return Ok(()),
        (Access::Hidden { .. }, Some(missing)) => {
            ("it does not exist, or the token does not reach it".to_owned(), missing)
        }
        (Access::Hidden { because } | Access::Forbidden { because }, _) => {
            let hint = "`stead explain access` shows what a token may do";
            (because.clone(), Problem::new(Code::Forbidden, because).hint(hint))
        }
    };
    if app.denials.count(&principal.actor.to_string()) {
        ops::record_access_denied(&app.engine, principal, permission, &because).await?;
    }
    Err(problem)
}

async fn path_id(parts: &mut Parts) -> String {
    let params = RawPathParams::from_request_parts(parts, &()).await.ok();
    let found = params.iter().flatten().find(|(name, _)| *name == "id").map(|(_, id)| id.to_owned());
    found.unwrap_or_default()
}

/// Restricts a session token to its own session and to the routes that agents use.
async fn confine(session: SessionId, row: Option<&'static Row>, parts: &mut Parts) -> Result<(), Problem> {
    let Some(row) = row.filter(|row| row.session_token) else {
        return Err(Problem::new(
            Code::Forbidden,
            "a session token is valid for the routes of its own session that agents use, and not for this one",
        ));
    };
    // The path has no id. These routes use the session of the token.
    if row.scope != Scope::Session {
        return Ok(());
    }
    let asked = path_id(parts).await;
    if asked.parse::<SessionId>().is_ok_and(|id| id == session) {
        return Ok(());
    }
    Err(Problem::not_found(Resource::Session, &asked))
}
