//! Rules for starting commands in a box, and the events that follow from their end.

use super::in_workspace;
use crate::ExecId;
use crate::actor::Actor;
use crate::command::{Effect, ExecOutcome, Step};
use crate::event::Event;
use crate::exec::{ExecOrder, MAX_ARGV_BYTES};
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
    let bytes = order.spec.argv_bytes();
    if bytes > MAX_ARGV_BYTES {
        return Err(Rejection::TooLarge { bytes: bytes as u64, limit: MAX_ARGV_BYTES as u64 });
    }
    let started = Event::ExecStarted { exec, spec: order.spec.clone(), actor: actor.clone() };
    let effect = Effect::Exec { exec, order, output_bytes: spec.tool_limits.output_bytes };
    Ok(Step { events: vec![started], effect: Some(effect) })
}

/// Checks that the execs of a session may be read, fed, signalled and ended, and that this one
/// exists.
pub fn may_use_exec(session: &Session, exec: ExecId) -> Result<(), Rejection> {
    let spec = in_workspace(session)?;
    if !spec.tools.allows(TOOL) {
        return Err(Rejection::ToolNotEnabled { tool: TOOL });
    }
    session.execs.get(exec).map(drop).ok_or(Rejection::NoExec { exec })
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
