//! Reads content: names, versions, trees, files, differences.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stead_core::ContentHash;
use stead_core::content::{ContentPath, Fault};
use stead_core::identity::Tenant;
use stead_core::{Name, Resource, Timestamp};
use stead_store::{Document, DocumentKind, OpenBlob, version_id};

use crate::content::tree::{self, TreeFile};
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::boxed;
use crate::ops::registry::document::{Page, visible};

/// One version of content. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentVersion {
    pub name: Name,
    /// The project that it belongs to. `None` for the platform.
    pub project: Option<Name>,
    pub version: u64,
    pub root_hash: ContentHash,
    pub files: u64,
    pub bytes: u64,
    /// The faults of a version that was stored nevertheless.
    pub faults: Vec<Fault>,
    pub warnings: Vec<Fault>,
    pub pushed_by: String,
    pub created_at: Timestamp,
}

/// A version as stored in the database.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::ops) struct VersionRecord {
    pub(in crate::ops) root_hash: ContentHash,
    pub(in crate::ops) files: u64,
    pub(in crate::ops) bytes: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::ops) faults: Vec<Fault>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::ops) warnings: Vec<Fault>,
    pub(in crate::ops) pushed_by: String,
}

impl ContentVersion {
    fn of(tenant: &Tenant, name: &Name, version: u64, document: &Document) -> Result<Self, OpError> {
        let corrupt = |source| OpError::CorruptDocument { what: Resource::Content, id: document.id.clone(), source };
        let record: VersionRecord = serde_json::from_str(&document.body).map_err(corrupt)?;
        let VersionRecord { root_hash, files, bytes, faults, warnings, pushed_by } = record;
        let (name, project, created_at) = (name.clone(), tenant.project().cloned(), document.updated_at);
        Ok(Self { name, project, version, root_hash, files, bytes, faults, warnings, pushed_by, created_at })
    }
}

/// The newest version of each content that a tenant can use, sorted by name: its own, and that of
/// the platform whose name it has not taken.
#[boxed]
pub async fn contents(engine: &Engine, tenant: &Tenant, page: &Page) -> Result<Vec<ContentVersion>, OpError> {
    let documents = visible(engine, DocumentKind::Content, tenant, page).await?;
    let mut found: BTreeMap<Name, ContentVersion> = BTreeMap::new();
    for document in &documents {
        let owner = if tenant.name(&document.id).is_some() { tenant } else { &Tenant::Platform };
        let head = u64::try_from(document.revision).ok();
        let (Some(name), Some(head)) = (owner.name(&document.id), head) else { continue };
        let version = ContentVersion::of(owner, &name, head, document)?;
        found.entry(name).or_insert(version);
    }
    Ok(found.into_values().take(usize::try_from(page.limit).unwrap_or(usize::MAX)).collect())
}

fn missing(name: &Name) -> OpError {
    OpError::NotFound { what: Resource::Content, id: name.to_string() }
}

/// Returns the owner of the content that a tenant means by a name, and its newest version: the
/// tenant's own, else the platform's.
async fn head(engine: &Engine, tenant: &Tenant, name: &Name) -> Result<(Tenant, Document), OpError> {
    for owner in [tenant, &Tenant::Platform] {
        if let Some(head) = engine.store().document(DocumentKind::Content, &owner.key(name)).await? {
            return Ok((owner.clone(), head));
        }
    }
    Err(missing(name))
}

/// Returns a version, or the newest one.
#[boxed]
pub async fn content_version(
    engine: &Engine,
    tenant: &Tenant,
    name: &Name,
    version: Option<u64>,
) -> Result<ContentVersion, OpError> {
    let (owner, head) = head(engine, tenant, name).await?;
    let number = version.unwrap_or_else(|| u64::try_from(head.revision).unwrap_or(0));
    let id = version_id(&owner.key(name), number);
    let found = engine.store().document(DocumentKind::ContentVersion, &id).await?;
    let none = || OpError::NotFound { what: Resource::ContentVersion, id: format!("{name}@{number}") };
    ContentVersion::of(&owner, name, number, &found.ok_or_else(none)?)
}

/// All versions, oldest first.
#[boxed]
pub async fn content_versions(engine: &Engine, tenant: &Tenant, name: &Name) -> Result<Vec<ContentVersion>, OpError> {
    const PAGE: u32 = 500;
    let (owner, _) = head(engine, tenant, name).await?;
    let (prefix, mut found) = (format!("{}@", owner.key(name)), Vec::new());
    let mut after = prefix.clone();
    loop {
        let page = engine.store().documents(DocumentKind::ContentVersion, Some(&after), PAGE).await?;
        let ours: Vec<&Document> = page.iter().take_while(|document| document.id.starts_with(&prefix)).collect();
        for document in &ours {
            let number = document.id[prefix.len()..].parse().unwrap_or(0);
            found.push(ContentVersion::of(&owner, name, number, document)?);
        }
        match page.last() {
            Some(last) if ours.len() == PAGE as usize => after = last.id.clone(),
            _ => break,
        }
    }
    if found.is_empty() { Err(missing(name)) } else { Ok(found) }
}

/// The files of a version, sorted.
#[boxed]
pub async fn content_files(engine: &Engine, version: &ContentVersion) -> Result<Vec<TreeFile>, OpError> {
    Ok(tree::files(engine, version.root_hash).await?.into_values().collect())
}

/// Opens one file of a version.
#[boxed]
pub async fn open_content_file(
    engine: &Engine,
    version: &ContentVersion,
    path: &ContentPath,
) -> Result<(TreeFile, OpenBlob), OpError> {
    let found = tree::files(engine, version.root_hash).await?.remove(path);
    let file = found.ok_or_else(|| OpError::NotFound { what: Resource::ContentFile, id: path.to_string() })?;
    let missing = || OpError::MissingBlob { digest: file.hash.to_string() };
    let blob = engine.store().blobs().open(&file.hash).await?.ok_or_else(missing)?;
    Ok((file, blob))
}

/// The change of one file between two versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentChange {
    pub path: ContentPath,
    pub before: Option<TreeFile>,
    pub after: Option<TreeFile>,
}

/// The files that differ, sorted.
#[boxed]
pub async fn content_diff(
    engine: &Engine,
    from: &ContentVersion,
    to: &ContentVersion,
) -> Result<Vec<ContentChange>, OpError> {
    let mut before = tree::files(engine, from.root_hash).await?;
    let mut changes = BTreeMap::new();
    for (path, after) in tree::files(engine, to.root_hash).await? {
        let old = before.remove(&path);
        if old.as_ref() != Some(&after) {
            changes.insert(path.clone(), ContentChange { path, before: old, after: Some(after) });
        }
    }
    for (path, old) in before {
        changes.insert(path.clone(), ContentChange { path, before: Some(old), after: None });
    }
    Ok(changes.into_values().collect())
}
