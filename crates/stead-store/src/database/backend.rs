//! Access to either database: a connection for reads, and operations for writes.
//!
//! Invariant: `write` returns `Ok` only after `COMMIT` was confirmed. All SQLite writes go through
//! the writer task. PostgreSQL writes run concurrently, each in a transaction, and are repeated if
//! the server asks for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgConnection, PgPool, Postgres, Row as _, Sqlite, SqlitePool};

use crate::database::fence::Fence;
use crate::database::operation::{Access, Operation, is_transient};
use crate::database::sql::Conn;
use crate::database::writer::Writer;
use crate::error::StoreError;
use crate::failpoints;

/// Maximum number of attempts if PostgreSQL aborts a transaction.
const ATTEMPTS: u32 = 5;

/// The advisory lock that every write holds until it ends. The number is arbitrary, but the same in
/// every server that shares the database.
pub(crate) const WRITE_LOCK: i64 = 126_943_754_281_987;

#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) connections: Connections,
    pub(crate) fence: Arc<Fence>,
    /// Number of reads.
    reads: Arc<AtomicU64>,
    /// Number of write operations.
    writes: AtomicU64,
}

/// Number of uses of the database since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accesses {
    /// Reads outside of a write.
    pub reads: u64,
    /// Operations that may write.
    pub writes: u64,
}

#[derive(Debug)]
pub(crate) enum Connections {
    Sqlite { path: PathBuf, readers: SqlitePool, writer: Writer },
    Postgres(PgPool),
}

/// A connection from a pool.
pub(crate) struct Reader {
    connection: Pooled,
    reads: Arc<AtomicU64>,
}

enum Pooled {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

impl Reader {
    /// Returns the connection for one read.
    pub(crate) fn conn(&mut self) -> Conn<'_> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        match &mut self.connection {
            Pooled::Sqlite(connection) => Conn::Sqlite(connection),
            Pooled::Postgres(connection) => Conn::Postgres(connection),
        }
    }
}

impl Backend {
    pub(crate) fn new(connections: Connections, fence: Arc<Fence>) -> Self {
        Self { connections, fence, reads: Arc::default(), writes: AtomicU64::new(0) }
    }

    pub(crate) fn accesses(&self) -> Accesses {
        Accesses { reads: self.reads.load(Ordering::Relaxed), writes: self.writes.load(Ordering::Relaxed) }
    }

    pub(crate) async fn reader(&self) -> Result<Reader, StoreError> {
        let acquired = match &self.connections {
            Connections::Sqlite { readers, .. } => readers.acquire().await.map(Pooled::Sqlite),
            Connections::Postgres(pool) => pool.acquire().await.map(Pooled::Postgres),
        };
        let connection = acquired.map_err(|error| StoreError::from_driver("get a connection", error))?;
        Ok(Reader { connection, reads: Arc::clone(&self.reads) })
    }

    pub(crate) async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, O::Error> {
        self.fence.check()?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        let pool = match &self.connections {
            Connections::Sqlite { writer, .. } => return writer.write(operation).await,
            Connections::Postgres(pool) => pool,
        };
        let mut attempt = 1;
        loop {
            match transact(pool, &self.fence, &operation).await {
                Err(error) if attempt < ATTEMPTS && is_transient(&error) => attempt += 1,
                answer => return answer,
            }
        }
    }

    pub(crate) async fn close(&self) {
        match &self.connections {
            Connections::Sqlite { readers, writer, .. } => {
                // Readers first: the writer is then the last connection to close, which empties the
                // WAL.
                readers.close().await;
                writer.close().await;
            }
            Connections::Postgres(pool) => pool.close().await,
        }
    }
}

async fn transact<O: Operation>(pool: &PgPool, fence: &Fence, operation: &O) -> Result<O::Output, O::Error> {
    let begin = |error| StoreError::from_driver("begin a transaction", error);
    let mut connection = pool.acquire().await.map_err(begin)?;
    let mut transaction = connection.begin().await.map_err(begin)?;
    enter(&mut transaction, fence, O::ACCESS).await?;
    let answer = operation.run(&mut Conn::Postgres(&mut transaction)).await;
    let output = match answer {
        Ok(output) => output,
        Err(refused) => {
            // If the rollback fails too, the connection is lost and the server rolls back.
            if let Err(error) = transaction.rollback().await {
                tracing::debug!(%error, "rollback failed; the server rolls back when the connection closes");
            }
            return Err(refused);
        }
    };
    failpoints::before_commit()?;
    transaction.commit().await.map_err(commit_failed)?;
    failpoints::after_commit()?;
    Ok(output)
}

/// Takes the lock that every write holds until it ends, then refuses a server with an old epoch.
///
/// A takeover holds the lock exclusively while it raises the epoch. A write therefore either ends
/// before the takeover or sees its epoch: READ COMMITTED gives the second statement a snapshot
/// taken after the lock was granted.
async fn enter(transaction: &mut PgConnection, fence: &Fence, access: Access) -> Result<(), StoreError> {
    // One text is one round trip. The number is `WRITE_LOCK`.
    let text = match access {
        Access::Shared => "SELECT pg_advisory_xact_lock_shared(126943754281987); SELECT epoch FROM owner WHERE id = 1",
        Access::Exclusive => "SELECT pg_advisory_xact_lock(126943754281987); SELECT epoch FROM owner WHERE id = 1",
    };
    let failed = |error| StoreError::from_driver("check who owns the database", error);
    let rows = sqlx::raw_sql(text).fetch_all(transaction).await.map_err(failed)?;
    let found: Option<i64> = rows.last().map(|row| row.try_get(0)).transpose().map_err(failed)?;
    match (fence.epoch(), found) {
        (Some(ours), Some(found)) if ours != found => {
            fence.lose(format!("another server took it over (epoch {found}, ours was {ours})"));
            fence.check()
        }
        (_, None) => Err(StoreError::corrupt("owner", "the table owner is empty")),
        // A takeover by this process runs before its epoch is known.
        _ => Ok(()),
    }
}

/// A `COMMIT` that the server refused did not happen. One without an answer may have happened.
fn commit_failed(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(_) => StoreError::from_driver("commit", error),
        lost => StoreError::OutcomeUnknown { source: lost.into() },
    }
}
