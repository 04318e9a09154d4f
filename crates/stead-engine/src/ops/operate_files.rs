//! Change files as bytes, keep them all, put them back.

use std::time::Instant;

use stead_core::event::{Failure, FileEffect, FileOperation};
use stead_core::{Actor, CallId, Command, Effect, Outcome, SessionId};
use stead_providers::{FileOrder, OperateError};

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::{Intent, OpenSession};
use crate::reconcile::millis;
use crate::{clock, files};

/// Carries out one operation. Returns where in the journal its outcome stands.
pub async fn operate_files(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    operation: FileOperation,
) -> Result<u64, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let call = CallId::from_bits(clock::id_bits());
    let intent = session.commit(Command::OperateFiles { call, operation }, actor).await?;
    let engine = engine.clone();
    let work = engine.clone();
    // To its record even if the caller goes away.
    let done = engine.spawn(async move { perform(&work, &session, intent).await });
    done.await.map_err(|_| OpError::ShuttingDown)?
}

async fn perform(engine: &Engine, session: &OpenSession, intent: Intent) -> Result<u64, OpError> {
    let Some(Effect::OperateFiles { call, operation }) = intent.effect else { return Err(OpError::Contended) };
    let started = Instant::now();
    let operated = match (order(engine, operation).await, session.workspace()) {
        (Ok(order), Some(workspace)) => workspace.operate(order, intent.at).await.map_err(OpError::from),
        (Ok(_), None) => Err(OpError::NotFound { what: "workspace", id: session.id().to_string() }),
        (Err(error), _) => Err(error),
    };
    let duration_ms = millis(started);
    match operated {
        Ok(done) => {
            let (files, staged) = files::to_effect(engine, done).await?;
            let seq = session.record(Outcome::OperationFinished { call, duration_ms, failure: None, files }).await?;
            staged.publish();
            Ok(seq)
        }
        Err(error) => {
            let failure = Some(Failure::new(error.operate_code(), error.to_string()));
            let files = FileEffect::default();
            session.record(Outcome::OperationFinished { call, duration_ms, failure, files }).await?;
            Err(error)
        }
    }
}

/// The complete order: the bytes of a put come from the blob store.
async fn order(engine: &Engine, operation: FileOperation) -> Result<FileOrder, OpError> {
    Ok(match operation {
        FileOperation::Put { path, blob, bytes, if_match, parents } => {
            let missing = || OpError::MissingBlob { digest: blob.clone() };
            let digest = blob.parse().map_err(|_| missing())?;
            let opened = engine.store().blobs().open(&digest).await?.ok_or_else(missing)?;
            FileOrder::Put { path, content: opened.file.into_std().await, bytes, if_match, parents }
        }
        FileOperation::MakeDirectory { path } => FileOrder::MakeDirectory { path },
        FileOperation::Delete { path, if_match } => FileOrder::Delete { path, if_match },
        FileOperation::Snapshot { snapshot, .. } => FileOrder::Snapshot { snapshot },
        FileOperation::Restore { snapshot } => FileOrder::Restore { snapshot },
    })
}

impl OpError {
    /// The code of a failed operation, as the journal keeps it.
    fn operate_code(&self) -> &'static str {
        match self {
            Self::Operate(error) => OperateError::code(error),
            _ => "failed",
        }
    }
}
