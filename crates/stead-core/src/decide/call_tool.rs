//! Rules for tool calls: which actor may use which tool, with which arguments.

use serde_json::{Map, Value};

use super::in_workspace;
use crate::CallId;
use crate::command::{Effect, FileAccess, Step, ToolAccess};
use crate::config::{CallLimits, Preset};
use crate::content::gate::{catalog_tools, not_in_catalog};
use crate::env::HIDDEN;
use crate::event::Event;
use crate::identity::Actor;
use crate::parse::{MAX_DEPTH, within_depth};
use crate::rejection::Rejection;
use crate::session::Session;
use crate::tool::ToolName;

/// Allows a call of a tool by its own name, outside of any catalog.
pub(super) fn call_by_name(
    session: &Session,
    call: CallId,
    tool: ToolName,
    arguments: Value,
    actor: &Actor,
) -> Result<Step, Rejection> {
    let needed = tool.also_needed(&arguments);
    let mut step = call_tool(session, call, tool, arguments, None, actor)?;
    std::iter::once(tool).chain(needed).try_for_each(|tool| in_catalog(session, tool, actor))?;
    if let Some(Effect::CallTool { files, .. }) = &mut step.effect {
        *files = files.within_catalog(|tool| in_catalog(session, tool, actor).is_err());
    }
    Ok(step)
}

/// Allows a tool call if the workspace is ready and the agent type enables the tool. `profile` is
/// the preset of the profile through which the call comes.
pub(crate) fn call_tool(
    session: &Session,
    call: CallId,
    tool: ToolName,
    arguments: Value,
    profile: Option<Preset>,
    actor: &Actor,
) -> Result<Step, Rejection> {
    let spec = in_workspace(session)?;
    let banned = |tool: &ToolName| !spec.tools.allows(*tool);
    if let Some(tool) = std::iter::once(tool).chain(tool.also_needed(&arguments)).find(banned) {
        return Err(Rejection::ToolNotEnabled { tool });
    }
    let limits = spec.tool_limits.for_call(profile);
    check_size(&arguments, &limits)?;
    let recorded = recorded(tool, arguments.clone());
    let started = Event::ToolCallStarted { call, tool, arguments: recorded, actor: actor.clone() };
    let access = |tool| if banned(&tool) { ToolAccess::NotEnabled } else { ToolAccess::Allowed };
    let files = FileAccess { read: access(ToolName::Read), write: access(ToolName::Write) };
    Ok(Step { events: vec![started], effect: Some(Effect::CallTool { call, tool, arguments, limits, files }) })
}

/// Checks that an actor may use the files the way `tool` does. The operator may. An agent may only
/// if its agent type enables the tool and the active catalog has it, so that no API gives an agent
/// more access than its tools.
pub fn may_use(session: &Session, tool: ToolName, actor: &Actor) -> Result<(), Rejection> {
    is_enabled(session, tool, actor)?;
    in_catalog(session, tool, actor)
}

/// Checks that the agent type enables the tool. An administrator may use every tool, and a user
/// every tool that only reads.
pub(crate) fn is_enabled(session: &Session, tool: ToolName, actor: &Actor) -> Result<(), Rejection> {
    let spec = in_workspace(session)?;
    match actor {
        Actor::Session { .. } if !spec.tools.allows(tool) => Err(Rejection::ToolNotEnabled { tool }),
        // The permission to read sessions is enough to read.
        Actor::User { .. } if tool.changes_files() && !spec.tools.allows(tool) => {
            Err(Rejection::ToolNotEnabled { tool })
        }
        _ => Ok(()),
    }
}

/// Checks that the active catalog has a tool which runs this one. Without an active catalog, and
/// for the operator, there is no such condition.
pub(super) fn in_catalog(session: &Session, tool: ToolName, actor: &Actor) -> Result<(), Rejection> {
    if !matches!(actor, Actor::Session { .. }) {
        return Ok(());
    }
    match catalog_tools(session) {
        Some(tools) if !tools.contains(&tool) => Err(not_in_catalog(session, tool).into()),
        _ => Ok(()),
    }
}

/// Returns the arguments for the journal. As for an exec, it has neither the values of variables
/// nor the standard input, in which clients pass credentials. A reference to a secret stays.
fn recorded(tool: ToolName, mut arguments: Value) -> Value {
    if !matches!(tool, ToolName::Bash | ToolName::Python) {
        return arguments;
    }
    for value in arguments.get_mut("env").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        if !value.is_object() {
            *value = HIDDEN.into();
        }
    }
    if let Some(stdin) = arguments.get_mut("stdin").filter(|stdin| !stdin.is_null()) {
        *stdin = HIDDEN.into();
    }
    arguments
}

/// Refuses oversized arguments before they are recorded, because the journal keeps them whole.
fn check_size(arguments: &Value, limits: &CallLimits) -> Result<(), Rejection> {
    if !within_depth(arguments, MAX_DEPTH) {
        return Err(Rejection::TooDeep { limit: MAX_DEPTH });
    }
    let (bytes, limit) = (arguments.to_string().len() as u64, limits.argument_bytes());
    if bytes > limit { Err(Rejection::TooLarge { bytes, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_journal_has_no_values_of_variables_and_no_standard_input() {
        let given = json!({"command": "cat", "stdin": "canary", "env": {"A": "canary", "B": {"secret": "api"}}});
        let kept = json!({"command": "cat", "stdin": HIDDEN, "env": {"A": HIDDEN, "B": {"secret": "api"}}});
        assert_eq!(recorded(ToolName::Bash, given.clone()), kept);
        assert_eq!(recorded(ToolName::Python, given.clone()), kept);
        assert_eq!(recorded(ToolName::Write, given.clone()), given);
        for odd in [json!({"env": "x", "stdin": null}), json!([]), Value::Null] {
            assert_eq!(recorded(ToolName::Bash, odd.clone()), odd);
        }
    }
}
