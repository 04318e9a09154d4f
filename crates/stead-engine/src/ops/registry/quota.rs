//! Reads and sets the quotas of a project, and reads what its sessions reserve.

use std::collections::BTreeMap;
use std::sync::Arc;

use stead_core::admission::{Amounts, Scope};
use stead_core::quota::Quotas;
use stead_core::{Actor, Name, Resource};
use stead_store::{DocumentKind, WriteMode};

use crate::engine::Engine;
use crate::error::OpError;
use crate::limits::quotas::remember;
use crate::ops::boxed;
use crate::ops::registry::document::Shelf;
use crate::ops::registry::project::project;

const SHELF: Shelf = Shelf { kind: DocumentKind::Quota, what: Resource::Quota };

/// The sums of the reservations of a project's live sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    pub project: Amounts,
    pub users: BTreeMap<String, Amounts>,
    pub agent_types: BTreeMap<String, Amounts>,
}

/// The id of the document. The prefix leaves room for quotas of other scopes.
fn id(project: &Name) -> String {
    format!("project/{project}")
}

/// Returns the quotas of an existing project. A project without quotas has no limits.
#[boxed]
pub async fn quotas(engine: &Engine, project_id: &Name) -> Result<Quotas, OpError> {
    project(engine, project_id).await?;
    Ok(Quotas::clone(&*effective_quotas(engine, project_id).await?))
}

/// Returns the quotas of a project, which may not exist. Reads the store at most once.
#[boxed]
pub async fn effective_quotas(engine: &Engine, project_id: &Name) -> Result<Arc<Quotas>, OpError> {
    if let Some(known) = engine.quota_cache().get(project_id).await {
        return Ok(known);
    }
    let mut known = engine.quota_cache().0.write().await;
    let found: Option<Quotas> = SHELF.find(engine, &id(project_id)).await?;
    let quotas = Arc::new(found.unwrap_or_default());
    remember(&mut known, project_id, quotas.clone());
    Ok(quotas)
}

/// Replaces the quotas of a project. Sessions that live already are not affected.
#[boxed]
pub async fn set_quotas(engine: &Engine, actor: &Actor, project_id: &Name, quotas: Quotas) -> Result<Quotas, OpError> {
    project(engine, project_id).await?;
    let (work, actor, project_id) = (engine.clone(), actor.clone(), project_id.clone());
    // To its end: the cache must not keep a version that the store has replaced.
    engine
        .to_its_end(async move {
            let mut known = work.quota_cache().0.write().await;
            known.remove(&project_id);
            SHELF.put(&work, &actor, &id(&project_id), &quotas, WriteMode::CreateOrReplace).await?;
            remember(&mut known, &project_id, Arc::new(quotas.clone()));
            Ok(quotas)
        })
        .await
}

#[boxed]
pub async fn reserved(engine: &Engine, project_id: &Name) -> Result<Reserved, OpError> {
    project(engine, project_id).await?;
    let key = Scope::Project { project: project_id.to_string() }.to_string();
    // The scope alone: NUL is in no name.
    let of_project = engine.store().reserved(&key, &format!("{key}\u{1}")).await?;
    Ok(Reserved {
        project: of_project.get(&key).copied().unwrap_or_default(),
        users: below(engine, &format!("user/{project_id}/")).await?,
        agent_types: below(engine, &format!("type/{project_id}/")).await?,
    })
}

/// The sums of the scopes with a prefix, by the rest of their text. Empty ones are left out.
async fn below(engine: &Engine, prefix: &str) -> Result<BTreeMap<String, Amounts>, OpError> {
    // '0' follows '/' in the order of bytes.
    let until = format!("{}0", prefix.trim_end_matches('/'));
    let found = engine.store().reserved(prefix, &until).await?;
    let live = found.into_iter().filter(|(_, amounts)| *amounts != Amounts::default());
    Ok(live.filter_map(|(scope, amounts)| Some((scope.strip_prefix(prefix)?.to_owned(), amounts))).collect())
}
