//! The session's tools as the protocol tells of them.

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

/// Every tool the session's agent may call now: of the catalog, where there is one, else the workspace's own.
pub(super) async fn tools(chosen: &Chosen) -> Result<Vec<Tool>, ErrorData> {
    match ops::offered_tools(&chosen.app.engine, chosen.session, chosen.catalog.clone()).await {
        Ok(Some(offered)) => return Ok(offered.into_iter().map(presented).collect()),
        Ok(None) | Err(OpError::Rejected(Rejection::NotActive { .. })) => {}
        Err(error) => return Err(refusal(&Problem::from(error))),
    }
    let state =
        ops::session(&chosen.app.engine, chosen.session).await.map_err(|error| refusal(&Problem::from(error)))?;
    let Some(session) = state.session else { return Ok(Vec::new()) };
    // Whoever asks: what is listed is what the session's agent may call.
    let agent = Actor::Session { session: chosen.session };
    let own = Definition::all().filter(|tool| may_use(&session, tool.name, &agent).is_ok()).map(describe);
    Ok(own.chain(set_digest::listed(&session)).collect())
}

/// As its catalog describes it. Without hints of its own it has those of what it stands for.
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

/// Hints for clients that ask before a call.
fn annotations(tool: &Definition) -> ToolAnnotations {
    let hints = ToolAnnotations::new().open_world(tool.open_world);
    match tool.name.changes_files() {
        false => hints.read_only(true),
        true => hints.read_only(false).destructive(true).idempotent(false),
    }
}
