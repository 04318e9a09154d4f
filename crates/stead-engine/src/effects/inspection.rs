//! The authority whose certificates a box accepts for its inspected hosts.
//!
//! Each workspace has a private key of its own. It is sealed in the database under the key of the
//! secrets, so a restarted server continues with it and running boxes notice nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stead_core::WorkspaceId;
use stead_core::event::Failure;
use stead_core::network::{TrustFiles, inspected_names};
use stead_core::session::Session;
use stead_core::spec::WorkspaceSpec;
use stead_egress::Authority;
use stead_store::{Document, DocumentKind, DocumentWrite, SecretKeyError, SecretKeys, WriteError, WriteMode};
use zeroize::Zeroizing;

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;

const PAGE: u32 = 100;

/// The stored form of a key.
#[derive(Serialize, Deserialize)]
struct SealedKey {
    sealed: String,
}

/// Returns the workspace that belongs to the session and has inspected hosts.
pub(crate) fn inspected(session: &Session) -> Option<&WorkspaceSpec> {
    let spec = session.workspace_spec().filter(|spec| spec.shared_with.is_none())?;
    let network = spec.network.as_ref()?;
    (!inspected_names(network, &[]).is_empty()).then_some(spec)
}

/// Returns the authority of the session's workspace; `None` if no host is inspected. The first call
/// for a workspace draws its key.
pub(crate) async fn authority(engine: &Engine, session: &Session) -> Result<Option<Authority>, OpError> {
    let Some(spec) = inspected(session) else { return Ok(None) };
    let names = spec.network.as_ref().map(|network| inspected_names(network, &[])).unwrap_or_default();
    let key = key_of(engine, spec.id).await?;
    Ok(Some(Authority::new(&key, names)?))
}

/// Returns what the box of the session's workspace needs to accept the authority's certificates.
pub(crate) async fn trust(engine: &Engine, session: &Session) -> Result<Option<Arc<TrustFiles>>, OpError> {
    let Some(authority) = authority(engine, session).await? else { return Ok(None) };
    Ok(Some(Arc::new(engine.egress().trust_files(&authority).await?)))
}

/// The failure of a box whose connections cannot be inspected. The reason may name a file of the
/// server, so only the log has it.
pub(crate) fn unavailable() -> Failure {
    Failure::new(
        "inspection_unavailable",
        "the network policy inspects requests, and the server cannot make or read the key for it; the log of the server \
         names the reason"
            .to_owned(),
    )
}

/// Removes the key of a workspace that is gone.
pub(crate) async fn forget(engine: &Engine, workspace: WorkspaceId) -> Result<(), OpError> {
    engine.store().delete_document(DocumentKind::InspectionKey, &workspace.to_string(), Vec::new()).await?;
    Ok(())
}

async fn key_of(engine: &Engine, workspace: WorkspaceId) -> Result<Zeroizing<Vec<u8>>, OpError> {
    let id = workspace.to_string();
    // Held until the key is stored, so that two callers get the same one.
    let mut held = engine.secrets().change().await;
    let keys = engine.secrets().keys_for_writing(engine, &mut held).await?;
    if let Some(stored) = engine.store().document(DocumentKind::InspectionKey, &id).await? {
        match open(&keys, &stored) {
            Ok(key) => return Ok(key),
            Err(error) => tracing::warn!(
                %workspace, error = &error as &dyn std::error::Error,
                "the inspection key of a workspace is lost and replaced: inspected connections fail until its box starts again"
            ),
        }
    }
    let key = Authority::draw_key()?;
    write(engine, &keys, id, &key).await?;
    Ok(key)
}

/// The purpose that a key is sealed for. It names the workspace, so a row cannot be moved.
fn label(id: &str) -> String {
    format!("stead 2026-11 inspection key of {id}")
}

fn open(keys: &SecretKeys, stored: &Document) -> Result<Zeroizing<Vec<u8>>, SecretKeyError> {
    let sealed: Option<SealedKey> = serde_json::from_str(&stored.body).ok();
    let opened = sealed.and_then(|key| keys.open_bytes(&label(&stored.id), &key.sealed));
    opened.map(Zeroizing::new).ok_or_else(|| SecretKeyError::DoesNotOpen { name: stored.id.clone() })
}

async fn write(engine: &Engine, keys: &SecretKeys, id: String, key: &[u8]) -> Result<(), OpError> {
    let sealed = SealedKey { sealed: keys.seal_bytes(&label(&id), key)? };
    let write = DocumentWrite {
        kind: DocumentKind::InspectionKey,
        body: serde_json::json!(sealed).to_string(),
        id,
        mode: WriteMode::CreateOrReplace,
        expected_revision: None,
        at: clock::now(),
        audit: Vec::new(),
        idempotency: None,
    };
    match engine.store().write_document(write).await {
        Ok(_) => Ok(()),
        Err(WriteError::Store(error)) => Err(error.into()),
        Err(_) => Err(OpError::Contended),
    }
}

/// Seals every key under the newest key of the secrets.
pub(crate) async fn reseal(engine: &Engine, keys: &SecretKeys) -> Result<(), OpError> {
    let mut after = None::<String>;
    loop {
        let page = engine.store().documents(DocumentKind::InspectionKey, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id.clone());
        for document in page {
            match open(keys, &document) {
                Ok(key) => write(engine, keys, document.id, &key).await?,
                // It was lost before. Its workspace gets a new one.
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "an inspection key is skipped"),
            }
        }
    }
}
