//! Creates, lists, rotates and revokes tokens.

use serde_json::Value;
use stead_core::identity::{PreviousSecret, Principal, Token, TokenRequest, TokenRotation, may_grant};
use stead_core::{Name, Resource, Timestamp, TokenId};
use stead_store::{DocumentKind, DocumentWrite, WriteError, WriteMode};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::ops::boxed;
use crate::ops::registry::project::{check_not_deleting, project};
use crate::tokens;

/// Most tokens of a project, and of the platform. It bounds the memory that an owner can use.
const MAX_TOKENS: usize = 1000;

/// A token whose secret is known only now.
#[derive(Debug, Clone)]
pub struct IssuedToken {
    pub token: Token,
    pub secret: String,
}

/// Creates a token. The caller must show the secret: the server stores only its hash.
#[boxed]
pub async fn create_token(
    engine: &Engine,
    principal: &Principal,
    request: TokenRequest,
) -> Result<IssuedToken, OpError> {
    // To its end, as every change of a token: the table in memory must follow the database.
    let (work, principal) = (engine.clone(), principal.clone());
    engine.to_its_end(async move { create(&work, &principal, request).await }).await
}

async fn create(engine: &Engine, principal: &Principal, request: TokenRequest) -> Result<IssuedToken, OpError> {
    let TokenRequest { name, user, project: asked, role, expires_in, agent_types, operations } = request;
    if let (Some(own), Some(asked)) = (&principal.project, &asked)
        && own != asked
    {
        return Err(OpError::NotFound { what: Resource::Project, id: asked.to_string() });
    }
    let of_project = asked.or_else(|| principal.project.clone());
    if let Some(id) = &of_project {
        project(engine, id).await?;
    }
    let roles = engine.tokens().roles();
    let unknown = || OpError::UnknownRole { role: role.clone(), valid: roles.names() };
    let permissions = roles.permissions(&role).ok_or_else(unknown)?;
    let now = clock::now();
    let (secret, hash) = tokens::draw().map_err(|source| OpError::Randomness { source })?;
    let token = Token {
        id: TokenId::from_bits(clock::id_bits()),
        user: user.unwrap_or_else(|| name.clone()),
        name,
        project: of_project,
        role,
        operations,
        agent_types,
        created_at: now,
        created_by: principal.actor.to_string(),
        expires_at: expires_in.map(|seconds| now.plus_seconds(seconds)),
        hash,
        previous: None,
    };
    may_grant(principal, &token, &permissions).map_err(|reason| OpError::Forbidden { reason })?;
    let _changing = engine.tokens().change().await;
    // The deletion of a project takes the same lock.
    if let Some(id) = &token.project {
        check_not_deleting(engine, id).await?;
    }
    let of_same_place = engine.tokens().list().iter().filter(|(one, _)| one.project == token.project).count();
    if of_same_place >= MAX_TOKENS {
        return Err(OpError::TooManyTokens { max: MAX_TOKENS });
    }
    write(engine, principal, &token, WriteMode::Create).await?;
    Ok(IssuedToken { token, secret })
}

/// The tokens that the principal may see, oldest first, each with the time of its last use.
pub fn tokens(engine: &Engine, principal: &Principal, project: Option<&Name>) -> Vec<(Token, Option<Timestamp>)> {
    let all = engine.tokens().list().into_iter();
    let of_project = |token: &Token| project.is_none_or(|project| token.project.as_ref() == Some(project));
    all.filter(|(token, _)| visible(principal, token) && of_project(token)).collect()
}

pub fn token(engine: &Engine, principal: &Principal, id: TokenId) -> Result<(Token, Option<Timestamp>), OpError> {
    let found = engine.tokens().get(id).filter(|(token, _)| visible(principal, token));
    found.ok_or_else(|| OpError::NotFound { what: Resource::Token, id: id.to_string() })
}

fn visible(principal: &Principal, token: &Token) -> bool {
    principal.project.is_none() || principal.project == token.project
}

/// Revokes a token. Its open streams end at once.
#[boxed]
pub async fn revoke_token(engine: &Engine, principal: &Principal, id: TokenId) -> Result<(), OpError> {
    let (work, principal) = (engine.clone(), principal.clone());
    engine.to_its_end(async move { revoke(&work, &principal, id).await }).await
}

async fn revoke(engine: &Engine, principal: &Principal, id: TokenId) -> Result<(), OpError> {
    let _changing = engine.tokens().change().await;
    let (found, _) = token(engine, principal, id)?;
    // A revocation does not compare the ends of the two tokens.
    may_change(engine, principal, &Token { expires_at: principal.expires_at, ..found.clone() })?;
    let audit = vec![audit::token_change(&principal.actor, &found, &Value::Null, clock::now())];
    engine.store().delete_document(DocumentKind::Token, &id.to_string(), audit).await?;
    engine.tokens().remove(id);
    Ok(())
}

/// Gives a token a new secret. The old one stays valid for the time of the overlap.
#[boxed]
pub async fn rotate_token(
    engine: &Engine,
    principal: &Principal,
    id: TokenId,
    rotation: TokenRotation,
) -> Result<IssuedToken, OpError> {
    let (work, principal) = (engine.clone(), principal.clone());
    engine.to_its_end(async move { rotate(&work, &principal, id, rotation).await }).await
}

async fn rotate(
    engine: &Engine,
    principal: &Principal,
    id: TokenId,
    rotation: TokenRotation,
) -> Result<IssuedToken, OpError> {
    let _changing = engine.tokens().change().await;
    let (found, _) = token(engine, principal, id)?;
    may_change(engine, principal, &found)?;
    let (secret, hash) = tokens::draw().map_err(|source| OpError::Randomness { source })?;
    let until = clock::now().plus_seconds(rotation.overlap_seconds);
    let previous = (rotation.overlap_seconds > 0).then(|| PreviousSecret { hash: found.hash.clone(), until });
    let rotated = Token { hash, previous, ..found };
    write(engine, principal, &rotated, WriteMode::Replace).await?;
    Ok(IssuedToken { token: rotated, secret })
}

/// Checks that the principal could have created the token.
fn may_change(engine: &Engine, principal: &Principal, token: &Token) -> Result<(), OpError> {
    // A role that the platform no longer defines has no permissions.
    let permissions = engine.tokens().roles().permissions(&token.role).unwrap_or_default();
    may_grant(principal, token, &permissions).map_err(|reason| OpError::Forbidden { reason })
}

async fn write(engine: &Engine, principal: &Principal, token: &Token, mode: WriteMode) -> Result<(), OpError> {
    let (id, at) = (token.id.to_string(), clock::now());
    let corrupt = |source| OpError::CorruptDocument { what: Resource::Token, id: id.clone(), source };
    let body = serde_json::to_string(token).map_err(corrupt)?;
    let mut shown = serde_json::to_value(token).map_err(corrupt)?;
    for secret in ["hash", "previous"] {
        shown.as_object_mut().and_then(|fields| fields.remove(secret));
    }
    let write = DocumentWrite {
        kind: DocumentKind::Token,
        id: id.clone(),
        body,
        mode,
        expected_revision: None,
        at,
        audit: vec![audit::token_change(&principal.actor, token, &shown, at)],
        idempotency: None,
    };
    match engine.store().write_document(write).await {
        Ok(_) => {
            engine.tokens().put(token.clone());
            Ok(())
        }
        Err(WriteError::Store(error)) => Err(error.into()),
        Err(WriteError::Missing) => Err(OpError::NotFound { what: Resource::Token, id }),
        Err(_) => Err(OpError::Contended),
    }
}
