//! Rules for rewinding the files of a session to one of its events.

use super::may_use;
use crate::command::{Effect, Step};
use crate::event::{Event, FileOperation};
use crate::identity::Actor;
use crate::rejection::Rejection;
use crate::session::{Session, State};
use crate::tool::ToolName;
use crate::{CallId, SnapshotId};

/// Returns the checkpoint at event `to`, if the actor may change files.
pub fn may_rewind_to(state: &State, session: &Session, to: u64, actor: &Actor) -> Result<SnapshotId, Rejection> {
    may_use(session, ToolName::Write, actor)?;
    if to == 0 || to > state.seq {
        return Err(Rejection::NoEvent { to, last: state.seq });
    }
    session.checkpoints.find(to).map_err(Rejection::NoCheckpoint)
}

pub(super) fn rewind(
    state: &State,
    session: &Session,
    call: CallId,
    to: u64,
    before: SnapshotId,
    actor: &Actor,
) -> Result<Step, Rejection> {
    let snapshot = may_rewind_to(state, session, to, actor)?;
    let operation = FileOperation::Rewind { to, snapshot, before };
    let started = Event::FileOperationStarted { call, operation: operation.clone(), actor: actor.clone() };
    Ok(Step { events: vec![started], effect: Some(Effect::OperateFiles { call, operation }) })
}
