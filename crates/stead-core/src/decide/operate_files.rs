//! Rules for operations on files that do not come from a tool.

use super::may_use;
use crate::CallId;
use crate::command::{Effect, Step};
use crate::event::{Event, FileOperation};
use crate::identity::Actor;
use crate::rejection::Rejection;
use crate::session::Session;

pub(super) fn operate_files(
    session: &Session,
    call: CallId,
    operation: FileOperation,
    actor: &Actor,
) -> Result<Step, Rejection> {
    may_use(session, operation.tool(), actor)?;
    if let FileOperation::Restore { snapshot } = &operation
        && !session.snapshots.contains_key(snapshot)
    {
        return Err(Rejection::NoSnapshot { snapshot: *snapshot });
    }
    let started = Event::FileOperationStarted { call, operation: operation.clone(), actor: actor.clone() };
    Ok(Step { events: vec![started], effect: Some(Effect::OperateFiles { call, operation }) })
}
