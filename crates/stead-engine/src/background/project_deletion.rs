//! Deletes projects: closes their sessions, then deletes their documents and images, then the
//! project.
//!
//! The document of the deletion says that it is not complete until everything else is gone, so a
//! task that was killed at any point starts again and finds what is left.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stead_core::event::CloseReason;
use stead_core::identity::Token;
use stead_core::{Actor, Command, Name, Resource, Status};
use stead_store::{Document, DocumentKind, DocumentWrite, WriteError, WriteMode};

use crate::backoff::Backoff;
use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::open_session::OpenSession;
use crate::ops::{Deletion, all_images, images_of, remove_images_of, remove_setup_results_of, wait_settled};
use crate::reconcile;

const PAGE: u32 = 500;
/// Time to wait for one session to close before the next look at all of them.
const CLOSE_WAIT: Duration = Duration::from_secs(10);
/// The kinds of documents that belong to a project, in the order of their deletion.
const KINDS: [DocumentKind; 6] = [
    DocumentKind::Secret,
    DocumentKind::AgentType,
    DocumentKind::ContentVersion,
    DocumentKind::Content,
    DocumentKind::Digest,
    DocumentKind::Quota,
];

/// Continues the deletions of the last run.
pub(crate) async fn take_up(engine: &Engine) -> Result<(), OpError> {
    remove_remains(engine).await?;
    let mut after = None;
    loop {
        let page = engine.store().documents(DocumentKind::ProjectDeletion, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id.clone());
        let unfinished = page.into_iter().filter(|document| !is_finished(&document.body));
        unfinished.for_each(|document| begin(engine, document.id));
    }
}

/// Removes images of projects that are deleted. A server that is killed while it imports one may
/// name it after the deletion has ended, and not take the name back.
async fn remove_remains(engine: &Engine) -> Result<(), OpError> {
    let images = all_images(engine).await?.unwrap_or_default();
    let projects: BTreeSet<Name> = images.into_iter().filter_map(|image| image.project).collect();
    for project in projects {
        let found = engine.store().document(DocumentKind::ProjectDeletion, project.as_str()).await?;
        if found.is_some_and(|document| is_finished(&document.body)) {
            remove_images_of(engine, &project).await?;
        }
    }
    Ok(())
}

fn is_finished(body: &str) -> bool {
    serde_json::from_str(body).is_ok_and(|deletion: Deletion| deletion.deleted_at.is_some())
}

/// Deletes a project in the background, unless that is in progress. Retries failures with growing
/// delays.
pub(crate) fn begin(engine: &Engine, project: String) {
    if !engine.project_deletions().enter(&project) {
        return;
    }
    let work = engine.clone();
    engine.spawn(async move {
        let mut backoff = Backoff::new();
        while let Err(error) = delete(&work, &project).await {
            tracing::warn!(project, error = &error as &dyn std::error::Error, "cannot delete the project yet");
            if backoff.wait(&work).await.is_err() {
                break;
            }
        }
        work.project_deletions().leave(&project);
    });
}

async fn delete(engine: &Engine, project: &str) -> Result<(), OpError> {
    // Tokens first, so that no member starts anything new.
    delete_tokens(engine, project).await?;
    close_sessions(engine, project).await?;
    for kind in KINDS {
        for document in documents(engine, kind, project).await? {
            let entry = audit::admin_change(&Actor::System, kind.as_str(), &document.id, "null", clock::now());
            engine.store().delete_document(kind, &document.id, vec![entry]).await?;
        }
    }
    remove_images(engine, project).await?;
    engine.store().forget_storage_of(project).await?;
    engine.quota_cache().forget(project).await;
    engine.pool().look();
    let entry = audit::admin_change(&Actor::System, "project", project, "null", clock::now());
    engine.store().delete_document(DocumentKind::Project, project, vec![entry]).await?;
    // A request that read the project before its deletion may have started a session since.
    close_sessions(engine, project).await?;
    record_end(engine, project).await?;
    tracing::info!(project, "the project is deleted");
    Ok(())
}

async fn remove_images(engine: &Engine, project: &str) -> Result<(), OpError> {
    match project.parse() {
        Ok(project) => {
            remove_setup_results_of(engine, &project).await?;
            remove_images_of(engine, &project).await
        }
        // No image belongs to a project whose name is not valid.
        Err(_) => Ok(()),
    }
}

/// Deletes the tokens of a project. A token is created and rotated under the same lock, and not in
/// a project that is being deleted, so none is left or comes back.
async fn delete_tokens(engine: &Engine, project: &str) -> Result<(), OpError> {
    let _changing = engine.tokens().change().await;
    for document in documents(engine, DocumentKind::Token, project).await? {
        let entry = audit::token_deletion(project, &document.id, clock::now());
        engine.store().delete_document(DocumentKind::Token, &document.id, vec![entry]).await?;
        if let Ok(id) = document.id.parse() {
            engine.tokens().remove(id);
        }
    }
    Ok(())
}

/// The projects whose deletion is in progress.
#[derive(Default)]
pub(crate) struct Deletions(Mutex<HashSet<String>>);

impl Deletions {
    /// Returns false if the deletion is in progress already.
    fn enter(&self, project: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(project.to_owned())
    }

    fn leave(&self, project: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(project);
    }
}

async fn close_sessions(engine: &Engine, project: &str) -> Result<(), OpError> {
    loop {
        let rows = engine.store().live_sessions_of(project).await?;
        let Some(first) = rows.first().map(|row| row.id) else { return Ok(()) };
        for row in rows {
            let session = OpenSession::open(engine, row.id).await?;
            session.commit(Command::Close { reason: CloseReason::Requested }, &Actor::System).await?;
            reconcile::begin(engine, row.id);
        }
        let closing = wait_settled(engine, first, CLOSE_WAIT);
        let state = tokio::select! {
            state = closing => state?,
            () = engine.stopping().cancelled() => return Err(OpError::ShuttingDown),
        };
        // A workspace that cannot be removed now keeps its session live. Look again later.
        if state.session.is_some_and(|session| session.status != Status::Closed && session.live()) {
            return Err(OpError::Contended);
        }
    }
}

/// Returns the documents of a project: their ids are `project/name`, and a token names its project.
async fn documents(engine: &Engine, kind: DocumentKind, project: &str) -> Result<Vec<Document>, OpError> {
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = engine.store().documents(kind, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.id.clone());
        found.extend(page.into_iter().filter(|document| belongs(document, project)));
    }
}

fn belongs(document: &Document, project: &str) -> bool {
    match document.kind {
        DocumentKind::Token => {
            let token: Option<Token> = serde_json::from_str(&document.body).ok();
            token.and_then(|token| token.project).is_some_and(|own| own.as_str() == project)
        }
        DocumentKind::Digest => document.id.starts_with(&format!("project:{project} ")),
        DocumentKind::Quota => document.id.strip_prefix("project/") == Some(project),
        _ => document.id.strip_prefix(project).is_some_and(|rest| rest.starts_with('/')),
    }
}

/// Records that the project is deleted. The document stays: sessions of the project are on record
/// under its name, so no other project may take it.
async fn record_end(engine: &Engine, project: &str) -> Result<(), OpError> {
    let found = engine.store().document(DocumentKind::ProjectDeletion, project).await?;
    let Some(document) = found else { return Ok(()) };
    let corrupt = |source| OpError::CorruptDocument { what: Resource::Project, id: project.to_owned(), source };
    let deletion: Deletion = serde_json::from_str(&document.body).map_err(corrupt)?;
    let at = clock::now();
    let write = DocumentWrite {
        kind: DocumentKind::ProjectDeletion,
        id: project.to_owned(),
        body: serde_json::to_string(&Deletion { deleted_at: Some(at), ..deletion }).map_err(corrupt)?,
        mode: WriteMode::Replace,
        expected_revision: Some(document.revision),
        at,
        audit: vec![audit::project_deleted(project, at)],
        idempotency: None,
    };
    match engine.store().write_document(write).await {
        Ok(_) => Ok(()),
        Err(WriteError::Store(error)) => Err(error.into()),
        Err(_) => Err(OpError::Contended),
    }
}

/// Returns the number of live sessions, and of documents and images, that a project still has.
pub(crate) async fn remaining(engine: &Engine, project: &str) -> Result<(u64, u64), OpError> {
    let sessions = engine.store().live_sessions_of(project).await?.len() as u64;
    let mut count = documents(engine, DocumentKind::Token, project).await?.len() as u64;
    for kind in KINDS {
        count += documents(engine, kind, project).await?.len() as u64;
    }
    if let Ok(project) = project.parse() {
        count += images_of(engine, &project).await?.len() as u64;
    }
    Ok((sessions, count))
}
