//! Opens the bytes of a bundle from the source that the policy names.
//!
//! A bundle from a host path is copied into the blob store before it is unpacked, and the journal
//! records its hash. A later attempt unpacks the same bytes, even if the file at the path has
//! changed.

use std::fs::File;
use std::io::{Seek, Write};

use serde_json::Value;
use stead_core::event::{Failure, StepReport};
use stead_core::identity::Tenant;
use stead_core::plan::Action;
use stead_core::{ContentHash, Event, Rejection, SessionId};
use stead_fs::mount::AllowedRoots;
use stead_fs::{Content, Filesystem as _, MemoryFs, PathRules, Permission, WorkspacePath, WriteMode};

use crate::content::tree::FileMode;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::each_event;
use crate::ops;

/// Opens the bundle of an `unpack_bundle` action. `None` for other actions.
pub(crate) async fn open(engine: &Engine, session: SessionId, action: &Action) -> Result<Option<File>, Failure> {
    let Action::UnpackBundle { source, digest, allowed_host_roots } = action else { return Ok(None) };
    let text = |key: &str| source.get(key).and_then(Value::as_str).map(str::to_owned);
    let blob = match (text("blob"), text("path"), text("content")) {
        (Some(blob), _, _) => parse(&blob)?,
        (_, Some(path), _) => {
            let known = match unpacked_before(engine, session).await? {
                None => digest.clone(),
                before => before,
            };
            let known = known.as_deref().map(parse).transpose()?;
            fetch(engine, path, allowed_host_roots.clone(), known).await?
        }
        (_, _, Some(content)) => return content_tar(engine, session, &content).await.map(Some),
        _ => return Err(refused("the bundle names neither blob, path nor content")),
    };
    let opened = engine.store().blobs().open(&blob).await.map_err(|error| refused(error.to_string()))?;
    let opened = opened
        .ok_or_else(|| refused(format!("the blob {blob} is not in the store; upload it with POST /api/v1/blobs")))?;
    Ok(Some(opened.file.into_std().await))
}

/// Refuses a plan that unpacks a blob which the store does not have, or which the project did not
/// upload.
pub(crate) async fn check_stored(engine: &Engine, tenant: &Tenant, actions: &[Action]) -> Result<(), OpError> {
    for action in actions {
        let Action::UnpackBundle { source, .. } = action else { continue };
        let Some(named) = source.get("blob").and_then(Value::as_str) else { continue };
        let missing = || Rejection::BundleMissing { digest: named.to_owned() };
        let hash: ContentHash = named.parse().map_err(|_| missing())?;
        let known = ops::may_read_blob(engine, tenant, &hash).await?;
        if !known || engine.store().blobs().open(&hash).await?.is_none() {
            return Err(missing().into());
        }
    }
    Ok(())
}

/// Returns a version of content as a tar. A version never changes, so the bytes do not either.
async fn content_tar(engine: &Engine, session: SessionId, content: &str) -> Result<File, Failure> {
    let wrong = || refused(format!("{content:?} is not name@version"));
    let (name, version) = content.split_once('@').ok_or_else(wrong)?;
    let (name, version) = (name.parse().map_err(|_| wrong())?, version.parse().map_err(|_| wrong())?);
    let failed = |error: crate::error::OpError| refused(error.to_string());
    let tenant = ops::session_tenant(engine, session).await.map_err(failed)?;
    let version = ops::content_version(engine, &tenant, &name, Some(version)).await.map_err(failed)?;
    let mut tree = MemoryFs::new();
    for file in ops::content_files(engine, &version).await.map_err(failed)? {
        let bytes = engine.store().blobs().get(&file.hash).await.map_err(|error| refused(error.to_string()))?;
        let bytes = bytes.ok_or_else(|| refused(format!("the blob {} is not in the store", file.hash)))?;
        let path = WorkspacePath::parse(file.path.as_str(), &PathRules::existing());
        let path = path.map_err(|error| refused(error.to_string()))?;
        let written = tree.write_bytes(&path, bytes, WriteMode::Create, 0);
        written.map_err(|error| refused(error.to_string()))?;
        if file.mode == FileMode::Executable {
            let marked = tree.set_permission(&path, Permission::Executable, 0);
            marked.map_err(|error| refused(error.to_string()))?;
        }
    }
    let unwritable = |error: std::io::Error| refused(format!("cannot spool the bundle: {error}"));
    let mut spool = tempfile::tempfile().map_err(unwritable)?;
    stead_fs::archive::export_tar(&tree, &WorkspacePath::root(), &mut spool)
        .map_err(|error| refused(error.to_string()))?;
    spool.rewind().map_err(unwritable)?;
    Ok(spool)
}

/// The hash of the bundle that an earlier attempt unpacked.
async fn unpacked_before(engine: &Engine, session: SessionId) -> Result<Option<String>, Failure> {
    let mut digest = None;
    let read = each_event(engine, session, |recorded| {
        if let Event::InitStepFinished { report: StepReport { bundle: Some(bundle), .. }, .. } = recorded.event {
            digest = Some(bundle.digest);
        }
        Ok(())
    });
    read.await.map_err(|error| refused(error.to_string()))?;
    Ok(digest)
}

fn parse(hash: &str) -> Result<ContentHash, Failure> {
    hash.parse().map_err(|_| refused(format!("{hash:?} is not a content hash")))
}

fn refused(message: impl Into<String>) -> Failure {
    Failure::new("bundle_refused", message)
}

/// Copies a host file that is inside the allowed roots into the blob store.
async fn fetch(
    engine: &Engine,
    path: String,
    roots: Vec<String>,
    known: Option<ContentHash>,
) -> Result<ContentHash, Failure> {
    let blobs = engine.store().blobs();
    if let Some(known) = known
        && blobs.contains(&known).await.map_err(|error| refused(error.to_string()))?
    {
        return Ok(known);
    }
    // Copied to a temporary file first, because the reader blocks and the bundle may exceed the
    // memory.
    let copied = tokio::task::spawn_blocking(move || copy(&path, &roots));
    let copy = copied.await.map_err(|_| refused("the work was interrupted"))??;
    let stored = blobs.put_stream(tokio::fs::File::from_std(copy)).await;
    Ok(stored.map_err(|error| refused(error.to_string()))?.hash)
}

fn copy(path: &str, roots: &[String]) -> Result<File, Failure> {
    let failed = |error: std::io::Error| refused(format!("cannot read the bundle: {error}"));
    let roots = AllowedRoots::open(roots).map_err(|error| refused(error.to_string()))?;
    let content = roots.open_file(path).map_err(|error| refused(error.to_string()))?;
    let mut copy = tempfile::tempfile().map_err(failed)?;
    match content {
        Content::Bytes(bytes) => copy.write_all(&bytes).map_err(failed)?,
        Content::Stream { mut reader, size } => stead_fs::copy_sparse(&mut *reader, size, &mut copy).map_err(failed)?,
    }
    copy.rewind().map_err(failed)?;
    Ok(copy)
}
