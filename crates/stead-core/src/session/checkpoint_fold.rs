//! Folds the journal into the checkpoints that a session can be rewound to.

use std::sync::Arc;

use super::Session;
use crate::event::{Event, FileEffect, FileOperation, Recorded};
use crate::rewind::{AbsenceReason, Checkpoint, CheckpointCost};

/// Runs before the event's own fold, so that the call or operation is still in the open lists.
pub(super) fn fold(session: &mut Session, recorded: &Recorded) {
    let Some(rewind) = session.workspace_spec().map(|spec| spec.rewind) else { return };
    if rewind.points == CheckpointCost::Off {
        return;
    }
    let seq = recorded.seq;
    if let Event::FileOperationFinished { call, failure: None, .. } = &recorded.event
        && let Some(FileOperation::Rewind { snapshot, before, .. }) = session.open_operations.get(call)
    {
        // Right before the rewind the files equalled `before`, so a rewind to that event undoes it.
        let (snapshot, before) = (*snapshot, *before);
        let checkpoints = Arc::make_mut(&mut session.checkpoints);
        checkpoints.note(seq - 1, Checkpoint::Kept(before), rewind.keep);
        checkpoints.note(seq, Checkpoint::Kept(snapshot), rewind.keep);
        return;
    }
    if let Some(checkpoint) = checkpoint(session, &recorded.event) {
        Arc::make_mut(&mut session.checkpoints).note(seq, checkpoint, rewind.keep);
    }
}

/// Returns the checkpoint that an event records. `None` if the event is not about files.
fn checkpoint(session: &Session, event: &Event) -> Option<Checkpoint> {
    let recorded = |files: &FileEffect| files.point.unwrap_or(Checkpoint::Absent(AbsenceReason::Untracked));
    match event {
        Event::WorkspaceReady { point, .. } => Some(point.unwrap_or(Checkpoint::Absent(AbsenceReason::Untracked))),
        Event::ToolCallFinished { call, files, .. } => {
            let changes = session.open_calls.get(call).is_some_and(|open| open.tool.changes_files());
            changes.then(|| recorded(files))
        }
        Event::FileOperationFinished { failure: Some(_), .. } => None,
        Event::FileOperationFinished { call, files, .. } => match session.open_operations.get(call)? {
            FileOperation::Snapshot { snapshot, .. } | FileOperation::Restore { snapshot } => {
                Some(Checkpoint::Kept(*snapshot))
            }
            _ => Some(recorded(files)),
        },
        // From here on the command may change files at any time.
        Event::ExecStarted { .. } => Some(Checkpoint::Absent(AbsenceReason::AtWork)),
        Event::ExecFinished { files, .. } => Some(recorded(files)),
        Event::ToolCallInterrupted { call, .. } => {
            let changes = session.open_calls.get(call).is_some_and(|open| open.tool.changes_files());
            changes.then_some(Checkpoint::Absent(AbsenceReason::Interrupted))
        }
        Event::FileOperationInterrupted { .. } | Event::ExecInterrupted { .. } => {
            Some(Checkpoint::Absent(AbsenceReason::Interrupted))
        }
        Event::WorkspaceShared { .. } => None,
        _ => None,
    }
}
