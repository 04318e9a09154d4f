//! When a command may be started in a box, and what follows from its end.

use super::in_workspace;
use crate::ExecId;
use crate::actor::Actor;
use crate::command::{Effect, ExecOutcome, Step};
use crate::event::Event;
use crate::exec::{ExecOrder, MAX_ARGV_BYTES};
use crate::rejection::Rejection;
use crate::session::Session;
use crate::tool::ToolName;

/// The tool that could do the same.
const TOOL: ToolName = ToolName::Bash;

/// Passes the same gate as a call of `bash`: whoever may not have the tool may not have this door to it.
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

/// Whether an actor may look at, feed, signal or end the execs of a session.
pub fn may_use_exec(session: &Session, exec: ExecId) -> Result<(), Rejection> {
    let spec = in_workspace(session)?;
    if !spec.tools.allows(TOOL) {
        return Err(Rejection::ToolNotEnabled { tool: TOOL });
    }
    session.execs.get(exec).map(drop).ok_or(Rejection::NoExec { exec })
}

/// What was interrupted meanwhile has its outcome already.
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

/// Every command that runs ends here, without an outcome.
pub(super) fn interrupted(session: &Session, reason: &str) -> impl Iterator<Item = Event> {
    session.execs.running().map(|exec| Event::ExecInterrupted { exec, reason: reason.to_owned() })
}
