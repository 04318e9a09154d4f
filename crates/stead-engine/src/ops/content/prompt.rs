//! Renders the prompt sections about a session's workspace.

use std::sync::Arc;

use stead_core::{Resource, Session, SessionId};
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
    let mut session = OpenSession::open(engine, id).await?.state().await.session.ok_or_else(missing)?;
    leave_what_is_there(engine, Arc::make_mut(&mut session));
    Ok(prompt::render(&session, &shown, flavor, budget))
}

/// Removes tools that the session's provider does not offer, because calls of them are refused.
fn leave_what_is_there(engine: &Engine, session: &mut Session) {
    let provider = session.workspace.as_ref().and_then(|workspace| workspace.provider);
    let offered = provider.and_then(|provider| engine.providers().get(provider).ok()).map(|found| found.capabilities());
    if let (Some(offered), Some(spec)) = (offered, Arc::make_mut(&mut session.spec).workspace.as_mut()) {
        spec.tools = spec.tools.iter().filter(|tool| offered.tools.contains(tool)).collect();
    }
}
