//! Reads and sets projects.

use stead_core::registry::Project;
use stead_core::{Actor, Name, Resource};
use stead_store::{DocumentKind, WriteMode};

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;
use crate::ops::registry::document::Shelf;

const SHELF: Shelf = Shelf { kind: DocumentKind::Project, what: Resource::Project };

#[boxed]
pub async fn project(engine: &Engine, id: &Name) -> Result<Project, OpError> {
    SHELF.get(engine, id.as_str()).await
}

#[boxed]
pub async fn set_project(engine: &Engine, actor: &Actor, id: &Name, project: Project) -> Result<Project, OpError> {
    SHELF.put(engine, actor, id.as_str(), &project, WriteMode::CreateOrReplace).await?;
    Ok(project)
}
