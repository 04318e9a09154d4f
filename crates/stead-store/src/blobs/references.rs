//! References to the blobs that must be kept: one row per blob and holder, written in the
//! transaction that names the blob.
//!
//! An event or a document names a blob by its 64 hexadecimal digits. A blob that is JSON, such as a
//! manifest, may name others, which get the same holder.
//!
//! A blob cannot vanish after it is stored and before it is named. Storing and naming both set its
//! time of modification, and [`crate::Store::collect_blobs`] checks that time and removes the file
//! in one step. It removes only blobs that were neither stored nor named for the whole grace
//! period.

use std::collections::{BTreeMap, HashSet};

use stead_core::{ContentHash, SessionId};

use crate::blobs::{BlobError, Blobs, Files};
use crate::database::operation::Operation;
use crate::database::sql::{Conn, Statement, values};
use crate::error::StoreError;
use crate::ledger::{self, Entry};

const DIGITS: usize = 64;
/// A longer JSON blob is content and not a manifest.
const LARGEST_MANIFEST: u64 = 8 << 20;
/// Maximum depth of manifests that name manifests.
const DEEPEST: usize = 4;
/// The event kind that names an upload without keeping it. The bytes are needed only until the
/// operation has ended, and [`crate::Store::discard`] removes them then.
const TRANSPORT_EVENT: &str = "FileOperationStarted";

/// The session, document or content that needs a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Holder {
    Session(SessionId),
    Document { kind: &'static str, id: String },
    Content { name: String },
}

impl Holder {
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Session(id) => format!("session:{id}"),
            Self::Document { kind, id } => format!("document:{kind}/{id}"),
            Self::Content { name } => format!("content:{name}"),
        }
    }

    /// Returns true for a document, which holds only the blobs that it names now. The others also
    /// hold the blobs that they named before.
    fn replaces(&self) -> bool {
        matches!(self, Self::Document { .. })
    }
}

/// Blobs and their lengths.
pub(crate) type Named = BTreeMap<ContentHash, u64>;

/// Returns true if an event of this kind keeps the blobs that it names.
pub(crate) fn keeps(kind: &str) -> bool {
    kind != TRANSPORT_EVENT
}

/// The effect of a lookup on the age of the blobs that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// Resets their age, because something is about to hold them.
    Renewed,
    Unchanged,
}

/// The blobs that texts name, directly or through manifests.
pub(crate) async fn named_in(blobs: &Blobs, texts: impl Iterator<Item = &str>, age: Age) -> Result<Named, BlobError> {
    let candidates: Vec<ContentHash> = texts.flat_map(hashes).collect();
    if candidates.is_empty() {
        return Ok(Named::new());
    }
    blobs.with_files(move |files| expand(files, candidates, age)).await
}

fn expand(files: &Files, mut at_hand: Vec<ContentHash>, age: Age) -> Result<Named, BlobError> {
    let mut named = Named::new();
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for hash in std::mem::take(&mut at_hand) {
            if named.contains_key(&hash) {
                continue;
            }
            // Most hashes in a journal are hashes of trees, for which there is no blob.
            let found = match age {
                Age::Renewed => files.touch(&hash)?,
                Age::Unchanged => files.open_file(&hash)?.map(|(_, bytes)| bytes),
            };
            let Some(bytes) = found else { continue };
            named.insert(hash, bytes);
            if bytes <= LARGEST_MANIFEST
                && let Some(manifest) = files.json(&hash)?
            {
                next.extend(hashes(&manifest));
            }
        }
        at_hand = next;
    }
    Ok(named)
}

/// All runs of exactly 64 lower-case hexadecimal digits.
fn hashes(text: &str) -> impl Iterator<Item = ContentHash> + '_ {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let runs = text.as_bytes().split(move |byte| !is_digit(byte)).filter(|run| run.len() == DIGITS);
    runs.filter_map(|run| format!("sha256:{}", std::str::from_utf8(run).ok()?).parse().ok())
}

/// A write and its references, in one transaction.
pub(crate) struct Referring<O> {
    pub(crate) write: O,
    pub(crate) references: References,
}

pub(crate) struct References {
    pub(crate) holder: Holder,
    pub(crate) named: Named,
    pub(crate) cause: Cause,
}

/// The reason for which references are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The holder names the blobs now.
    Named,
    /// The holder named them before, and the table lacks the references. The ledger may have them,
    /// so it gets a row that they were removed first: the rows of a reference always alternate.
    Lost,
    /// The holder is deleted, and all its references with it.
    Deleted,
}

impl References {
    pub(crate) async fn record(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let key = self.holder.key();
        if let Conn::Postgres(_) = conn {
            // Two writers must not both find that a reference is missing. SQLite has one writer.
            let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
            conn.execute("wait for other references of a holder", sql, values![key.clone()]).await?;
        }
        let mut statements = Vec::new();
        let held = match (self.holder.replaces(), self.cause) {
            (false, Cause::Named) => HashSet::new(),
            _ => held_by(conn, &self.holder).await?,
        };
        if self.holder.replaces() || self.cause == Cause::Deleted {
            let named: HashSet<String> = self.named.keys().map(|hash| hash.to_hex()).collect();
            let gone = held.iter().filter(|hash| !named.contains(*hash)).cloned();
            statements.extend(gone.flat_map(|hash| release(&key, hash)));
        }
        for (hash, bytes) in &self.named {
            let (hash, bytes) = (hash.to_hex(), i64::try_from(*bytes).unwrap_or(i64::MAX));
            if self.cause == Cause::Lost && !held.contains(&hash) {
                statements.push(ledger::insert(Entry::blob_released(&key, &hash)));
            }
            statements.push(ledger::insert_reference(&key, &hash, bytes));
            statements.push(Statement {
                sql: "INSERT INTO blob_references (holder, digest, bytes) VALUES ($1, $2, $3) ON CONFLICT (holder, digest) DO NOTHING",
                values: values![key.clone(), hash, bytes],
            });
        }
        conn.together("refer to blobs", statements).await.map(drop)
    }
}

fn release(holder: &str, hash: String) -> [Statement; 2] {
    let stated = ledger::insert(Entry::blob_released(holder, &hash));
    let sql = "DELETE FROM blob_references WHERE holder = $1 AND digest = $2";
    [stated, Statement { sql, values: values![holder, hash] }]
}

/// The blobs of a holder in the table, as hexadecimal digits.
pub(crate) async fn held_by(conn: &mut Conn<'_>, holder: &Holder) -> Result<HashSet<String>, StoreError> {
    let sql = "SELECT digest FROM blob_references WHERE holder = $1";
    let rows: Vec<(String,)> = conn.all("list a holder's blobs", sql, values![holder.key()]).await?;
    Ok(rows.into_iter().map(|(hash,)| hash).collect())
}

impl<O: Operation> Operation for Referring<O> {
    type Output = O::Output;
    type Error = O::Error;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<O::Output, O::Error> {
        let output = self.write.run(conn).await?;
        self.references.record(conn).await?;
        Ok(output)
    }
}

impl Operation for References {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        self.record(conn).await
    }
}

/// Returns true if the blob has a holder.
pub(crate) async fn is_held(conn: &mut Conn<'_>, hash: &ContentHash) -> Result<bool, StoreError> {
    let sql = "SELECT bytes FROM blob_references WHERE digest = $1 LIMIT 1";
    let row: Option<(i64,)> = conn.optional("look for references to a blob", sql, values![hash.to_hex()]).await?;
    Ok(row.is_some())
}

/// Bytes of a session's events. Reads all of them.
pub(crate) async fn event_bytes(conn: &mut Conn<'_>, session: SessionId) -> Result<u64, StoreError> {
    let sql = "SELECT CAST(COALESCE(SUM(LENGTH(payload)), 0) AS BIGINT) FROM events WHERE session = $1";
    let row: Option<(i64,)> = conn.optional("measure a journal", sql, values![session]).await?;
    Ok(row.map_or(0, |(bytes,)| bytes.cast_unsigned()))
}

/// Bytes of the blobs that a session's events name.
pub(crate) async fn blob_bytes(conn: &mut Conn<'_>, session: SessionId) -> Result<u64, StoreError> {
    let sql = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM blob_references WHERE holder = $1";
    let holder = Holder::Session(session).key();
    let row: Option<(i64,)> = conn.optional("measure a session's blobs", sql, values![holder]).await?;
    Ok(row.map_or(0, |(bytes,)| bytes.cast_unsigned()))
}
