//! Reads, sets and deletes projects.
//!
//! A deletion is on record as a document of its own before anything is deleted. From then on no
//! session starts in the project. A background task closes its sessions, deletes what belongs to it
//! and then the project (`background/project_deletion.rs`). It continues after a restart.

use serde::{Deserialize, Serialize};
use stead_core::registry::Project;
use stead_core::{Actor, Name, Resource, Timestamp};
use stead_store::{DocumentKind, DocumentWrite, WriteError, WriteMode};

use crate::background::project_deletion;
use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::ops::boxed;
use crate::ops::registry::document::{Page, Shelf};

const SHELF: Shelf = Shelf { kind: DocumentKind::Project, what: Resource::Project };
const DELETIONS: Shelf = Shelf { kind: DocumentKind::ProjectDeletion, what: Resource::Project };

/// The record of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    pub requested_by: String,
    pub requested_at: Timestamp,
    /// The end of the deletion. The name of a deleted project is never used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<Timestamp>,
}

/// A deletion with the number of things that still exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletionProgress {
    pub deletion: Deletion,
    /// Live sessions.
    pub sessions: u64,
    /// Agent types, content, tokens and other documents of the project.
    pub documents: u64,
}

#[boxed]
pub async fn project(engine: &Engine, id: &Name) -> Result<Project, OpError> {
    SHELF.get(engine, id.as_str()).await
}

/// A page of projects by name, each with its deletion if there is one.
#[boxed]
pub async fn projects(engine: &Engine, page: &Page) -> Result<Vec<(String, Option<Deletion>)>, OpError> {
    let found = engine.store().documents(DocumentKind::Project, page.after.as_deref(), page.limit).await?;
    let mut projects = Vec::with_capacity(found.len());
    for document in found {
        let deletion = DELETIONS.find(engine, &document.id).await?;
        projects.push((document.id, deletion));
    }
    Ok(projects)
}

#[boxed]
pub async fn set_project(engine: &Engine, actor: &Actor, id: &Name, project: Project) -> Result<Project, OpError> {
    check_not_deleting(engine, id).await?;
    SHELF.put(engine, actor, id.as_str(), &project, WriteMode::CreateOrReplace).await?;
    Ok(project)
}

/// Fails if the project is being deleted, or was deleted.
pub(in crate::ops) async fn check_not_deleting(engine: &Engine, id: &Name) -> Result<(), OpError> {
    match DELETIONS.find::<Deletion>(engine, id.as_str()).await? {
        Some(Deletion { deleted_at: Some(_), .. }) => Err(OpError::ProjectDeleted { id: id.to_string() }),
        Some(_) => Err(OpError::ProjectDeleting { id: id.to_string() }),
        None => Ok(()),
    }
}

/// Returns the progress of a deletion, or `None` if the project is not being deleted.
#[boxed]
pub async fn project_deletion(engine: &Engine, id: &Name) -> Result<Option<DeletionProgress>, OpError> {
    let Some(deletion) = DELETIONS.find(engine, id.as_str()).await? else { return Ok(None) };
    let (sessions, documents) = project_deletion::remaining(engine, id.as_str()).await?;
    Ok(Some(DeletionProgress { deletion, sessions, documents }))
}

/// Begins the deletion of a project. Idempotent while the deletion is in progress.
#[boxed]
pub async fn delete_project(engine: &Engine, actor: &Actor, id: &Name) -> Result<DeletionProgress, OpError> {
    let (work, actor, id) = (engine.clone(), actor.clone(), id.clone());
    engine.to_its_end(async move { delete(&work, &actor, &id).await }).await
}

async fn delete(engine: &Engine, actor: &Actor, id: &Name) -> Result<DeletionProgress, OpError> {
    SHELF.get::<Project>(engine, id.as_str()).await?;
    let at = clock::now();
    let deletion = Deletion { requested_by: actor.to_string(), requested_at: at, deleted_at: None };
    let corrupt = |source| OpError::CorruptDocument { what: Resource::Project, id: id.to_string(), source };
    let write = DocumentWrite {
        kind: DocumentKind::ProjectDeletion,
        id: id.to_string(),
        body: serde_json::to_string(&deletion).map_err(corrupt)?,
        mode: WriteMode::Create,
        expected_revision: None,
        at,
        audit: vec![audit::project_deletion(actor, id.as_str(), at)],
        idempotency: None,
    };
    match engine.store().write_document(write).await {
        Ok(_) | Err(WriteError::Exists { .. }) => {}
        Err(WriteError::Store(error)) => return Err(error.into()),
        Err(_) => return Err(OpError::Contended),
    }
    // The answer counts what there is before the deletion removes the first of it.
    let progress = project_deletion(engine, id).await;
    project_deletion::begin(engine, id.to_string());
    let gone = || OpError::NotFound { what: Resource::Project, id: id.to_string() };
    progress?.ok_or_else(gone)
}
