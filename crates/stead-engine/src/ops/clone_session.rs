//! More sessions from one: in the same workspace, or each in a copy of it.

use stead_core::event::FileOperation;
use stead_core::plan::Action;
use stead_core::spec::SessionSpec;
use stead_core::{Actor, Command, SessionId, SnapshotId, State, WorkspaceId};
use stead_store::{Admission, CommitError};

use super::operate_files;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::{Birth, BirthError, OpenSession};
use crate::{clock, reconcile};

/// What a clone shares with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// The workspace itself, counted: it goes with the last session that uses it.
    None,
    /// Nothing: the clone begins with the files as they are now.
    Full,
}

/// Makes `count` clones. Each is a session of its own, with its own journal and token.
pub async fn clone_session(
    engine: &Engine,
    actor: &Actor,
    source: SessionId,
    isolation: Isolation,
    count: u32,
) -> Result<Vec<State>, OpError> {
    let open = OpenSession::open(engine, source).await?;
    let missing = || OpError::NotFound { what: "session", id: source.to_string() };
    let spec = open.state().await.session.ok_or_else(missing)?.spec;
    let snapshot = match isolation {
        Isolation::None => None,
        Isolation::Full => {
            let snapshot = SnapshotId::from_bits(clock::id_bits());
            let operation = FileOperation::Snapshot { snapshot, name: Some("clone".to_owned()) };
            operate_files(engine, actor, source, operation).await?;
            Some(snapshot)
        }
    };
    let mut clones = Vec::new();
    for _ in 0..count {
        let id = SessionId::from_bits(clock::id_bits());
        let mut spec = spec.clone();
        match snapshot {
            None => {
                share(&mut spec, source);
                // Whoever rebuilds the files must find every journal that tells of them.
                open.commit(Command::Share { with: id }, actor).await?;
            }
            Some(snapshot) => fork(&mut spec, source, snapshot),
        }
        clones.push(create(engine, actor, id, spec).await?);
    }
    Ok(clones)
}

fn share(spec: &mut SessionSpec, source: SessionId) {
    if let Some(workspace) = &mut spec.workspace {
        workspace.shared_with = Some(source);
        workspace.plan.actions.clear();
    }
}

fn fork(spec: &mut SessionSpec, session: SessionId, snapshot: SnapshotId) {
    if let Some(workspace) = &mut spec.workspace {
        workspace.id = WorkspaceId::from_bits(clock::id_bits());
        workspace.shared_with = None;
        workspace.plan.actions = vec![Action::RestoreSnapshot { session, snapshot }];
    }
}

async fn create(engine: &Engine, actor: &Actor, id: SessionId, spec: Box<SessionSpec>) -> Result<State, OpError> {
    let session = OpenSession::unborn(engine, id);
    let admission = Some(Admission { max_live: engine.settings().max_sessions });
    let birth = Birth { admission, idempotency: None };
    match session.commit_birth(Command::Create { session: id, spec }, actor, birth).await {
        Ok(()) => {}
        Err(BirthError::Op(error)) => return Err(error),
        Err(BirthError::Commit(CommitError::Full { max, .. })) => return Err(OpError::Full { max }),
        Err(BirthError::Commit(CommitError::Store(error))) => return Err(error.into()),
        Err(BirthError::Commit(_)) => return Err(OpError::Contended),
    }
    reconcile::begin(engine, id);
    Ok(session.state().await)
}
