//! The sections that tell an agent of its workspace.

use stead_core::SessionId;
use stead_digest::prompt::{self, Flavor, Prompt, ShownDigest};

use super::digest::{DigestName, digest};
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// How much of the digest a prompt shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestPart {
    Summary,
    Whole,
}

/// Renders a session's sections as they are now.
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
    let missing = || OpError::NotFound { what: "session", id: id.to_string() };
    let session = OpenSession::open(engine, id).await?.state().await.session.ok_or_else(missing)?;
    Ok(prompt::render(&session, &shown, flavor, budget))
}
