//! Declares, reads, reconfigures and deletes agent types.

use stead_core::config::WorkspaceConfig;
use stead_core::identity::Tenant;
use stead_core::registry::{AgentType, AgentTypeDeclaration};
use stead_core::{Actor, Name, Resource};
use stead_store::{DocumentKind, Hash, IdempotencyClaim, IdempotencyKey, SessionQuery, WriteMode};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::Idempotency;
use crate::ops::boxed;
use crate::ops::registry::document::{Page, Shelf};
use crate::ops::registry::project::{check_not_deleting, project};

const SHELF: Shelf = Shelf { kind: DocumentKind::AgentType, what: Resource::AgentType };

/// Declares an agent type of a tenant. The same request with the same idempotency key returns the
/// existing one in its current form.
#[boxed]
pub async fn create_agent_type(
    engine: &Engine,
    actor: &Actor,
    tenant: &Tenant,
    declaration: AgentTypeDeclaration,
    idempotency: Option<Idempotency>,
) -> Result<AgentType, OpError> {
    let made = declaration.at(tenant, clock::now());
    check_project(&made)?;
    writable(engine, tenant).await?;
    let claim = idempotency.map(|given| IdempotencyClaim {
        key: IdempotencyKey { scope: scope(tenant, actor), key: given.key },
        body_hash: Hash::from_bytes(given.body_hash),
        target: made.key(),
    });
    let before = SHELF.put_claimed(engine, actor, &made.key(), &made, WriteMode::Create, claim).await?;
    match before {
        Some(key) => SHELF.get(engine, &key).await,
        None => {
            engine.pool().look();
            Ok(made)
        }
    }
}

/// The scope of idempotency keys: an actor, in one tenant.
fn scope(tenant: &Tenant, actor: &Actor) -> String {
    match tenant {
        Tenant::Platform => format!("agent-types/{actor}"),
        Tenant::Project(project) => format!("agent-types/{project}/{actor}"),
    }
}

/// Refuses new things in a project that does not exist or is being deleted.
pub(in crate::ops) async fn writable(engine: &Engine, tenant: &Tenant) -> Result<(), OpError> {
    let Tenant::Project(id) = tenant else { return Ok(()) };
    project(engine, id).await?;
    check_not_deleting(engine, id).await
}

/// Refuses what only an administrator may declare. The server itself starts or calls an MCP server,
/// outside every box. A warm pool starts boxes that no quota counts.
fn check_project(agent_type: &AgentType) -> Result<(), OpError> {
    let names_server = agent_type.content.as_ref().is_some_and(|content| !content.mcp_servers.is_empty());
    let refused = match (names_server, agent_type.workspace.warm_pool > 0) {
        _ if agent_type.project.is_none() => return Ok(()),
        (true, _) => "name MCP servers, because the server would run or call them outside the box",
        (_, true) => "have a warm pool, because no quota counts its boxes",
        _ => return Ok(()),
    };
    let reason =
        format!("an agent type of a project cannot {refused}; ask an administrator for an agent type of the platform");
    Err(OpError::Forbidden { reason })
}

/// Returns the tenant's own agent type of this name, else the platform's.
#[boxed]
pub async fn agent_type(engine: &Engine, tenant: &Tenant, id: &Name) -> Result<AgentType, OpError> {
    if let Tenant::Project(_) = tenant
        && let Some(own) = SHELF.find(engine, &tenant.key(id)).await?
    {
        return Ok(own);
    }
    SHELF.get(engine, id.as_str()).await
}

/// Returns the tenant's own agent type, for a change.
async fn own_agent_type(engine: &Engine, tenant: &Tenant, id: &Name) -> Result<AgentType, OpError> {
    let found = agent_type(engine, tenant, id).await?;
    match found.tenant() == *tenant {
        true => Ok(found),
        false => Err(OpError::OfPlatform { what: Resource::AgentType, id: id.to_string() }),
    }
}

/// The agent types that a tenant can use, sorted by name: its own, and those of the platform whose
/// names it has not taken.
#[boxed]
pub async fn agent_types(engine: &Engine, tenant: &Tenant, page: &Page) -> Result<Vec<AgentType>, OpError> {
    SHELF.list_visible(engine, tenant, page, |one: &AgentType| one.id.clone()).await
}

/// All agent types of the server, sorted by their keys.
pub(crate) async fn all_agent_types(engine: &Engine, page: &Page) -> Result<Vec<AgentType>, OpError> {
    SHELF.list(engine, page).await
}

/// Replaces the workspace config. Running sessions keep the config they were created with.
#[boxed]
pub async fn set_workspace_config(
    engine: &Engine,
    actor: &Actor,
    tenant: &Tenant,
    id: &Name,
    workspace: WorkspaceConfig,
) -> Result<AgentType, OpError> {
    let before = own_agent_type(engine, tenant, id).await?;
    let after = AgentType { workspace, updated_at: clock::now(), ..before };
    check_project(&after)?;
    SHELF.put(engine, actor, &after.key(), &after, WriteMode::Replace).await?;
    engine.pool().look();
    Ok(after)
}

/// Replaces an agent type that exists. Running sessions keep the configuration they were created
/// with.
#[boxed]
pub async fn replace_agent_type(
    engine: &Engine,
    actor: &Actor,
    tenant: &Tenant,
    declaration: AgentTypeDeclaration,
) -> Result<AgentType, OpError> {
    let before = own_agent_type(engine, tenant, &declaration.id).await?;
    let after = AgentType { created_at: before.created_at, ..declaration.at(tenant, clock::now()) };
    check_project(&after)?;
    writable(engine, tenant).await?;
    SHELF.put(engine, actor, &after.key(), &after, WriteMode::Replace).await?;
    engine.pool().look();
    Ok(after)
}

/// Deletes an agent type that has no live sessions.
#[boxed]
pub async fn delete_agent_type(engine: &Engine, actor: &Actor, tenant: &Tenant, id: &Name) -> Result<(), OpError> {
    let found = own_agent_type(engine, tenant, id).await?;
    for status in ["provisioning", "active", "paused", "closing"] {
        let query = SessionQuery {
            limit: 1,
            status: Some(status.to_owned()),
            agent_type: Some(id.to_string()),
            project: tenant.project().map(Name::to_string),
            ..SessionQuery::default()
        };
        if !engine.store().sessions(query).await?.is_empty() {
            return Err(OpError::InUse { id: id.to_string() });
        }
    }
    SHELF.delete(engine, actor, &found.key()).await?;
    engine.pool().look();
    Ok(())
}
