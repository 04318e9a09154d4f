//! Rules for starting commands in a box, and the events that follow from their end.

use super::call_tool::in_catalog;
use super::in_workspace;
use crate::ExecId;
use crate::command::{Effect, ExecOutcome, Step};
use crate::event::Event;
use crate::exec::{ExecOrder, ExecSpec};
use crate::identity::Actor;
use crate::rejection::Rejection;
use crate::session::Session;
use crate::tool::ToolName;

/// The tool with the same effect.
const TOOL: ToolName = ToolName::Bash;

/// Checks the same conditions as a call of `bash`, so that an exec is no way around a disabled
/// tool.
pub(super) fn exec(session: &Session, exec: ExecId, order: Box<ExecOrder>, actor: &Actor) -> Result<Step, Rejection> {
    let spec = in_workspace(session)?;
    if !spec.tools.allows(TOOL) {
        return Err(Rejection::ToolNotEnabled { tool: TOOL });
    }
    in_catalog(session, TOOL, actor)?;
    let bytes = order.spec.argv_bytes();
    let limits = spec.tool_limits.for_call(None);
    let limit = ExecSpec::most_argv_bytes(&limits);
    if bytes > limit {
        return Err(Rejection::TooLarge { bytes, limit });
    }
    let started = Event::ExecStarted { exec, spec: order.spec.clone(), actor: actor.clone() };
    let effect = Effect::Exec { exec, order, output_bytes: limits.stream_bytes() };
    Ok(Step { events: vec![started], effect: Some(effect) })
}

/// Checks that the actor may do to the execs of a session what `tool` does, and that this one
/// exists. `bash` is enough for all of it.
pub fn may_use_exec(session: &Session, exec: ExecId, tool: ToolName, actor: &Actor) -> Result<(), Rejection> {
    let spec = in_workspace(session)?;
    if !spec.tools.allows(tool) {
        return Err(Rejection::ToolNotEnabled { tool });
    }
    in_catalog(session, tool, actor).or_else(|_| in_catalog(session, TOOL, actor))?;
    session.execs.get(exec).map(drop).ok_or(Rejection::NoExec { exec })
}

/// Checks that the actor may read the execs of a session and their output. The operator may, and so
/// may an agent with `bash` or `bash_output`. Execs stay readable after the session has ended.
pub fn may_read_execs(session: &Session, actor: &Actor) -> Result<(), Rejection> {
    let reader = ToolName::BashOutput;
    let disabled = session.workspace_spec().is_some_and(|spec| !spec.tools.allows(reader));
    if disabled && matches!(actor, Actor::Session { .. }) {
        return Err(Rejection::ToolNotEnabled { tool: TOOL });
    }
    in_catalog(session, reader, actor).or_else(|_| in_catalog(session, TOOL, actor))
}

/// Records the end of an exec. Returns no event if the exec was interrupted meanwhile.
pub(super) fn ended(session: &Session, exec: ExecId, outcome: ExecOutcome) -> Vec<Event> {
    if !session.execs.runs(exec) {
        return Vec::new();
    }
    vec![match outcome {
        ExecOutcome::Finished { exit, output, files } => Event::ExecFinished { exec, exit, output, files: *files },
        ExecOutcome::Failed(failure) => Event::ExecFailed { exec, failure },
        ExecOutcome::Interrupted { reason } => Event::ExecInterrupted { exec, reason },
    }]
}

/// Interrupts every running exec without an outcome.
pub(super) fn interrupted(session: &Session, reason: &str) -> impl Iterator<Item = Event> {
    session.execs.running().map(|exec| Event::ExecInterrupted { exec, reason: reason.to_owned() })
}
