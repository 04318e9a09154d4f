//! The sessions that use each workspace. The workspace is removed when its last session leaves.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use stead_core::{SessionId, WorkspaceId};

/// Users of each workspace. Kept in memory and rebuilt at a start from the live sessions.
#[derive(Default)]
pub(crate) struct WorkspaceUsers(Mutex<HashMap<WorkspaceId, HashSet<SessionId>>>);

/// Tells if other sessions still use a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remaining {
    None,
    Others,
}

impl WorkspaceUsers {
    pub(crate) fn enter(&self, workspace: WorkspaceId, session: SessionId) {
        self.lock().entry(workspace).or_default().insert(session);
    }

    pub(crate) fn users(&self, workspace: WorkspaceId) -> Vec<SessionId> {
        self.lock().get(&workspace).into_iter().flatten().copied().collect()
    }

    pub(crate) fn leave(&self, workspace: WorkspaceId, session: SessionId) -> Remaining {
        let mut workspaces = self.lock();
        let users = workspaces.entry(workspace).or_default();
        users.remove(&session);
        if users.is_empty() {
            workspaces.remove(&workspace);
            return Remaining::None;
        }
        Remaining::Others
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WorkspaceId, HashSet<SessionId>>> {
        // Each change is one insert or remove, so a panic elsewhere cannot leave it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
