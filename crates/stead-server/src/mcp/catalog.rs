//! The session's tools in the form of MCP.

use std::sync::Arc;

use rmcp::model::{ErrorData, JsonObject, Tool, ToolAnnotations};
use serde_json::Value;
use stead_api::tool::Definition;
use stead_core::content::binding::Operation;
use stead_core::decide::may_use;
use stead_core::{Actor, Rejection};
use stead_engine::OpError;
use stead_engine::ops::{self, OfferedTool};

use super::call::refusal;
use super::chosen::Chosen;
use super::set_digest;
use crate::problem::Problem;

/// Returns every tool that the session's agent may call now: the tools of the catalog if there is
/// one, else the workspace's own.
pub(super) async fn tools(chosen: &Chosen) -> Result<Vec<Tool>, ErrorData> {
    match ops::offered_tools(&chosen.app.engine, &chosen.actor, chosen.session, chosen.catalog.clone()).await {
        Ok(Some(offered)) => return Ok(offered.into_iter().map(presented).collect()),
        Ok(None) | Err(OpError::Rejected(Rejection::NotActive { .. })) => {}
        Err(error) => return Err(refusal(&Problem::from(error))),
    }
    let state =
        ops::session(&chosen.app.engine, chosen.session).await.map_err(|error| refusal(&Problem::from(error)))?;
    let Some(session) = state.session else { return Ok(Vec::new()) };
    // The list depends on the session's agent, not on the caller.
    let agent = Actor::Session { session: chosen.session };
    let usable = |tool: &Definition| session.has_tool(tool.name) && may_use(&session, tool.name, &agent).is_ok();
    let own = Definition::all().filter(usable).map(describe);
    Ok(own.chain(set_digest::listed(&session)).collect())
}

/// Converts a tool of a catalog. Without annotations of its own it gets those of the operation that
/// it is bound to.
fn presented(OfferedTool { descriptor, operation }: OfferedTool) -> Tool {
    let shape = descriptor.parameters.as_object().cloned().unwrap_or_else(JsonObject::new);
    let own = descriptor.annotations.and_then(|hints| serde_json::from_value::<ToolAnnotations>(hints).ok());
    let hints = own.or(match operation {
        Operation::Tool { tool, .. } => Some(annotations(&Definition::of(tool))),
        Operation::Content { .. } => Some(ToolAnnotations::new().read_only(true).open_world(false)),
        Operation::Mcp { .. } => None,
    });
    let tool = Tool::new(descriptor.name, descriptor.description, Arc::new(shape));
    match hints {
        Some(hints) => tool.with_annotations(hints),
        None => tool,
    }
}

fn describe(tool: Definition) -> Tool {
    let shape = |value: Value| Arc::new(value.as_object().cloned().unwrap_or_else(JsonObject::new));
    Tool::new(tool.name.as_str(), tool.description, shape((tool.parameters)()))
        .with_raw_output_schema(shape((tool.output)()))
        .with_annotations(annotations(&tool))
}

/// Annotations for clients that ask a person before they call a tool.
fn annotations(tool: &Definition) -> ToolAnnotations {
    let hints = ToolAnnotations::new().open_world(tool.open_world);
    match tool.name.changes_files() {
        false => hints.read_only(true),
        true => hints.read_only(false).destructive(tool.destructive()).idempotent(tool.idempotent()),
    }
}
