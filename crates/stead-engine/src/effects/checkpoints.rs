//! Takes and removes the checkpoints of a session.
//!
//! A checkpoint is taken between an effect and its outcome event, which names it. A crash in
//! between leaves a snapshot that no event names, and the next start removes it. A failed
//! checkpoint never fails or undoes a call. The outcome then contains the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stead_core::event::FileEffect;
use stead_core::plan::Action;
use stead_core::rewind::{AbsenceReason, Checkpoint, CheckpointCost};
use stead_core::{SessionId, SnapshotId, State, WorkspaceId};
use stead_providers::{Done, PointOrder, Workspace};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// Takes a checkpoint after an operation, if the session's agent type asks for it.
pub(crate) async fn keep(session: &OpenSession, workspace: &dyn Workspace, done: &mut Done) {
    let cost = session.checkpoint_cost().await;
    if cost == CheckpointCost::Off {
        return;
    }
    let order = PointOrder { snapshot: SnapshotId::from_bits(clock::id_bits()), points: cost };
    if let Err(error) = workspace.point(order, done).await {
        tracing::warn!(session = %session.id(), error = %error.to_failure().message, "the files are not kept");
        done.point = Some(Checkpoint::Absent(AbsenceReason::Failed));
    }
}

/// The same after a command, whose files never live in the journal.
pub(crate) async fn keep_after_exec(session: &OpenSession, workspace: &dyn Workspace) -> FileEffect {
    let mut done = Done::nothing();
    keep(session, workspace, &mut done).await;
    FileEffect { touched: done.touched, point: done.point, ..FileEffect::default() }
}

/// Returns all snapshots and checkpoints of a session.
pub(crate) fn wanted(state: &State) -> BTreeSet<SnapshotId> {
    let session = state.session.as_ref();
    let named = session.into_iter().flat_map(|session| session.snapshots.keys().copied());
    let checkpoints = session.into_iter().flat_map(|session| session.checkpoints.snapshots());
    named.chain(checkpoints).collect()
}

/// Removes checkpoints that the session can no longer be rewound to.
pub(crate) fn forget(engine: &Engine, session: &OpenSession, before: &State, after: &State) {
    let checkpoints = |state: &State| state.session.as_ref().map(|session| session.checkpoints.clone());
    // Most events do not change them, and both states then share one pointer.
    if let (Some(before), Some(after)) = (checkpoints(before), checkpoints(after))
        && (Arc::ptr_eq(&before, &after) || before == after)
    {
        return;
    }
    let left = wanted(after);
    let gone: Vec<SnapshotId> = wanted(before).into_iter().filter(|snapshot| !left.contains(snapshot)).collect();
    let (false, Some(workspace)) = (gone.is_empty(), session.workspace()) else { return };
    let id = session.id();
    engine.spawn(async move {
        if let Err(error) = workspace.forget(gone).await {
            tracing::warn!(session = %id, error = %error.to_failure().message, "cannot forget old snapshots");
        }
    });
}

/// After a start, removes every snapshot that no session can be rewound to or is about to begin
/// with.
pub(crate) async fn forget_unnamed(engine: &Engine, sessions: &[SessionId]) -> Result<(), OpError> {
    let mut workspaces: BTreeMap<WorkspaceId, (BTreeSet<SnapshotId>, OpenSession)> = BTreeMap::new();
    let mut begun_with = BTreeSet::new();
    for id in sessions {
        let session = OpenSession::open(engine, *id).await?;
        let state = session.state().await;
        let Some(spec) = state.session.as_ref().and_then(|session| session.workspace_spec()) else { continue };
        begun_with.extend(spec.plan.actions.iter().filter_map(|action| match action {
            Action::RestoreSnapshot { snapshot, .. } => Some(*snapshot),
            _ => None,
        }));
        let entry = workspaces.entry(spec.id).or_insert_with(|| (BTreeSet::new(), session.clone()));
        entry.0.extend(wanted(&state));
    }
    for (mut wanted, session) in workspaces.into_values() {
        let Some(workspace) = session.workspace() else { continue };
        wanted.extend(&begun_with);
        if let Err(error) = workspace.retain(wanted).await {
            tracing::warn!(session = %session.id(), error = %error.to_failure().message, "cannot forget old snapshots");
        }
    }
    Ok(())
}
