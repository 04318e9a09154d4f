//! Clones of a session, in the same workspace or each in a copy of it.

use std::collections::BTreeMap;

use stead_core::command::InitialContent;
use stead_core::content::{Snapshot, SnapshotRef, SyncTarget};
use stead_core::decide::may_rewind_to;
use stead_core::plan::Action;
use stead_core::session::warning::WarningCode;
use stead_core::spec::SessionSpec;
use stead_core::{Actor, Command, Resource, Session, SessionId, SnapshotId, State, WorkspaceId};

use crate::claim::Claims;
use crate::engine::Engine;
use crate::error::OpError;
use crate::limits::quotas;
use crate::open_session::{Birth, OpenSession};
use crate::ops::boxed;
use crate::ops::files::snapshot::keep;
use crate::ops::registry::project::check_not_deleting;
use crate::ops::sessions::create_session::refusal;
use crate::ops::{Idempotency, close_session, state_at};
use crate::{clock, reconcile};

/// The isolation of a clone from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// The clone uses the source's workspace. It is removed when its last session ends.
    None,
    /// The clone gets its own workspace with a copy of the files.
    Full,
}

/// The clones to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloneOrder {
    pub isolation: Isolation,
    pub count: u32,
    /// The event whose files they begin with, for full isolation. `None` uses the current files.
    pub at: Option<u64>,
}

/// Creates `count` clones, or none. Each is an independent session with its own journal and token.
#[boxed]
pub async fn clone_session(
    engine: &Engine,
    actor: &Actor,
    source: SessionId,
    wanted: CloneOrder,
    idempotency: Option<Idempotency>,
) -> Result<Vec<State>, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { make(&work, &actor, source, wanted, idempotency).await }).await
}

async fn make(
    engine: &Engine,
    actor: &Actor,
    source: SessionId,
    CloneOrder { isolation, count, at }: CloneOrder,
    idempotency: Option<Idempotency>,
) -> Result<Vec<State>, OpError> {
    let open = OpenSession::open(engine, source).await?;
    let missing = || OpError::NotFound { what: Resource::Session, id: source.to_string() };
    let now = open.state().await;
    let kept = match (at, &now.session) {
        (Some(at), Some(session)) => Some(may_rewind_to(&now, session, at, actor)?),
        _ => None,
    };
    // The digests and the content also come from that event.
    let then = match at {
        Some(at) => state_at(engine, source, at).await?,
        None => now,
    };
    let session = then.session.ok_or_else(missing)?;
    if let Some(project) = &session.spec.project {
        check_not_deleting(engine, project).await?;
    }
    let content = session.content.active.as_deref().cloned().map(Box::new).map(begin_with);
    let spec = inherited(&session);
    let claims = Claims::new("clones", source, actor, idempotency);
    let snapshot = match isolation {
        Isolation::None => None,
        Isolation::Full if kept.is_some() => kept,
        Isolation::Full => Some(keep(engine, actor, source, Some("clone".to_owned()), &claims).await?),
    };
    let made = async |number: u32, made: &mut Vec<SessionId>| {
        let part = format!("clone {number}");
        if let Some(before) = claims.made_before(engine, &part).await? {
            let gone = || OpError::NotFound { what: Resource::Session, id: before.clone() };
            return Ok(OpenSession::open(engine, before.parse().map_err(|_| gone())?).await?.state().await);
        }
        let id = SessionId::from_bits(clock::id_bits());
        let mut spec = spec.clone();
        match snapshot {
            None => {
                use_workspace_of(&mut spec, source);
                // A rebuild of the files must find every journal that records changes to them.
                open.commit(Command::Share { with: id }, actor).await?;
            }
            Some(snapshot) => fork(&mut spec, source, snapshot),
        }
        // There must be room for the remaining clones too, because all of them are created or none.
        let admission = quotas::admission(engine, actor, &spec, count - number).await?;
        let _place = engine.creations().enter(spec.project.as_ref()).await?;
        let birth = Birth { admission, idempotency: claims.on(&part, id) };
        let state = create(engine, actor, id, spec, content.clone(), birth).await?;
        made.push(id);
        Ok(state)
    };
    let (mut clones, mut new) = (Vec::new(), Vec::new());
    for number in 0..count {
        match made(number, &mut new).await {
            Ok(state) => clones.push(state),
            Err(error) => {
                for id in new {
                    close_session(engine, actor, id).await?;
                }
                return Err(error);
            }
        }
    }
    Ok(clones)
}

/// A clone begins with the content version that its source has adopted, not with the newest.
fn begin_with(snapshot: Box<Snapshot>) -> Box<InitialContent> {
    let SnapshotRef { workspace, version, root_hash } = snapshot.reference();
    let target = SyncTarget { workspace: Some(workspace), version: Some(version), root_hash: Some(root_hash) };
    Box::new(InitialContent { target, snapshot, warnings: Vec::new() })
}

/// Returns the spec that every clone begins with: the source's digests, init report and image
/// digest.
fn inherited(source: &Session) -> Box<SessionSpec> {
    let mut spec = Box::new(SessionSpec::clone(&source.spec));
    spec.digests = BTreeMap::clone(&source.digests);
    let (report, made) = source.workspace.as_ref().map(|workspace| (&*workspace.report, &*workspace.made)).unzip();
    if let Some(workspace) = &mut spec.workspace {
        // What an administrator took away from the source stays away. Grants are not inherited.
        workspace.network =
            workspace.network.take().map(|network| network.narrowed(source.network_changes.denied.clone()));
        // The source already had these warnings. That of an open network is about every session.
        workspace.notices.retain(|warning| warning.is(WarningCode::NetworkFull));
        workspace.brought = report.filter(|report| !report.is_empty()).cloned().map(Box::new);
        workspace.image_digest = made.and_then(|made| made.image_digest.clone()).or(workspace.image_digest.take());
    }
    spec
}

fn use_workspace_of(spec: &mut SessionSpec, source: SessionId) {
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

async fn create(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    spec: Box<SessionSpec>,
    content: Option<Box<InitialContent>>,
    birth: Birth,
) -> Result<State, OpError> {
    let session = OpenSession::unborn(engine, id);
    let born = session.commit_birth(Command::Create { session: id, spec, content }, actor, birth).await;
    let due = born.map_err(|error| refusal(engine, error))?;
    reconcile::begin_with(engine, id, due, None);
    Ok(session.state().await)
}
