//! Storage of projects outside of their sessions: uploaded blobs, images and setup results.
//!
//! The bytes count for the disk quota of the project. Every write changes the rows and the sum of
//! the project (`journal/reservations.rs`) in one transaction, under the lock of all sums. The
//! files are elsewhere, so a crash can leave a row without its file, or a file without its row.
//! The server compares both when it starts ([`ReplaceStorage`]).
//!
//! A row of a blob also proves that the project uploaded it. A reference is no such proof: an agent
//! can write any hash into its journal.

use std::collections::{BTreeMap, BTreeSet};

use stead_core::admission::{self, Allowed, Amounts, QuotaExceeded, Scope};
use stead_core::{ContentHash, Name};

use crate::blobs::{BlobError, Blobs};
use crate::database::operation::{Failure, Operation};
use crate::database::sql::{Conn, Statement, values};
use crate::error::StoreError;
use crate::journal::reservations;

/// Kinds of storage of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageKind {
    Blob,
    Image,
    SetupResult,
}

impl StorageKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Image => "image",
            Self::SetupResult => "setup_result",
        }
    }
}

/// Something that a project keeps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredItem {
    pub project: String,
    /// Hash of a blob or of an image, id of a setup result.
    pub id: String,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(transparent)]
    Quota(QuotaExceeded),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Failure for StorageError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Quota(_) => None,
            Self::Store(error) => Some(error),
        }
    }
}

/// Adds an item, if it fits into the quota. An item that is there already counts once.
pub(crate) struct AddStorage {
    pub(crate) kind: StorageKind,
    pub(crate) item: StoredItem,
    pub(crate) allowed: Allowed,
}

impl Operation for AddStorage {
    type Output = ();
    type Error = StorageError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StorageError> {
        let Self { kind, item, allowed } = self;
        reservations::lock(conn).await?;
        let sql = "SELECT bytes FROM project_storage WHERE kind = $1 AND id = $2 AND project = $3";
        let values = values![kind.as_str(), item.id.clone(), item.project.clone()];
        let row: Option<(i64,)> = conn.optional("look for a stored item", sql, values).await?;
        let counted = row.map_or(0, |(bytes,)| u64::try_from(bytes).unwrap_or(0));
        let scope = Scope::Project { project: item.project.clone() };
        let used = reservations::sum(conn, &scope).await?;
        let asked = Amounts { disk_bytes: item.bytes.saturating_sub(counted), ..Amounts::default() };
        for allowed in [allowed, &reservations::CEILINGS] {
            admission::admit(&scope, &used, &asked, allowed).map_err(StorageError::Quota)?;
        }
        let statements = changes(*kind, row.map(|_| counted), Some(item.bytes), item);
        Ok(conn.together("count a stored item", statements).await.map(drop)?)
    }
}

/// Makes the rows of a kind what they should be, of one project or of all.
pub(crate) struct ReplaceStorage {
    pub(crate) kind: StorageKind,
    pub(crate) project: Option<String>,
    pub(crate) items: Vec<StoredItem>,
}

impl Operation for ReplaceStorage {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        reservations::lock(conn).await?;
        let listed = self.items.iter().map(|item| ((item.project.clone(), item.id.clone()), item.bytes));
        let mut wanted: BTreeMap<(String, String), u64> = listed.collect();
        let mut statements = Vec::new();
        for StoredItem { project, id, bytes } in items(conn, self.kind, self.project.as_deref()).await? {
            let after = wanted.remove(&(project.clone(), id.clone()));
            let item = StoredItem { project, id, bytes };
            statements.extend(changes(self.kind, Some(bytes), after, &item));
        }
        for ((project, id), bytes) in wanted {
            statements.extend(changes(self.kind, None, Some(bytes), &StoredItem { project, id, bytes }));
        }
        conn.together("correct stored items", statements).await.map(drop)
    }
}

/// Forgets items of a kind in all projects.
pub(crate) struct RemoveStorage {
    pub(crate) kind: StorageKind,
    pub(crate) ids: Vec<String>,
}

impl Operation for RemoveStorage {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        reservations::lock(conn).await?;
        let mut statements = Vec::new();
        for id in &self.ids {
            let sql = "SELECT project, id, bytes FROM project_storage WHERE kind = $1 AND id = $2";
            let rows: Vec<Row> = conn.all("read stored items", sql, values![self.kind.as_str(), id.clone()]).await?;
            for item in rows.into_iter().map(Row::read) {
                statements.extend(changes(self.kind, Some(item.bytes), None, &item));
            }
        }
        conn.together("forget stored items", statements).await.map(drop)
    }
}

/// Forgets everything that a project keeps.
pub(crate) struct RemoveStorageOf(pub(crate) String);

impl Operation for RemoveStorageOf {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        reservations::lock(conn).await?;
        let mut statements = Vec::new();
        for kind in [StorageKind::Blob, StorageKind::Image, StorageKind::SetupResult] {
            for item in items(conn, kind, Some(&self.0)).await? {
                statements.extend(changes(kind, Some(item.bytes), None, &item));
            }
        }
        conn.together("forget a project's stored items", statements).await.map(drop)
    }
}

/// The statements that change one row and the sum of its project.
fn changes(kind: StorageKind, before: Option<u64>, after: Option<u64>, item: &StoredItem) -> Vec<Statement> {
    if before == after {
        return Vec::new();
    }
    let number = |bytes: Option<u64>| i64::try_from(bytes.unwrap_or(0)).unwrap_or(i64::MAX / 2);
    let row = match after {
        Some(_) => Statement {
            sql: "INSERT INTO project_storage (kind, id, project, bytes) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT (kind, id, project) DO UPDATE SET bytes = excluded.bytes",
            values: values![kind.as_str(), item.id.clone(), item.project.clone(), number(after)],
        },
        None => Statement {
            sql: "DELETE FROM project_storage WHERE kind = $1 AND id = $2 AND project = $3",
            values: values![kind.as_str(), item.id.clone(), item.project.clone()],
        },
    };
    let scope = Scope::Project { project: item.project.clone() };
    vec![row, reservations::add_disk(&scope, number(after) - number(before))]
}

#[derive(sqlx::FromRow)]
struct Row {
    project: String,
    id: String,
    bytes: i64,
}

impl Row {
    fn read(self) -> StoredItem {
        StoredItem { project: self.project, id: self.id, bytes: u64::try_from(self.bytes).unwrap_or(0) }
    }
}

/// The items of a kind, of one project or of all.
pub(crate) async fn items(
    conn: &mut Conn<'_>,
    kind: StorageKind,
    project: Option<&str>,
) -> Result<Vec<StoredItem>, StoreError> {
    let rows: Vec<Row> = match project {
        Some(project) => {
            let sql = "SELECT project, id, bytes FROM project_storage WHERE project = $1 AND kind = $2";
            conn.all("read a project's stored items", sql, values![project, kind.as_str()]).await?
        }
        None => {
            let sql = "SELECT project, id, bytes FROM project_storage WHERE kind = $1";
            conn.all("read stored items", sql, values![kind.as_str()]).await?
        }
    };
    Ok(rows.into_iter().map(Row::read).collect())
}

/// Returns true if the project uploaded the blob.
pub(crate) async fn uploaded(conn: &mut Conn<'_>, project: &Name, hash: &ContentHash) -> Result<bool, StoreError> {
    let sql = "SELECT bytes FROM project_storage WHERE kind = $1 AND id = $2 AND project = $3";
    let values = values![StorageKind::Blob.as_str(), hash.to_string(), project.to_string()];
    let row: Option<(i64,)> = conn.optional("look for an upload", sql, values).await?;
    Ok(row.is_some())
}

/// Measures the files of uploaded blobs. Returns the corrected items, or `None` if all are right.
/// A blob whose file is gone is left out.
pub(crate) async fn measured(blobs: &Blobs, items: Vec<StoredItem>) -> Result<Option<Vec<StoredItem>>, BlobError> {
    blobs
        .with_files(move |files| {
            let mut sizes: BTreeMap<&str, Option<u64>> = BTreeMap::new();
            let ids: BTreeSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
            for id in ids {
                let found = match id.parse() {
                    Ok(hash) => files.open_file(&hash)?.map(|(_, bytes)| bytes),
                    Err(_) => None,
                };
                sizes.insert(id, found);
            }
            let size = |item: &StoredItem| sizes.get(item.id.as_str()).copied().flatten();
            let right = items.iter().all(|item| size(item) == Some(item.bytes));
            let corrected = |item: &StoredItem| size(item).map(|bytes| StoredItem { bytes, ..item.clone() });
            Ok((!right).then(|| items.iter().filter_map(corrected).collect()))
        })
        .await
}
