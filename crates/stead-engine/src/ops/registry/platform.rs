//! Reads and sets the platform.

use stead_core::registry::Platform;
use stead_core::{Actor, Resource};
use stead_store::{DocumentKind, WriteMode};

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;
use crate::ops::registry::document::Shelf;

const SHELF: Shelf = Shelf { kind: DocumentKind::Platform, what: Resource::Platform };
/// The id of the only document of its kind.
pub(crate) const PLATFORM: &str = "platform";

/// Returns the platform as set, or the default, which allows nothing.
#[boxed]
pub async fn platform(engine: &Engine) -> Result<Platform, OpError> {
    Ok(SHELF.find(engine, PLATFORM).await?.unwrap_or_default())
}

#[boxed]
pub async fn set_platform(engine: &Engine, actor: &Actor, platform: Platform) -> Result<Platform, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    // To its end and one at a time: the roles in memory must be those in the database.
    engine
        .to_its_end(async move {
            let _changing = work.tokens().change().await;
            SHELF.put(&work, &actor, PLATFORM, &platform, WriteMode::CreateOrReplace).await?;
            work.tokens().set_roles(platform.roles.clone());
            Ok(platform)
        })
        .await
}

/// Sets the platform if it was never set, for a server that a person starts to try Stead.
#[boxed]
pub async fn begin_platform(engine: &Engine, platform: Platform) -> Result<(), OpError> {
    if SHELF.find::<Platform>(engine, PLATFORM).await?.is_some() {
        return Ok(());
    }
    match SHELF.put(engine, &Actor::System, PLATFORM, &platform, WriteMode::Create).await {
        Err(OpError::Exists { .. }) => Ok(()),
        other => other,
    }
}
