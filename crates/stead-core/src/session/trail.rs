//! Folds the journal into the checkpoints that a session can be rewound to.

use std::sync::Arc;

use super::Session;
use crate::event::{Event, FileEffect, FileOperation, Recorded};
use crate::rewind::{Point, Points, Unkept};

/// Runs before the event's own fold, so that the call or operation is still in the open lists.
pub(super) fn apply(session: &mut Session, recorded: &Recorded) {
    let Some(rewind) = session.workspace_spec().map(|spec| spec.rewind) else { return };
    if rewind.points == Points::Off {
        return;
    }
    let seq = recorded.seq;
    if let Event::FileOperationFinished { call, failure: None, .. } = &recorded.event
        && let Some(FileOperation::Rewind { snapshot, before, .. }) = session.open_operations.get(call)
    {
        // Right before the rewind the files equalled `before`, so a rewind to that event undoes it.
        let (snapshot, before) = (*snapshot, *before);
        let trail = Arc::make_mut(&mut session.trail);
        trail.note(seq - 1, Point::Kept(before), rewind.keep);
        trail.note(seq, Point::Kept(snapshot), rewind.keep);
        return;
    }
    if let Some(point) = point(session, &recorded.event) {
        Arc::make_mut(&mut session.trail).note(seq, point, rewind.keep);
    }
}

/// Returns the checkpoint that an event records. `None` if the event is not about files.
fn point(session: &Session, event: &Event) -> Option<Point> {
    let told = |files: &FileEffect| files.point.unwrap_or(Point::Unkept(Unkept::Untracked));
    match event {
        Event::WorkspaceReady { point, .. } => Some(point.unwrap_or(Point::Unkept(Unkept::Untracked))),
        Event::ToolCallFinished { call, files, .. } => {
            let changes = session.open_calls.get(call).is_some_and(|open| open.tool.changes_files());
            changes.then(|| told(files))
        }
        Event::FileOperationFinished { failure: Some(_), .. } => None,
        Event::FileOperationFinished { call, files, .. } => match session.open_operations.get(call)? {
            FileOperation::Snapshot { snapshot, .. } | FileOperation::Restore { snapshot } => {
                Some(Point::Kept(*snapshot))
            }
            _ => Some(told(files)),
        },
        // From here on the command may change files at any time.
        Event::ExecStarted { .. } => Some(Point::Unkept(Unkept::AtWork)),
        Event::ExecFinished { files, .. } => Some(told(files)),
        Event::ToolCallInterrupted { call, .. } => {
            let changes = session.open_calls.get(call).is_some_and(|open| open.tool.changes_files());
            changes.then_some(Point::Unkept(Unkept::Interrupted))
        }
        Event::FileOperationInterrupted { .. } | Event::ExecInterrupted { .. } => {
            Some(Point::Unkept(Unkept::Interrupted))
        }
        Event::WorkspaceShared { .. } => None,
        _ => None,
    }
}
