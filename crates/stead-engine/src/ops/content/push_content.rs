//! Pushes a version of content. All of it is valid and stored, or nothing changes.

use std::io::{Read as _, Seek as _};
use std::ops::ControlFlow;

use bytes::Bytes;
use stead_core::content::{ContentPath, Fault};
use stead_core::identity::Tenant;
use stead_core::{Actor, Name, Resource};
use stead_fs::archive::{self, ArchiveError, ArchiveFormat, ArchiveLimits};
use stead_fs::{Filesystem, Kind, MemoryFs, Permission, Walk, WorkspacePath};
use stead_providers::OperateError;
use stead_store::{ContentPush, Hash, IdempotencyClaim, IdempotencyKey, PushError};

use crate::clock;
use crate::content::load::judge;
use crate::content::tree::{self, FileMode, MAX_BYTES, MAX_FILES, NewFile};
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::ops::Idempotency;
use crate::ops::boxed;
use crate::ops::content::versions::{ContentVersion, VersionRecord, content_version};
use crate::ops::registry::agent_type::writable;

/// The treatment of invalid content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faulty {
    Refuse,
    /// It is stored with its faults, and a sync of it fails.
    Keep,
}

/// A version of content to store.
pub struct NewVersion {
    pub tenant: Tenant,
    pub name: Name,
    pub files: Vec<NewFile>,
    /// Refuse unless this is the newest version.
    pub expected_head: Option<u64>,
    pub faulty: Faulty,
}

#[boxed]
pub async fn push_content(
    engine: &Engine,
    actor: &Actor,
    version: NewVersion,
    idempotency: Option<Idempotency>,
) -> Result<ContentVersion, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { push(&work, &actor, version, idempotency).await }).await
}

async fn push(
    engine: &Engine,
    actor: &Actor,
    version: NewVersion,
    idempotency: Option<Idempotency>,
) -> Result<ContentVersion, OpError> {
    let NewVersion { tenant, name, files, expected_head, faulty } = version;
    let content_key = tenant.key(&name);
    let claim = idempotency.map(|given| IdempotencyClaim {
        key: IdempotencyKey { scope: format!("content/{content_key}/{actor}"), key: given.key },
        body_hash: Hash::from_bytes(given.body_hash),
        target: String::new(),
    });
    if let Some(claim) = &claim
        && let Some(row) = engine.store().idempotent(&claim.key).await?
    {
        return match row.body_hash == claim.body_hash {
            true => content_version(engine, &tenant, &name, row.target.parse().ok()).await,
            false => Err(OpError::IdempotencyMismatch { key: claim.key.key.clone() }),
        };
    }
    writable(engine, &tenant).await?;
    tree::check(&files).map_err(|faults| OpError::InvalidContent { faults })?;
    let (count, bytes) = (files.len() as u64, files.iter().map(|file| file.bytes.len() as u64).sum());
    // A version may have thousands of files, so it is checked on a blocking thread.
    let judged = tokio::task::spawn_blocking(move || (judge(&files), files)).await;
    let (judged, files) = judged.map_err(|_| OpError::ShuttingDown)?;
    let (faults, warnings) = match judged {
        Ok(compiled) => (Vec::new(), compiled.warnings.into_iter().map(|(_, fault)| fault).collect()),
        Err(faults) if faulty == Faulty::Keep => (faults, Vec::new()),
        Err(faults) => return Err(OpError::InvalidContent { faults }),
    };
    let root_hash = tree::write(engine, files).await?;
    let record = VersionRecord { root_hash, files: count, bytes, faults, warnings, pushed_by: actor.to_string() };
    let corrupt = |source| OpError::CorruptDocument { what: Resource::Content, id: name.to_string(), source };
    let body = serde_json::to_string(&record).map_err(corrupt)?;
    let at = clock::now();
    let push = ContentPush {
        audit: vec![audit::admin_change(actor, "content", &content_key, &body, at)],
        name: content_key,
        body,
        expected_head,
        at,
        idempotency: claim.clone(),
    };
    let version = match engine.store().push_content(push).await {
        Ok(version) => version,
        Err(PushError::HeadMismatch { expected, actual }) => return Err(OpError::HeadMismatch { expected, actual }),
        Err(PushError::IdempotencyReplay(row)) => row.target.parse().unwrap_or(0),
        Err(PushError::IdempotencyMismatch(_)) => {
            let key = claim.map(|claim| claim.key.key).unwrap_or_default();
            return Err(OpError::IdempotencyMismatch { key });
        }
        Err(PushError::Store(error)) => return Err(error.into()),
    };
    content_version(engine, &tenant, &name, Some(version)).await
}

/// Returns the files of an archive (tar, tar.gz, tar.zst, zip) with checked content paths.
#[boxed]
pub async fn content_of_archive(archive: std::fs::File) -> Result<Vec<NewFile>, OpError> {
    let read = tokio::task::spawn_blocking(move || unpack(archive)).await;
    read.map_err(|_| OpError::ShuttingDown)?
}

fn unpack(mut archive: std::fs::File) -> Result<Vec<NewFile>, OpError> {
    let refused = |error: ArchiveError| OpError::Operate(error.into());
    let mut start = Vec::new();
    let read = (&mut archive).take(512).read_to_end(&mut start).and_then(|_| archive.rewind());
    read.map_err(|source| OpError::Spool { source })?;
    let format = ArchiveFormat::of_content(&start).ok_or(OpError::Operate(OperateError::ArchiveFormat))?;
    let limits = ArchiveLimits { entries: 2 * MAX_FILES, total_bytes: MAX_BYTES, ..ArchiveLimits::default() };
    let mut fs = MemoryFs::new();
    archive::unpack(&mut archive, format, None, &limits, &mut fs, &WorkspacePath::root(), 0).map_err(refused)?;
    collect(&fs)
}

/// Collects plain files with valid paths. Everything else is a fault.
fn collect(fs: &MemoryFs) -> Result<Vec<NewFile>, OpError> {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    let walked = fs.walk(&WorkspacePath::root(), &mut |entry| {
        if entry.kind != Kind::Directory {
            found.push((entry.path.clone(), entry.kind));
        }
        ControlFlow::Continue(Walk::Continue)
    });
    walked.map_err(|error| OpError::Operate(error.into()))?;
    let mut files = Vec::new();
    for (path, kind) in found {
        let shown = path.to_string();
        match shown.parse::<ContentPath>() {
            _ if kind != Kind::File => faults.push(Fault::whole(shown, "is not a plain file: content has no links")),
            Err(error) => faults.push(Fault::whole(shown, error.to_string())),
            Ok(content) => {
                let bytes: Bytes = fs.read_bytes(&path).map_err(|error| OpError::Operate(error.into()))?;
                let permission = fs.stat_entry(&path).map_err(|error| OpError::Operate(error.into()))?.permission;
                let executable = permission == Permission::Executable;
                let mode = if executable { FileMode::Executable } else { FileMode::Plain };
                files.push(NewFile { path: content, bytes, mode });
            }
        }
    }
    if faults.is_empty() { Ok(files) } else { Err(OpError::InvalidContent { faults }) }
}
