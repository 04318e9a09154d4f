//! Finds the blobs that records refer to.
//!
//! Only typed fields count: an agent may write something into an argument that looks like a
//! reference.

use serde_json::Value;
use stead_core::ContentHash;
use stead_core::Event;
use stead_core::content::event::MessagesRef;
use stead_core::digest::KeptDigest;
use stead_store::DocumentKind;

/// The blobs that an event refers to. A payload that is not an event refers to none; the hash chain
/// covers it.
pub(super) fn of_event(payload: &str) -> Vec<ContentHash> {
    let Ok(event) = serde_json::from_str(payload) else { return Vec::new() };
    let message = |messages: &Option<MessagesRef>| messages.iter().map(|one| one.digest.clone()).collect();
    let named: Vec<String> = match &event {
        Event::InitStepFinished { files, .. }
        | Event::ToolCallFinished { files, .. }
        | Event::FileOperationFinished { files, .. } => files.blobs().map(str::to_owned).collect(),
        Event::DigestSet { body, .. } => vec![body.clone()],
        Event::RunStarted(started) => message(&started.input),
        Event::StepStarted(started) => message(&started.messages),
        _ => Vec::new(),
    };
    named.iter().filter_map(|digest| digest.parse().ok()).collect()
}

/// A reference from a document to its content.
pub(super) enum Referred {
    /// A single blob.
    Blob(ContentHash),
    /// The root of a tree of blobs.
    Tree(ContentHash),
}

/// The documents that refer to blobs.
pub(super) const KINDS: [DocumentKind; 3] = [DocumentKind::Content, DocumentKind::ContentVersion, DocumentKind::Digest];

pub(super) fn of_document(kind: DocumentKind, body: &str) -> Option<Referred> {
    match kind {
        DocumentKind::Digest => {
            let kept: KeptDigest = serde_json::from_str(body).ok()?;
            kept.body.parse().ok().map(Referred::Blob)
        }
        DocumentKind::Content | DocumentKind::ContentVersion => {
            let record: Value = serde_json::from_str(body).ok()?;
            record["root_hash"].as_str()?.parse().ok().map(Referred::Tree)
        }
        _ => None,
    }
}

/// The entries of a directory in a tree: a blob for a file, a tree for a subdirectory.
pub(super) fn of_directory(bytes: &[u8]) -> Vec<Referred> {
    let directory: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let entries = directory["entries"].as_object();
    let referred = |entry: &Value| {
        let digest = entry["hash"].as_str()?.parse().ok()?;
        Some(if entry["kind"] == "directory" { Referred::Tree(digest) } else { Referred::Blob(digest) })
    };
    entries.into_iter().flat_map(|entries| entries.values()).filter_map(referred).collect()
}
