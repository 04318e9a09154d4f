//! The blobs that records refer to.
//!
//! Only typed fields count: what an agent wrote into an argument may look like a reference and is none.

use serde_json::Value;
use stead_core::Event;
use stead_core::content::event::MessagesRef;
use stead_core::digest::KeptDigest;
use stead_store::{Digest, DocumentKind};

/// The blobs an event names. A payload that cannot be read as an event names none: the chain judges it.
pub(super) fn of_event(payload: &str) -> Vec<Digest> {
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

/// The blobs that hold a document's bytes.
pub(super) enum Referred {
    /// One blob.
    Blob(Digest),
    /// The root of a tree of blobs.
    Tree(Digest),
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

/// The entries of a directory of a tree: each one's blob, and whether it is a directory itself.
pub(super) fn of_directory(bytes: &[u8]) -> Vec<Referred> {
    let directory: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let entries = directory["entries"].as_object();
    let referred = |entry: &Value| {
        let digest = entry["hash"].as_str()?.parse().ok()?;
        Some(if entry["kind"] == "directory" { Referred::Tree(digest) } else { Referred::Blob(digest) })
    };
    entries.into_iter().flat_map(|entries| entries.values()).filter_map(referred).collect()
}
