//! Declares, reads, reconfigures and deletes agent types.

use stead_core::config::WorkspaceConfig;
use stead_core::registry::{AgentType, AgentTypeDeclaration};
use stead_core::{Actor, Name, Resource};
use stead_store::{DocumentKind, Hash, IdempotencyClaim, IdempotencyKey, SessionQuery, WriteMode};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::Idempotency;
use crate::ops::boxed;
use crate::ops::registry::document::{Page, Shelf};

const SHELF: Shelf = Shelf { kind: DocumentKind::AgentType, what: Resource::AgentType };

/// Declares an agent type. The same request with the same idempotency key returns the existing one
/// in its current form.
#[boxed]
pub async fn create_agent_type(
    engine: &Engine,
    actor: &Actor,
    declaration: AgentTypeDeclaration,
    idempotency: Option<Idempotency>,
) -> Result<AgentType, OpError> {
    let made = declaration.at(clock::now());
    let claim = idempotency.map(|given| IdempotencyClaim {
        key: IdempotencyKey { scope: format!("agent-types/{actor}"), key: given.key },
        body_hash: Hash::from_bytes(given.body_hash),
        target: made.id.to_string(),
    });
    let before = SHELF.put_claimed(engine, actor, made.id.as_str(), &made, WriteMode::Create, claim).await?;
    match before {
        Some(id) => SHELF.get(engine, &id).await,
        None => {
            engine.pool().look();
            Ok(made)
        }
    }
}

#[boxed]
pub async fn agent_type(engine: &Engine, id: &Name) -> Result<AgentType, OpError> {
    SHELF.get(engine, id.as_str()).await
}

#[boxed]
pub async fn agent_types(engine: &Engine, page: &Page) -> Result<Vec<AgentType>, OpError> {
    SHELF.list(engine, page).await
}

/// Replaces the workspace config. Running sessions keep the config they were created with.
#[boxed]
pub async fn set_workspace_config(
    engine: &Engine,
    actor: &Actor,
    id: &Name,
    workspace: WorkspaceConfig,
) -> Result<AgentType, OpError> {
    let before = agent_type(engine, id).await?;
    let after = AgentType { workspace, updated_at: clock::now(), ..before };
    SHELF.put(engine, actor, id.as_str(), &after, WriteMode::Replace).await?;
    engine.pool().look();
    Ok(after)
}

/// Deletes an agent type that has no live sessions.
#[boxed]
pub async fn delete_agent_type(engine: &Engine, actor: &Actor, id: &Name) -> Result<(), OpError> {
    for status in ["provisioning", "active", "closing"] {
        let query = SessionQuery {
            after: None,
            limit: 1,
            status: Some(status.to_owned()),
            agent_type: Some(id.to_string()),
            project: None,
        };
        if !engine.store().sessions(query).await?.is_empty() {
            return Err(OpError::InUse { id: id.to_string() });
        }
    }
    SHELF.delete(engine, actor, id.as_str()).await?;
    engine.pool().look();
    Ok(())
}
