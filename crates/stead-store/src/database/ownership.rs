//! Ensures that only one server uses a store.
//!
//! The owner holds a lock that the system releases when its process dies: an `flock` on SQLite's
//! file, or an advisory lock of one PostgreSQL connection. It also raises the epoch in the table
//! `owner`, which every PostgreSQL write checks (`backend.rs`). The lock prevents a second server
//! from starting. The epoch prevents the first one from writing after it lost the lock to another
//! server.
//!
//! A lost PostgreSQL connection (a failover, an administrator) is not a takeover yet. The server
//! refuses writes, connects again, and continues if the epoch is still its own. Otherwise it has
//! lost the store for good. A server from another home waits [`GRACE`] before it takes a lock whose
//! holder did not stop cleanly, so that the holder has time to reconnect.

use std::fs::{File, TryLockError};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use sqlx::{PgConnection, PgPool};
use stead_core::Timestamp;
use tokio::task::JoinHandle;

use crate::database::backend::{Backend, Connections, WRITE_LOCK};
use crate::database::fence::Fence;
use crate::database::operation::{Access, Operation};
use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::journal::reservations;
use crate::ledger;

const OWNER_LOCK: i64 = 0x73_74_65_61_64_02;
/// Timeout for the lock. The database may still know a server that was just killed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for a file lock. The kernel releases it with its process, so a held lock means a
/// running server.
const FILE_PATIENCE: Duration = Duration::from_millis(300);
/// A server from another home takes the lock only after it has been free for this long.
const GRACE: Duration = Duration::from_secs(3);
const TRY_AGAIN: Duration = Duration::from_millis(50);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// A database that does not answer within this time counts as unreachable.
const ANSWER: Duration = Duration::from_secs(5);

/// The ownership of a store. Dropping it gives the store up.
#[derive(Debug)]
pub struct Ownership {
    fence: Arc<Fence>,
    watcher: JoinHandle<()>,
    /// Unlocked but never closed: closing any descriptor of the file drops the POSIX locks that
    /// SQLite holds on it.
    file: Option<ManuallyDrop<File>>,
}

impl Drop for Ownership {
    fn drop(&mut self) {
        self.fence.release();
        // The watcher task owns the connection that holds PostgreSQL's lock.
        self.watcher.abort();
        if let Some(file) = &self.file
            && let Err(error) = file.unlock()
        {
            tracing::warn!(%error, "cannot unlock the database file; the end of the process does");
        }
    }
}

/// Takes ownership. `None` if another server uses this store. `holder` names the home of this
/// server.
pub(crate) async fn own(backend: &Arc<Backend>, holder: &str) -> Result<Option<Ownership>, StoreError> {
    let fence = Arc::clone(&backend.fence);
    fence.unclaim();
    let take_over = TakeOver { holder: holder.to_owned() };
    match &backend.connections {
        Connections::Sqlite { path, .. } => {
            let Some(file) = lock_file(path).await? else { return Ok(None) };
            let metadata = file.metadata().map_err(|error| unlockable(error.into()))?;
            fence.guard_file(path, &metadata);
            fence.claim(backend.write(take_over).await?);
            let watcher = tokio::spawn(watch_file(Arc::clone(&fence)));
            Ok(Some(Ownership { fence, watcher, file: Some(file) }))
        }
        Connections::Postgres(pool) => {
            let Some(mut connection) = lock_database(pool, holder).await? else { return Ok(None) };
            end_writers(&mut connection).await?;
            let epoch = backend.write(take_over).await?;
            fence.claim(epoch);
            let held = HeldLock { pool: pool.clone(), connection, epoch };
            let watcher = tokio::spawn(held.watch(Arc::clone(&fence)));
            Ok(Some(Ownership { fence, watcher, file: None }))
        }
    }
}

/// Records that the owner stopped cleanly, so that the next one need not wait for it to reconnect.
pub(crate) struct Release;

impl Operation for Release {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        conn.execute("release the database", "UPDATE owner SET released = 1 WHERE id = 1", values![]).await.map(drop)
    }
}

/// Raises the epoch and computes the sums of reservations. The first owner also begins the ledger.
struct TakeOver {
    holder: String,
}

impl Operation for TakeOver {
    type Output = i64;
    type Error = StoreError;
    /// Waits for every write of the previous epoch.
    const ACCESS: Access = Access::Exclusive;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<i64, StoreError> {
        let row: Option<(i64,)> = conn
            .optional(
                "take the database over",
                "UPDATE owner SET epoch = epoch + 1, holder = $1, released = 0 WHERE id = 1 RETURNING epoch",
                values![self.holder.clone()],
            )
            .await?;
        ledger::begin(conn).await?;
        reservations::settle(conn, now()).await?;
        row.map(|(epoch,)| epoch).ok_or_else(|| StoreError::corrupt("owner", "the table owner is empty"))
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn unlockable(source: crate::error::BoxedSource) -> StoreError {
    StoreError::Unavailable { doing: "lock the database file", source }
}

async fn lock_file(path: &Path) -> Result<Option<ManuallyDrop<File>>, StoreError> {
    let file = ManuallyDrop::new(File::open(path).map_err(|error| unlockable(error.into()))?);
    let deadline = Instant::now() + FILE_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) => return Err(unlockable(error.into())),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => return Ok(None),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(TRY_AGAIN).await,
        }
    }
}

/// Detects a replaced file even if nothing is written.
async fn watch_file(fence: Arc<Fence>) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        fence.standing();
    }
}

async fn lock_database(pool: &PgPool, holder: &str) -> Result<Option<PgConnection>, StoreError> {
    let mut connection = connect(pool).await?;
    let deadline = Instant::now() + PATIENCE;
    let mut free_since: Option<Instant> = None;
    loop {
        if try_lock(&mut connection).await? {
            if may_take_now(&mut connection, holder).await? || free_since.is_some_and(|since| since.elapsed() >= GRACE)
            {
                return Ok(Some(connection));
            }
            unlock(&mut connection).await?;
            free_since.get_or_insert_with(Instant::now);
        } else {
            free_since = None;
            if Instant::now() > deadline {
                return Ok(None);
            }
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

/// Ends connections that are in the middle of a write. They belong to the previous owner, which is
/// gone, hangs or is cut off, and a takeover would wait for them. PostgreSQL rolls back their
/// transactions, which were never acknowledged.
async fn end_writers(connection: &mut PgConnection) -> Result<(), StoreError> {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND (classid::bigint << 32) + objid::bigint = $1 AND pid <> pg_backend_pid()";
    let ended: Vec<(bool,)> = Conn::Postgres(connection).all("end old writes", sql, values![WRITE_LOCK]).await?;
    if !ended.is_empty() {
        tracing::warn!(connections = ended.len(), "ended writes that the last owner of the database left open");
    }
    Ok(())
}

/// A connection that is detached from the pool, because it must live as long as the lock.
async fn connect(pool: &PgPool) -> Result<PgConnection, StoreError> {
    let connection = pool.acquire().await.map_err(|error| StoreError::from_driver("get a connection", error))?;
    Ok(connection.detach())
}

async fn try_lock(connection: &mut PgConnection) -> Result<bool, StoreError> {
    let sql = "SELECT pg_try_advisory_lock($1)";
    let taken: Option<(bool,)> =
        Conn::Postgres(connection).optional("take the store", sql, values![OWNER_LOCK]).await?;
    Ok(taken.is_some_and(|(taken,)| taken))
}

async fn unlock(connection: &mut PgConnection) -> Result<(), StoreError> {
    let sql = "SELECT pg_advisory_unlock($1)";
    let _: Option<(bool,)> = Conn::Postgres(connection).optional("leave the store", sql, values![OWNER_LOCK]).await?;
    Ok(())
}

/// Returns true if the last owner stopped cleanly, or was this home. In the second case the lock of
/// the home proves that it is gone.
async fn may_take_now(connection: &mut PgConnection, holder: &str) -> Result<bool, StoreError> {
    let sql = "SELECT holder, released FROM owner WHERE id = 1";
    let row: Option<(String, i64)> = Conn::Postgres(connection).optional("read the owner", sql, values![]).await?;
    Ok(row.is_none_or(|(last, released)| released == 1 || last == holder))
}

async fn epoch(connection: &mut PgConnection) -> Result<i64, StoreError> {
    let sql = "SELECT epoch FROM owner WHERE id = 1";
    let row: Option<(i64,)> = Conn::Postgres(connection).optional("read the owner", sql, values![]).await?;
    row.map(|(epoch,)| epoch).ok_or_else(|| StoreError::corrupt("owner", "the table owner is empty"))
}

struct HeldLock {
    pool: PgPool,
    connection: PgConnection,
    epoch: i64,
}

impl HeldLock {
    async fn watch(mut self, fence: Arc<Fence>) {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            let asked = tokio::time::timeout(ANSWER, epoch(&mut self.connection)).await;
            match asked {
                Ok(Ok(found)) if found == self.epoch => continue,
                Ok(Ok(found)) => return fence.lose(self.taken_over(found)),
                Ok(Err(error)) => self.doubt(&fence, &error.to_string()),
                Err(_) => self.doubt(&fence, "the database does not answer"),
            }
            match self.regain().await {
                Regained::Connection(connection) => {
                    self.connection = connection;
                    fence.regain();
                    tracing::warn!("the lock on the database is held again; no other server held it meanwhile");
                }
                Regained::TakenOver(found) => return fence.lose(self.taken_over(found)),
            }
        }
    }

    fn doubt(&self, fence: &Fence, reason: &str) {
        tracing::error!(reason, "the connection that holds the lock on the database is lost; writes are refused");
        fence.doubt(format!("the connection that holds its lock was lost ({reason}); trying to take the lock again"));
    }

    fn taken_over(&self, found: i64) -> String {
        format!("another server took it over (epoch {found}, ours was {})", self.epoch)
    }

    /// Retries until the lock is held again, or the epoch shows that another server had it.
    async fn regain(&self) -> Regained {
        loop {
            match tokio::time::timeout(ANSWER, self.try_regain()).await {
                Ok(Ok(Some(regained))) => return regained,
                Ok(Ok(None)) | Err(_) => {}
                Ok(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot reach the database to lock it");
                }
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    async fn try_regain(&self) -> Result<Option<Regained>, StoreError> {
        let mut connection = connect(&self.pool).await?;
        let held = try_lock(&mut connection).await?;
        // Read after the attempt to lock, because a takeover raises the epoch while it holds the
        // lock.
        let found = epoch(&mut connection).await?;
        if found != self.epoch {
            return Ok(Some(Regained::TakenOver(found)));
        }
        Ok(held.then_some(Regained::Connection(connection)))
    }
}

enum Regained {
    Connection(PgConnection),
    TakenOver(i64),
}
