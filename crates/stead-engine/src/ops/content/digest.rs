//! The digest of a session: its own, else the global one, else a placeholder.

use std::sync::Arc;

use stead_core::decide::{NewDigest, may_set_digest};
use stead_core::digest::{DEFAULT_TAG, DigestOrigin, DigestScope, DigestText, KeptDigest, default_key, namespace};
use stead_core::session::warning::WarningCode;
use stead_core::tool::ToolName;
use stead_core::{Actor, Command, Event, Name, Rejection, Resource, Session, SessionId, Timestamp};
use stead_providers::OperateError;
use stead_store::{DocumentKind, WriteMode};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::files::read_files::{allowed, read_error};
use crate::ops::registry::document::Shelf;

const SHELF: Shelf = Shelf { kind: DocumentKind::Digest, what: Resource::Digest };

/// The summary if there is no digest.
const PLACEHOLDER: &str = "No digest of this workspace is available yet. Explore the files, or have one generated.";

/// The key and tag of a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestName {
    pub section_key: Name,
    /// The tag of a global digest. A session's own digests have none.
    pub tag: Name,
}

impl DigestName {
    /// The default key and tag.
    pub fn usual() -> Self {
        let section_key = default_key();
        // The constant is a valid name. If it were not, the key's name would serve.
        let tag = DEFAULT_TAG.parse().unwrap_or_else(|_| section_key.clone());
        Self { section_key, tag }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestSource {
    Session,
    Global,
    Placeholder,
}

impl DigestSource {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Global => "global",
            Self::Placeholder => "placeholder",
        }
    }

    /// The audience of the digest, for a message.
    pub const fn audience(self) -> &'static str {
        match self {
            Self::Session => "this session",
            Self::Global => "every session like this one",
            Self::Placeholder => "nobody",
        }
    }
}

/// A digest in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDigest {
    pub section_key: Name,
    pub summary: String,
    pub body: String,
    pub source: DigestSource,
    pub origin: Option<DigestOrigin>,
    pub tree: Option<String>,
    pub set_at: Option<Timestamp>,
}

/// Returns the session's own digest, else the global one, else the placeholder. The placeholder
/// records a warning in the journal.
#[boxed]
pub async fn digest(engine: &Engine, id: SessionId, name: DigestName) -> Result<FoundDigest, OpError> {
    let open = OpenSession::open(engine, id).await?;
    let session = born(&open).await?;
    if let Some(kept) = session.digests.get(&name.section_key) {
        return found(engine, name.section_key, kept.clone(), DigestSource::Session).await;
    }
    if let Some(kept) = SHELF.find::<KeptDigest>(engine, &document(&session, &name)).await? {
        return found(engine, name.section_key, kept, DigestSource::Global).await;
    }
    let work = (open, name.section_key.clone());
    engine
        .to_its_end(async move {
            let (open, section_key) = work;
            open.commit(Command::MissDigest { section_key }, &Actor::System).await.map(|_| ())
        })
        .await?;
    let DigestName { section_key, .. } = name;
    let (summary, body, source) = (PLACEHOLDER.to_owned(), String::new(), DigestSource::Placeholder);
    Ok(FoundDigest { section_key, summary, body, source, origin: None, tree: None, set_at: None })
}

/// Sets a digest for the session, or globally.
#[boxed]
pub async fn set_digest(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    name: DigestName,
    text: DigestText,
) -> Result<FoundDigest, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine
        .to_its_end(async move {
            let open = permitted(&work, &actor, id, &name, text.scope).await?;
            let DigestText { summary, body, scope } = text;
            keep(&work, &actor, &open, name, scope, Text { summary, body, origin: DigestOrigin::Given, tree: None })
                .await
        })
        .await
}

/// Generates a digest from the current files and sets it. The actor must be allowed to read them.
#[boxed]
pub async fn generate_digest(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    name: DigestName,
    scope: DigestScope,
) -> Result<FoundDigest, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine
        .in_lane(id, async move {
            let open = permitted(&work, &actor, id, &name, scope).await?;
            let workspace = allowed(&work, &actor, id, &[ToolName::Read]).await?;
            let made = work.digests().of(id, workspace, notices(&*born(&open).await?)).await;
            let made = match made {
                Err(OpError::Operate(OperateError::Fs(error))) => return Err(read_error(&work, id, error).await),
                made => made?,
            };
            let (summary, body) = (made.digest.summary.clone(), made.digest.body.clone());
            let text = Text { summary, body, origin: DigestOrigin::Generated, tree: Some(made.tree.clone()) };
            keep(&work, &actor, &open, name, scope, text).await
        })
        .await
}

/// Facts about the workspace that its files do not show.
fn notices(session: &Session) -> Vec<String> {
    let failed = session.warnings.iter().filter(|warning| warning.is(WarningCode::SetupFailed));
    failed.map(|warning| format!("The workspace's setup failed: {}", warning.message)).collect()
}

async fn born(open: &OpenSession) -> Result<Arc<Session>, OpError> {
    let missing = || OpError::NotFound { what: Resource::Session, id: open.id().to_string() };
    open.state().await.session.ok_or_else(missing)
}

/// Opens the session if the actor may set this digest. A refusal is recorded.
async fn permitted(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    name: &DigestName,
    scope: DigestScope,
) -> Result<OpenSession, OpError> {
    let open = OpenSession::open(engine, id).await?;
    match may_set_digest(&*born(&open).await?, scope, actor) {
        Ok(()) => Ok(open),
        Err(rejection) => Err(refuse(&open, &name.section_key, rejection, actor).await),
    }
}

async fn refuse(open: &OpenSession, section_key: &Name, rejection: Rejection, actor: &Actor) -> OpError {
    let (code, message) = (rejection.code().to_owned(), rejection.to_string());
    let refused = Event::DigestRefused { section_key: section_key.clone(), code, message, actor: actor.clone() };
    match open.record_refusal(refused).await {
        Ok(()) => rejection.into(),
        Err(error) => error,
    }
}

struct Text {
    summary: String,
    body: String,
    origin: DigestOrigin,
    tree: Option<String>,
}

/// Stores a digest. The body is durable before anything refers to it.
async fn keep(
    engine: &Engine,
    actor: &Actor,
    open: &OpenSession,
    name: DigestName,
    scope: DigestScope,
    text: Text,
) -> Result<FoundDigest, OpError> {
    let Text { summary, body: content, origin, tree } = text;
    let body = engine.store().blobs().put(content.clone()).await?.to_string();
    let section_key = name.section_key.clone();
    let (source, set_at) = match scope {
        DigestScope::Session => {
            let (summary, tree) = (summary.clone(), tree.clone());
            let set = NewDigest { section_key: section_key.clone(), summary, body, origin, tree };
            let intent = match open.commit(Command::SetDigest(set), actor).await {
                Err(OpError::Rejected(rejection)) => return Err(refuse(open, &section_key, rejection, actor).await),
                committed => committed?,
            };
            (DigestSource::Session, intent.at)
        }
        DigestScope::Global => {
            let set_at = clock::now();
            let kept = KeptDigest { summary: summary.clone(), body, origin, tree: tree.clone(), set_at };
            let id = document(&*born(open).await?, &name);
            SHELF.put(engine, actor, &id, &kept, WriteMode::CreateOrReplace).await?;
            // The session's own digest would hide the global one that was just set.
            open.commit(Command::ClearDigest { section_key: section_key.clone() }, actor).await?;
            (DigestSource::Global, set_at)
        }
    };
    Ok(FoundDigest { section_key, summary, body: content, source, origin: Some(origin), tree, set_at: Some(set_at) })
}

/// The id of the document. Neither key nor tag contains a space, so ids are unique.
fn document(session: &Session, name: &DigestName) -> String {
    format!("{} {} {}", namespace(session), name.section_key, name.tag)
}

async fn found(
    engine: &Engine,
    section_key: Name,
    kept: KeptDigest,
    source: DigestSource,
) -> Result<FoundDigest, OpError> {
    let missing = || OpError::MissingBlob { digest: kept.body.clone() };
    let blob = kept.body.parse().map_err(|_| missing())?;
    let bytes = engine.store().blobs().get(&blob).await?.ok_or_else(missing)?;
    let body = String::from_utf8_lossy(&bytes).into_owned();
    let KeptDigest { summary, origin, tree, set_at, .. } = kept;
    Ok(FoundDigest { section_key, summary, body, source, origin: Some(origin), tree, set_at: Some(set_at) })
}
