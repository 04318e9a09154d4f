//! Reads and sets the platform.

use stead_core::registry::Platform;
use stead_core::{Actor, Resource};
use stead_store::{DocumentKind, WriteMode};

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;
use crate::ops::registry::document::Shelf;

const SHELF: Shelf = Shelf { kind: DocumentKind::Platform, what: Resource::Platform };
const ID: &str = "platform";

/// Returns the platform as set, or the default, which allows nothing.
#[boxed]
pub async fn platform(engine: &Engine) -> Result<Platform, OpError> {
    Ok(SHELF.find(engine, ID).await?.unwrap_or_default())
}

#[boxed]
pub async fn set_platform(engine: &Engine, actor: &Actor, platform: Platform) -> Result<Platform, OpError> {
    SHELF.put(engine, actor, ID, &platform, WriteMode::CreateOrReplace).await?;
    Ok(platform)
}
