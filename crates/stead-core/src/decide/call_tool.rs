//! Rules for tool calls: which actor may use which tool, with which arguments.

use serde_json::Value;

use super::in_workspace;
use crate::CallId;
use crate::actor::Actor;
use crate::command::{Effect, Step};
use crate::event::Event;
use crate::parse::{MAX_DEPTH, within_depth};
use crate::rejection::Rejection;
use crate::session::Session;
use crate::spec::WorkspaceSpec;
use crate::tool::ToolName;

/// Allows a tool call if the workspace is ready and the agent type enables the tool.
pub(crate) fn call_tool(
    session: &Session,
    call: CallId,
    tool: ToolName,
    arguments: Value,
    actor: &Actor,
) -> Result<Step, Rejection> {
    let spec = in_workspace(session)?;
    let banned = |tool: &ToolName| !spec.tools.allows(*tool);
    if let Some(tool) = std::iter::once(tool).chain(tool.also_needed(&arguments)).find(banned) {
        return Err(Rejection::ToolNotEnabled { tool });
    }
    check_size(&arguments, spec)?;
    let started = Event::ToolCallStarted { call, tool, arguments: arguments.clone(), actor: actor.clone() };
    Ok(Step {
        events: vec![started],
        effect: Some(Effect::CallTool { call, tool, arguments, limits: spec.tool_limits }),
    })
}

/// Checks that an actor may use the files the way `tool` does. The operator may. An agent may only
/// if its agent type enables the tool, so that no API gives an agent more access than its tools.
pub fn may_use(session: &Session, tool: ToolName, actor: &Actor) -> Result<(), Rejection> {
    let spec = in_workspace(session)?;
    match actor {
        Actor::Session { .. } if !spec.tools.allows(tool) => Err(Rejection::ToolNotEnabled { tool }),
        _ => Ok(()),
    }
}

/// Refuses oversized arguments before they are recorded, because the journal keeps them whole.
fn check_size(arguments: &Value, spec: &WorkspaceSpec) -> Result<(), Rejection> {
    if !within_depth(arguments, MAX_DEPTH) {
        return Err(Rejection::TooDeep { limit: MAX_DEPTH });
    }
    // A character takes at most six bytes of JSON. The rest is room for paths, patterns and
    // commands.
    let limits = &spec.tool_limits;
    let limit = 6 * (2 * limits.write_chars + limits.command_chars) + 64 * 1024;
    let bytes = arguments.to_string().len() as u64;
    if bytes > limit { Err(Rejection::TooLarge { bytes, limit }) } else { Ok(()) }
}
