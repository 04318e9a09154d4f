//! Finds the place of a thing, for the decision about access.

use stead_core::identity::{Location, Permission, Principal, Tenant};
use stead_core::{Name, Resource, SessionId, TokenId};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::ops::boxed;
use crate::ops::registry::token::token;

/// Returns the place of a session. `None` if there is no such session. It takes one query in either
/// case, so that the time reveals nothing.
#[boxed]
pub async fn session_location(engine: &Engine, id: SessionId) -> Result<Option<Location>, OpError> {
    let Some(row) = engine.store().head(id).await? else { return Ok(None) };
    let name = |text: &str| text.parse::<Name>().ok();
    Ok(Some(Location::Project { project: row.project.as_deref().and_then(name), agent_type: name(&row.agent_type) }))
}

/// Returns the tenant of a session: its project, or the platform.
#[boxed]
pub(crate) async fn session_tenant(engine: &Engine, id: SessionId) -> Result<Tenant, OpError> {
    let row = engine.store().head(id).await?;
    let row = row.ok_or_else(|| OpError::NotFound { what: Resource::Session, id: id.to_string() })?;
    Ok(Tenant::of(row.project.and_then(|project| project.parse().ok()).as_ref()))
}

/// Records that a principal was refused.
#[boxed]
pub async fn record_access_denied(
    engine: &Engine,
    principal: &Principal,
    permission: Permission,
    because: &str,
) -> Result<(), OpError> {
    let entry = audit::access_denied(&principal.actor, principal.project.as_ref(), permission, because, clock::now());
    Ok(engine.store().record_audit(vec![entry]).await?)
}

/// Returns the principal of a token that the caller may see.
pub fn principal_of(engine: &Engine, caller: &Principal, id: TokenId) -> Result<Principal, OpError> {
    let own = caller.actor.token() == Some(id);
    if !own && !caller.permissions.contains(&Permission::TokensRead) {
        return Err(OpError::NotFound { what: Resource::Token, id: id.to_string() });
    }
    let (found, _) = token(engine, caller, id)?;
    let role = engine.tokens().roles().permissions(&found.role).unwrap_or_default();
    Ok(Principal::of(&found, role))
}
