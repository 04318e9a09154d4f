//! The tools of the active catalog and the prompt packs for an agent outside any run.

use std::collections::BTreeMap;
use std::sync::Arc;

use stead_core::content::binding::Operation;
use stead_core::content::decide::offered;
use stead_core::content::message::Message;
use stead_core::content::run::CallFrom;
use stead_core::content::snapshot::PackRef;
use stead_core::content::{Descriptor, Refusal};
use stead_core::{Actor, Rejection, Resource, Session, SessionId};

use crate::content::request;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;

/// A tool that is visible, bound and allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedTool {
    pub descriptor: Descriptor,
    pub operation: Operation,
}

async fn session(engine: &Engine, id: SessionId) -> Result<Arc<Session>, OpError> {
    let missing = || OpError::NotFound { what: Resource::Session, id: id.to_string() };
    OpenSession::open(engine, id).await?.state().await.session.ok_or_else(missing)
}

/// Returns the tools of a catalog in its order. `None` if the caller names no catalog and none is
/// active.
#[boxed]
pub async fn offered_tools(
    engine: &Engine,
    id: SessionId,
    catalog: Option<String>,
) -> Result<Option<Vec<OfferedTool>>, OpError> {
    let session = session(engine, id).await?;
    // The list always shows what the session's agent may call, for every caller.
    let agent = Actor::Session { session: id };
    let Some(found) = offered(&session, &CallFrom::Session { catalog }, &agent)? else { return Ok(None) };
    let Some((first, _)) = found.first() else { return Ok(Some(Vec::new())) };
    let descriptors = request::descriptors(engine, &first.catalog, &first.catalog_ref).await?;
    let mut operations: BTreeMap<String, Operation> =
        found.into_iter().map(|(visible, operation)| (visible.name, operation)).collect();
    let tool = |descriptor: Descriptor| {
        let operation = operations.remove(&descriptor.name)?;
        Some(OfferedTool { descriptor, operation })
    };
    Ok(Some(descriptors.into_iter().filter_map(tool).collect()))
}

/// The active snapshot's prompt packs by name.
#[boxed]
pub async fn prompt_packs(engine: &Engine, id: SessionId) -> Result<BTreeMap<String, PackRef>, OpError> {
    let session = session(engine, id).await?;
    Ok(session.content.active.as_ref().map(|snapshot| snapshot.prompt_packs.clone()).unwrap_or_default())
}

/// Returns the messages of a prompt pack, with image data.
#[boxed]
pub async fn prompt_pack(engine: &Engine, id: SessionId, name: &str) -> Result<Vec<Message>, OpError> {
    let packs = prompt_packs(engine, id).await?;
    match packs.get(name) {
        Some(pack) => request::messages(engine, &pack.digest).await,
        None => {
            let available = packs.keys().cloned().collect::<Vec<_>>().join(", ");
            let name = name.chars().take(128).collect();
            Err(Rejection::from(Refusal::UnknownPromptPack { name, available }).into())
        }
    }
}
