//! The tools of the active catalog and the prompt packs for an agent outside any run.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use stead_core::content::binding::{ContentOperation, Operation};
use stead_core::content::decide::offered;
use stead_core::content::gate::confine;
use stead_core::content::message::Message;
use stead_core::content::resource::{ResourceRef, fill, is_template, variables};
use stead_core::content::run::CallFrom;
use stead_core::content::snapshot::PackRef;
use stead_core::content::{Descriptor, Refusal, Snapshot};
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
    actor: &Actor,
    id: SessionId,
    catalog: Option<String>,
) -> Result<Option<Vec<OfferedTool>>, OpError> {
    let session = session(engine, id).await?;
    let from = confine(&session, &CallFrom::Session { catalog }, actor);
    // The list always shows what the session's agent may call, for every caller.
    let agent = Actor::Session { session: id };
    let Some(found) = offered(&session, &from, &agent)? else { return Ok(None) };
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

/// Returns a prompt pack and its messages, with image data.
#[boxed]
pub async fn prompt_pack(engine: &Engine, id: SessionId, name: &str) -> Result<(PackRef, Vec<Message>), OpError> {
    let mut packs = prompt_packs(engine, id).await?;
    match packs.remove(name) {
        Some(pack) => {
            let messages = request::messages(engine, &pack.digest).await?;
            Ok((pack, messages))
        }
        None => {
            let available = packs.keys().cloned().collect::<Vec<_>>().join(", ");
            let name = name.chars().take(128).collect();
            Err(Rejection::from(Refusal::UnknownPromptPack { name, available }).into())
        }
    }
}

/// The resources of the active snapshot by address. Empty if the session may not read its content.
#[boxed]
pub async fn content_resources(engine: &Engine, id: SessionId) -> Result<BTreeMap<String, ResourceRef>, OpError> {
    let session = session(engine, id).await?;
    let authority = &session.spec.authority;
    let readable = |snapshot: &&Arc<Snapshot>| authority.allows(&snapshot.workspace, ContentOperation::Read);
    Ok(session.content.active.as_ref().filter(readable).map(|snapshot| snapshot.resources.clone()).unwrap_or_default())
}

/// A resource of the content, with the values of its template.
#[derive(Debug, Clone)]
pub struct ContentResource {
    pub resource: ResourceRef,
    pub bytes: Bytes,
}

/// Returns the resource at an address. The text of a template has the values from the address.
#[boxed]
pub async fn content_resource(engine: &Engine, id: SessionId, uri: &str) -> Result<Option<ContentResource>, OpError> {
    let mut resources = content_resources(engine, id).await?;
    if let Some(resource) = resources.remove(uri).filter(|_| !is_template(uri)) {
        let bytes = request::bytes(engine, &resource.digest).await?;
        return Ok(Some(ContentResource { resource, bytes }));
    }
    for (template, resource) in resources {
        let Some(values) = Some(template).filter(|template| is_template(template)).and_then(|it| variables(&it, uri))
        else {
            continue;
        };
        let bytes = request::bytes(engine, &resource.digest).await?;
        let bytes = Bytes::from(fill(&String::from_utf8_lossy(&bytes), &values));
        return Ok(Some(ContentResource { resource, bytes }));
    }
    Ok(None)
}
