//! The catalog gate: while a catalog is active, a session token sees and calls only what it has.
//!
//! The gate applies to every API. An operator's token passes it, because the operator chooses the
//! catalog.

use std::collections::BTreeSet;

use super::binding::Operation;
use super::decide::{Visible, bound, offered, shown_catalog};
use super::event::SyncRequested;
use super::materialize::catalog_outside_runs;
use super::refusal::Refusal;
use super::run::CallFrom;
use super::snapshot::{CatalogRef, Snapshot};
use crate::identity::Actor;
use crate::rejection::Rejection;
use crate::session::Session;
use crate::tool::{ToolName, ToolSet};

/// The caller that works with the active catalog.
const ACTIVE: CallFrom = CallFrom::Session { catalog: None };

/// Returns the name of the active catalog, if there is one.
pub fn active_catalog(session: &Session) -> Option<&str> {
    session.content.active.as_deref()?.tool_catalog.as_deref()
}

/// Returns the tools of the active catalog with the operations that they are bound to.
fn tools(session: &Session) -> Option<Vec<(Visible, Operation)>> {
    active_catalog(session)?;
    // A catalog that cannot be found offers nothing.
    match catalog_outside_runs(session.content.active.as_deref(), None) {
        Ok(Some((catalog, found))) => Some(bound_tools(session, &ACTIVE, &catalog, &found)),
        _ => Some(Vec::new()),
    }
}

fn bound_tools(session: &Session, from: &CallFrom, catalog: &str, found: &CatalogRef) -> Vec<(Visible, Operation)> {
    let tool = |(name, descriptor): (String, String)| {
        let (catalog, catalog_ref) = (catalog.to_owned(), found.digest.clone());
        let visible = Visible { name, catalog, catalog_ref, descriptor };
        let operation = bound(session, from, &visible)?;
        Some((visible, operation))
    };
    found.tools.clone().into_iter().filter_map(tool).collect()
}

/// Returns the workspace tools that the active catalog lets an agent use. `None` without an active
/// catalog.
pub fn catalog_tools(session: &Session) -> Option<BTreeSet<ToolName>> {
    tools(session).map(workspace_tools)
}

fn workspace_tools(tools: Vec<(Visible, Operation)>) -> BTreeSet<ToolName> {
    let runs = |operation: Operation| match operation {
        Operation::Tool { tool, adapter } => adapter.tools(tool),
        Operation::Content { .. } | Operation::Mcp { .. } => Vec::new(),
    };
    tools.into_iter().flat_map(|(_, operation)| runs(operation)).collect()
}

/// Returns the workspace tools that the catalog of a bound call runs. The call can do no more than
/// these. `None` for an operator, and while no catalog is active.
pub(super) fn limiting_tools(
    session: &Session,
    from: &CallFrom,
    actor: &Actor,
) -> Result<Option<BTreeSet<ToolName>>, Rejection> {
    if !matches!(actor, Actor::Session { .. }) || active_catalog(session).is_none() {
        return Ok(None);
    }
    let shown = shown_catalog(session, from)?;
    let tools = shown.map(|(catalog, found)| bound_tools(session, from, &catalog, &found));
    Ok(Some(workspace_tools(tools.unwrap_or_default())))
}

/// Returns the tools of the active catalog that the agent of a session with this workspace can
/// call, by name. `None` without an active catalog. Operations that are no workspace tools have no
/// tool.
pub fn shown_tools(session: &Session, enabled: &ToolSet) -> Option<Vec<(String, Option<ToolName>)>> {
    let shown = |(visible, operation): (Visible, Operation)| match operation {
        Operation::Tool { tool, .. } => {
            (enabled.allows(tool) && session.has_tool(tool)).then_some((visible.name, Some(tool)))
        }
        Operation::Content { .. } | Operation::Mcp { .. } => Some((visible.name, None)),
    };
    Some(tools(session)?.into_iter().filter_map(shown).collect())
}

/// Returns the name by which the active catalog has a tool in its own shape. `None` if it has none.
pub fn name_in_catalog(session: &Session, tool: ToolName) -> Option<String> {
    let plain = Operation::tool(tool, super::binding::Adapter::Plain);
    let mut names: Vec<String> =
        tools(session)?.into_iter().filter(|(_, bound)| *bound == plain).map(|(visible, _)| visible.name).collect();
    let own = names.iter().position(|name| name == tool.as_str()).unwrap_or(0);
    (!names.is_empty()).then(|| names.swap_remove(own))
}

pub fn not_in_catalog(session: &Session, tool: ToolName) -> Refusal {
    let agent = Actor::Session { session: session.id };
    let callable = offered(session, &ACTIVE, &agent).ok().flatten().unwrap_or_default();
    let names: Vec<String> = callable.into_iter().map(|(visible, _)| visible.name).collect();
    let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Refusal::ToolNotVisible { name: tool.to_string(), available }
}

/// Replaces a catalog that a session token chose by the active one.
pub fn confine(session: &Session, from: &CallFrom, actor: &Actor) -> CallFrom {
    match (from, actor) {
        (CallFrom::Session { .. }, Actor::Session { .. }) if active_catalog(session).is_some() => ACTIVE,
        _ => from.clone(),
    }
}

/// Returns the catalog to select in content that a sync has read. A session token that names none
/// keeps the active one. Otherwise the defaults of the binding or the content would replace it.
pub(super) fn synced_catalog<'a>(session: &'a Session, requested: &'a SyncRequested) -> Option<&'a str> {
    let kept = || active_catalog(session).filter(|_| matches!(requested.actor, Actor::Session { .. }));
    requested.tool_catalog.as_deref().or_else(kept)
}

/// Refuses content that a session token has synced and that would replace the active catalog by
/// another one or by none. The tools of the catalog may change, because an agent may follow the
/// versions of its content.
pub(super) fn check_synced(session: &Session, synced: &Snapshot, actor: &Actor) -> Result<(), Refusal> {
    let (Actor::Session { .. }, Some(active)) = (actor, active_catalog(session)) else { return Ok(()) };
    let catalog = synced.tool_catalog.as_deref();
    let fixed = |wanted: String| Err(Refusal::CatalogFixed { wanted, active: active.to_owned() });
    if catalog != Some(active) {
        return fixed(catalog.map_or("none".to_owned(), |wanted| format!("the tool catalog '{wanted}'")));
    }
    // A profile of the same name is another catalog than the content's own.
    let own = |snapshot: &Snapshot| snapshot.tool_catalogs.contains_key(active);
    if session.content.active.as_deref().is_some_and(|current| own(current) != own(synced)) {
        return fixed(format!("another catalog with the name '{active}'"));
    }
    Ok(())
}

/// Refuses a session token's choice of another catalog, or of a content version with other
/// catalogs, while a catalog is active.
pub(super) fn check_choice(
    session: &Session,
    catalog: Option<&str>,
    pinned: Option<&Snapshot>,
    actor: &Actor,
) -> Result<(), Refusal> {
    let (Actor::Session { .. }, Some(active)) = (actor, active_catalog(session)) else { return Ok(()) };
    let fixed = |wanted: String| Err(Refusal::CatalogFixed { wanted, active: active.to_owned() });
    if let Some(wanted) = catalog.filter(|wanted| *wanted != active) {
        return fixed(format!("the tool catalog '{wanted}'"));
    }
    let own = session.content.active.as_deref().map(|snapshot| &snapshot.tool_catalogs);
    match pinned {
        Some(pinned) if Some(&pinned.tool_catalogs) != own || pinned.tool_catalog.as_deref() != Some(active) => {
            fixed(format!("version {}, whose tools differ", pinned.version))
        }
        _ => Ok(()),
    }
}
