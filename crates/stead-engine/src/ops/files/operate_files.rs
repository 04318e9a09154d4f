//! Changes files as bytes, takes snapshots and restores them.

use std::time::Instant;

use stead_core::event::{Event, Failure, FileEffect, FileOperation};
use stead_core::rewind::CheckpointCost;
use stead_core::session::Status;
use stead_core::tool::ToolName;
use stead_core::{Actor, CallId, Command, Effect, Outcome, Rejection, Resource, SessionId, Timestamp};
use stead_providers::{Done, FileOrder, OperateError, Placement, Workspace};
use stead_store::IdempotencyClaim;

use crate::clock;
use crate::effects::checkpoints;
use crate::effects::file_changes;
use crate::effects::guard::guard_op;
use crate::effects::perform::millis;
use crate::effects::snapshot_hashes;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::open_session::{Intent, OpenSession};
use crate::ops::boxed;
use crate::ops::tools::call_tool::{abandon, not_active};

/// The result of an operation, with its position in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operated {
    pub seq: u64,
    /// Hash of the whole tree after the operation.
    pub tree_hash: Option<String>,
    pub placement: Option<Placement>,
}

/// Carries out one operation.
#[boxed]
pub async fn operate_files(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    operation: FileOperation,
) -> Result<Operated, OpError> {
    operate_claimed(engine, actor, id, operation, None).await
}

/// The same, with an idempotency claim that becomes durable together with the intent.
pub(in crate::ops) async fn operate_claimed(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    operation: FileOperation,
    claim: Option<IdempotencyClaim>,
) -> Result<Operated, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.in_lane(id, async move { decide_and_perform(&work, &actor, id, operation, claim).await }).await
}

async fn decide_and_perform(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    operation: FileOperation,
    claim: Option<IdempotencyClaim>,
) -> Result<Operated, OpError> {
    let (call, tool) = (CallId::from_bits(clock::id_bits()), operation.tool());
    carry_out(engine, actor, id, Refused::Tool(tool), call, Command::OperateFiles { call, operation }, claim).await
}

/// The operation that the record of a refusal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) enum Refused {
    /// The tool with the same effect.
    Tool(ToolName),
    Rewind {
        to: u64,
    },
}

/// Takes a checkpoint if the user of a host directory has changed it since the last one, so that
/// the call that follows can be taken back without the user's changes. The call is performed even
/// if this fails.
pub(in crate::ops) async fn keep_unnoticed_changes(engine: &Engine, session: &OpenSession) {
    let Some(workspace) = session.workspace() else { return };
    if session.checkpoint_cost().await != CheckpointCost::Copies {
        return;
    }
    match workspace.changed_unnoticed().await {
        Ok(false) => return,
        Ok(true) => {}
        Err(error) => {
            tracing::warn!(session = %session.id(), error = %error.to_failure().message, "no checkpoint before a call");
            return;
        }
    }
    let call = CallId::from_bits(clock::id_bits());
    let command = Command::OperateFiles { call, operation: FileOperation::Checkpoint };
    let taken = match session.commit(command, &Actor::System).await {
        Ok(intent) => guard_op(perform(engine, session, intent)).await,
        // The call that follows is refused for the same reason.
        Err(_) => return,
    };
    if let Err(error) = taken {
        tracing::warn!(session = %session.id(), %error, "no checkpoint before a call");
        if matches!(error, OpError::Store(_) | OpError::Contended | OpError::Panicked) {
            abandon(engine, session.clone(), call, error);
        }
    }
}

/// Decides on and performs a command whose effect is a file operation.
pub(in crate::ops) async fn carry_out(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    refused: Refused,
    call: CallId,
    command: Command,
    claim: Option<IdempotencyClaim>,
) -> Result<Operated, OpError> {
    let session = OpenSession::open(engine, id).await?;
    keep_unnoticed_changes(engine, &session).await;
    match session.commit_claimed(command, actor, |_| claim).await {
        Err(OpError::Rejected(rejection)) => Err(record(&session, refused, rejection, actor).await),
        Ok(intent) => match guard_op(perform(engine, &session, intent)).await {
            Err(error @ (OpError::Store(_) | OpError::Blob(_) | OpError::Contended | OpError::Panicked)) => {
                Err(abandon(engine, session, call, error))
            }
            operated => operated,
        },
        Err(error) => Err(error),
    }
}

/// Records a refusal as a refused call of the tool with the same effect. Returns the refusal as an
/// error.
pub(in crate::ops) async fn refuse(
    session: &OpenSession,
    tool: ToolName,
    rejection: Rejection,
    actor: &Actor,
) -> OpError {
    record(session, Refused::Tool(tool), rejection, actor).await
}

async fn record(session: &OpenSession, refused: Refused, rejection: Rejection, actor: &Actor) -> OpError {
    let (code, message, actor) = (rejection.code().to_owned(), rejection.to_string(), actor.clone());
    let event = match refused {
        Refused::Tool(tool) => Event::ToolCallRefused { tool, code, message, actor },
        Refused::Rewind { to } => Event::RewindRefused { to, code, message, actor },
    };
    match session.record_refusal(event).await {
        Ok(()) => rejection.into(),
        Err(error) => error,
    }
}

async fn perform(engine: &Engine, session: &OpenSession, intent: Intent) -> Result<Operated, OpError> {
    let Some(Effect::OperateFiles { call, operation }) = intent.effect else { return Err(OpError::Contended) };
    let started = Instant::now();
    // These operations take a snapshot themselves or restore one, so they need no checkpoint.
    let keeps = matches!(
        operation,
        FileOperation::Snapshot { .. } | FileOperation::Restore { .. } | FileOperation::Rewind { .. }
    );
    pause("operation.perform").await;
    let operated = match (order(engine, operation).await, session.workspace()) {
        (Ok(order), Some(workspace)) => match operate(&*workspace, order, intent.at).await {
            Ok(mut done) => {
                if !keeps {
                    checkpoints::keep(session, &*workspace, &mut done).await;
                }
                Ok(done)
            }
            Err(error) => Err(error.into()),
        },
        (Ok(_), None) => Err(OpError::NotFound { what: Resource::Workspace, id: session.id().to_string() }),
        (Err(error), _) => Err(error),
    };
    let duration_ms = millis(started);
    match operated {
        Ok(done) => {
            let (placement, tree_hash) = (done.placement, done.tree_hash.clone());
            let (files, staged) = file_changes::to_effect(engine, done).await?;
            match session.record(Outcome::OperationFinished { call, duration_ms, failure: None, files }).await? {
                Some(seq) => {
                    staged.publish();
                    if keeps {
                        snapshot_hashes::begin(engine, session).await;
                    }
                    Ok(Operated { seq, tree_hash, placement })
                }
                None => Err(not_active(session).await),
            }
        }
        Err(error) => {
            let failure = Some(Failure::new(error.operate_code(), error.to_string()));
            let files = FileEffect::default();
            session.record(Outcome::OperationFinished { call, duration_ms, failure, files }).await?;
            let closed = session.state().await.session.is_none_or(|session| session.status != Status::Active);
            // If the session was closed meanwhile, report that instead of the operation's error.
            Err(if closed { not_active(session).await } else { error })
        }
    }
}

/// Builds the complete order, with bytes from the blob store.
/// Returns `None` for an operation that only takes a checkpoint.
async fn order(engine: &Engine, operation: FileOperation) -> Result<Option<FileOrder>, OpError> {
    Ok(Some(match operation {
        FileOperation::Checkpoint => return Ok(None),
        FileOperation::Put { path, blob, bytes, if_match, existing, parents } => {
            FileOrder::Put { path, content: stored(engine, blob).await?, bytes, if_match, existing, parents }
        }
        FileOperation::Unpack { path, blob } => FileOrder::Unpack { path, archive: stored(engine, blob).await? },
        FileOperation::MakeDirectory { path } => FileOrder::MakeDirectory { path },
        FileOperation::Delete { path, if_match } => FileOrder::Delete { path, if_match },
        FileOperation::Snapshot { snapshot, .. } => FileOrder::Snapshot { snapshot },
        FileOperation::Restore { snapshot } => FileOrder::Restore { snapshot },
        FileOperation::Rewind { before, snapshot, .. } => FileOrder::Rewind { before, snapshot },
    }))
}

async fn operate(workspace: &dyn Workspace, order: Option<FileOrder>, at: Timestamp) -> Result<Done, OperateError> {
    match order {
        Some(order) => workspace.operate(order, at).await,
        None => Ok(Done::nothing()),
    }
}

async fn stored(engine: &Engine, blob: String) -> Result<std::fs::File, OpError> {
    let missing = || OpError::MissingBlob { digest: blob.clone() };
    let digest = blob.parse().map_err(|_| missing())?;
    let opened = engine.store().blobs().open(&digest).await?.ok_or_else(missing)?;
    Ok(opened.file.into_std().await)
}

impl OpError {
    /// The code of a failed operation in the journal.
    fn operate_code(&self) -> &'static str {
        match self {
            Self::Operate(error) => error.code().as_str(),
            _ => "failed",
        }
    }
}
