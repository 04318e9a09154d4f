//! `/tokens`, `/whoami` and `/access:explain`

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, LOCATION};
use stead_core::identity::{Access, Location, Permission, TokenRequest, TokenRotation, decide_access};
use stead_core::{Actor, Name, Resource};
use stead_engine::ops;
use utoipa::IntoParams;

use crate::app::App;
use crate::auth::{Identity, Source, Tenancy};
use crate::extract::body::{Json, MaybeJson};
use crate::extract::path::TokenPath;
use crate::extract::query::{Nothing, Parameters, Query, ReadQuery};
use crate::problem::{Code, Problem};
use stead_api::list::List;
use stead_api::schema;
use stead_api::token::{AccessAnswer, AccessQuestion, NewToken, SignInLink, Token, Whoami};

/// Create a token.
///
/// The answer is the only one that contains the token's text. Nobody can create a token that has
/// more permissions than their own.
#[utoipa::path(post, path = "/tokens", tag = "tokens", operation_id = "create_token",
    request_body = schema::TokenRequest,
    responses((status = 201, body = NewToken, headers(("Location" = String))), (status = 403), (status = 404), (status = 422)))]
pub(crate) async fn create(
    State(app): State<App>,
    tenancy: Tenancy,
    _: Query<Nothing>,
    body: Json<TokenRequest>,
) -> Result<Response, Problem> {
    let issued = ops::create_token(&app.engine, tenancy.principal(), body.value).await?;
    let location = format!("/api/v1/tokens/{}", issued.token.id);
    Ok((StatusCode::CREATED, [(LOCATION, location)], secret(issued)).into_response())
}

/// A response with a secret, which no cache may store.
fn secret(issued: ops::IssuedToken) -> Response {
    let answer = NewToken { details: Token::new(issued.token, None), token: issued.secret };
    ([(CACHE_CONTROL, "no-store")], Answer(answer)).into_response()
}

#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the field only describes the parameter; Filter holds it")]
pub(crate) struct TokenParams {
    /// Only tokens of this project.
    #[param(value_type = Option<schema::Name>)]
    project: Option<String>,
}

pub(crate) struct Filter(Option<Name>);

impl ReadQuery for Filter {
    fn read(parameters: &mut Parameters) -> Self {
        Self(parameters.parsed("project"))
    }
}

/// List tokens, oldest first. Their texts are not in the answer.
#[utoipa::path(get, path = "/tokens", tag = "tokens", operation_id = "list_tokens", params(TokenParams),
    responses((status = 200, body = List<Token>)))]
pub(crate) async fn list(
    State(app): State<App>,
    tenancy: Tenancy,
    Query(Filter(project)): Query<Filter>,
) -> Result<Answer<List<Token>>, Problem> {
    let project = tenancy.project(project)?;
    let found = ops::tokens(&app.engine, tenancy.principal(), project.as_ref());
    Ok(Answer(List::whole(found.into_iter().map(|(token, used)| Token::new(token, used)).collect())))
}

/// Show a token.
#[utoipa::path(get, path = "/tokens/{id}", tag = "tokens", operation_id = "show_token",
    params(("id" = schema::TokenId, Path)), responses((status = 200, body = Token)))]
pub(crate) async fn show(
    State(app): State<App>,
    tenancy: Tenancy,
    TokenPath(id): TokenPath,
    _: Query<Nothing>,
) -> Result<Answer<Token>, Problem> {
    let (token, used) = ops::token(&app.engine, tenancy.principal(), id)?;
    Ok(Answer(Token::new(token, used)))
}

/// Revoke a token. Its requests and open streams end at once.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(("id" = schema::TokenId, Path)), responses((status = 204, description = "It is revoked."), (status = 403)))]
pub(crate) async fn revoke(
    State(app): State<App>,
    tenancy: Tenancy,
    TokenPath(id): TokenPath,
    _: Query<Nothing>,
) -> Result<StatusCode, Problem> {
    ops::revoke_token(&app.engine, tenancy.principal(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Give a token a new text.
///
/// The old text ends at once, or after `overlap_seconds`.
#[utoipa::path(post, path = "/tokens/{id}/rotate", tag = "tokens", operation_id = "rotate_token",
    params(("id" = schema::TokenId, Path)), request_body = schema::TokenRotation,
    responses((status = 200, body = NewToken), (status = 403)))]
pub(crate) async fn rotate(
    State(app): State<App>,
    tenancy: Tenancy,
    TokenPath(id): TokenPath,
    _: Query<Nothing>,
    body: MaybeJson<TokenRotation>,
) -> Result<Response, Problem> {
    Ok(secret(ops::rotate_token(&app.engine, tenancy.principal(), id, body.value).await?))
}

/// Show who the caller is, and what it may do.
#[utoipa::path(get, path = "/whoami", tag = "tokens", operation_id = "whoami",
    responses((status = 200, body = Whoami)))]
pub(crate) async fn whoami(identity: Identity, _: Query<Nothing>) -> Answer<Whoami> {
    let session = match identity.actor {
        Actor::Session { session } => Some(session),
        _ => None,
    };
    let principal = identity.principal.as_deref();
    Answer(Whoami {
        actor: identity.actor.to_string(),
        role: principal.map_or_else(|| "session".to_owned(), |principal| principal.role.to_string()),
        project: principal.and_then(|principal| principal.project.clone()),
        session,
        token: identity.token,
        expires_at: identity.lifetime.until,
        agent_types: principal.and_then(|principal| principal.agent_types.clone()),
        permissions: principal.map(|principal| principal.permissions.iter().copied().collect()).unwrap_or_default(),
    })
}

/// Explain whether a token may do something, and why.
#[utoipa::path(post, path = "/access:explain", tag = "tokens", operation_id = "explain_access",
    request_body = AccessQuestion, responses((status = 200, body = AccessAnswer), (status = 404)))]
pub(crate) async fn explain(
    State(app): State<App>,
    tenancy: Tenancy,
    _: Query<Nothing>,
    body: Json<AccessQuestion>,
) -> Result<Answer<AccessAnswer>, Problem> {
    let AccessQuestion { permission, token, project, session } = body.value;
    let caller = tenancy.principal();
    let asked = match token {
        Some(id) => ops::principal_of(&app.engine, caller, id)?,
        None => caller.clone(),
    };
    let place = match (session, project) {
        (Some(id), _) => {
            let missing = || Problem::not_found(Resource::Session, &id.to_string());
            let place = ops::session_location(&app.engine, id).await?.ok_or_else(missing)?;
            // The answer must not tell the caller of sessions that it may not know of.
            if !matches!(decide_access(caller, Permission::SessionsRead, &place), Access::Allowed { .. }) {
                return Err(missing());
            }
            place
        }
        (None, Some(project)) => Location::Project { project: tenancy.project(Some(project))?, agent_type: None },
        (None, None) => Location::Own,
    };
    let access = decide_access(&asked, permission, &place);
    Ok(Answer(AccessAnswer::new(&asked, access)))
}

/// Make a link that signs a browser in to the web page, once and as the caller.
///
/// The browser gets a cookie that scripts cannot read. It ends after 12 hours, or with the token.
#[utoipa::path(post, path = "/sign-in-links", tag = "tokens", operation_id = "create_sign_in_link",
    responses((status = 201, body = SignInLink)))]
pub(crate) async fn sign_in_link(
    State(app): State<App>,
    identity: Identity,
    _: Query<Nothing>,
) -> Result<Response, Problem> {
    let Source::Bearer { subject: Some(subject) } = identity.source else {
        let detail = "only a token makes sign-in links, and this request comes from the web page";
        return Err(Problem::new(Code::Forbidden, detail).hint("run `stead open`"));
    };
    let (code, expires_at) = app.page_sessions.link(subject, app.engine.now())?;
    let link = SignInLink { path: format!("/#/sign-in/{code}"), expires_at };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Answer(link)).into_response())
}
