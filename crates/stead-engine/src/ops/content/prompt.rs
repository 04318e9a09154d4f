//! Renders the prompt sections about a session's workspace.

use stead_core::{Resource, SessionId};
use stead_digest::prompt::{self, Flavor, Prompt, ShownDigest};

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::content::digest::{DigestName, digest};

/// The part of the digest that a prompt shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestPart {
    Summary,
    Whole,
}

/// Renders the sections from the session's current state.
#[boxed]
pub async fn prompt(
    engine: &Engine,
    id: SessionId,
    flavor: Flavor,
    part: DigestPart,
    budget: usize,
    name: DigestName,
) -> Result<Prompt, OpError> {
    let found = digest(engine, id, name).await?;
    let shown = ShownDigest {
        section_key: found.section_key.to_string(),
        summary: found.summary,
        body: (part == DigestPart::Whole && !found.body.is_empty()).then_some(found.body),
        source: found.source.as_str(),
    };
    let missing = || OpError::NotFound { what: Resource::Session, id: id.to_string() };
    let session = OpenSession::open(engine, id).await?.state().await.session.ok_or_else(missing)?;
    Ok(prompt::render(&session, &shown, flavor, budget))
}
