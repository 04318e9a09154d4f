//! Errors of the database, by what a caller can do about them.
//!
//! There are three kinds. The database cannot be written now (`Full`, `Unavailable`, `Closed`). It
//! did not confirm a commit (`OutcomeUnknown`). The data or this program is wrong (`Query`,
//! `Corrupt`). Refusals of one operation, such as a conflict or a reached limit, are in that
//! operation's own error. No sqlx type is public.

use std::path::PathBuf;

/// The cause of an error, for logs. Its type is opaque.
pub type BoxedSource = Box<dyn std::error::Error + Send + Sync + 'static>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written, because the database has no room.
    #[error("the database is full while trying to {doing}")]
    Full {
        doing: &'static str,
        #[source]
        source: BoxedSource,
    },
    /// Nothing was written. Retry later: the connection is lost, or the database was locked for too
    /// long.
    #[error("the database is unavailable while trying to {doing}")]
    Unavailable {
        doing: &'static str,
        #[source]
        source: BoxedSource,
    },
    /// `COMMIT` was sent but not confirmed, so the write may or may not exist. Read before a retry.
    #[error("the database did not confirm the commit; it may or may not have happened")]
    OutcomeUnknown {
        #[source]
        source: BoxedSource,
    },
    /// This server may not write, because its lock on the database is lost or in doubt. Nothing was
    /// acknowledged.
    #[error("this server does not own its database: {reason}")]
    NotOwner { reason: String },
    /// The database lacks a seal that was durable in it.
    #[error(
        "the database has no seal {number} although this home noted it: its end was cut off, or it is an older copy"
    )]
    CutOff { number: i64 },
    /// The store was closed by [`crate::Store::close`], or its runtime is shutting down.
    #[error("the store is closed")]
    Closed,
    /// The database refused a statement: a bug, or a schema that was changed by hand.
    #[error("the database refused a statement while trying to {doing}")]
    Query {
        doing: &'static str,
        #[source]
        source: BoxedSource,
    },
    /// A stored value does not have the form that this crate writes.
    #[error("the database holds a {what} that cannot be read")]
    Corrupt {
        what: &'static str,
        #[source]
        source: BoxedSource,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The last writes are in the WAL beside the file, and reading them would need write access.
    #[error(
        "the database {path} was not closed and cannot be written: its last writes are in its log; copy both to a disk that can be written"
    )]
    PendingLog { path: PathBuf },
    #[error("cannot prepare {path} for the store")]
    Files {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot connect to the database {database}")]
    Connect {
        database: String,
        #[source]
        source: BoxedSource,
    },
    #[error(
        "the database {database} has schema version {found}, and this program knows only up to {known}; \
         run the version of stead that wrote it, or a newer one"
    )]
    NewerSchema { database: String, found: i64, known: i64 },
    #[error("cannot bring the schema of the database {database} up to date")]
    Migrate {
        database: String,
        #[source]
        source: BoxedSource,
    },
    #[error("cannot open the blob directory")]
    Blobs {
        #[source]
        source: crate::BlobError,
    },
}

impl StoreError {
    /// Sorts a driver's error by what a caller can do about it.
    pub(crate) fn from_driver(doing: &'static str, error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolClosed => Self::Closed,
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
                Self::Corrupt { what: "row", source: error.into() }
            }
            sqlx::Error::Database(cause) if is_full(cause.as_ref()) => Self::Full { doing, source: error.into() },
            sqlx::Error::Database(cause) if !is_outage(cause.as_ref()) => Self::Query { doing, source: error.into() },
            _ => Self::Unavailable { doing, source: error.into() },
        }
    }

    pub(crate) fn corrupt(what: &'static str, source: impl Into<BoxedSource>) -> Self {
        Self::Corrupt { what, source: source.into() }
    }
}

/// The class of an SQLite error: the low byte of its extended result code. `None` for another
/// database.
fn sqlite_class(error: &dyn sqlx::error::DatabaseError) -> Option<i32> {
    error.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    Some(error.code().unwrap_or_default().parse::<i32>().map_or(0, |code| code & 0xff))
}

/// Returns true if the database has no room to write.
fn is_full(error: &dyn sqlx::error::DatabaseError) -> bool {
    /// The class FULL of SQLite.
    const SQLITE_FULL: i32 = 13;
    /// The SQLSTATE `disk_full` of PostgreSQL.
    const DISK_FULL: &str = "53100";
    match sqlite_class(error) {
        Some(class) => class == SQLITE_FULL,
        None => error.code().as_deref() == Some(DISK_FULL),
    }
}

/// Returns true if the error concerns the database as a whole and not the statement.
fn is_outage(error: &dyn sqlx::error::DatabaseError) -> bool {
    if let Some(class) = sqlite_class(error) {
        // PERM, BUSY, LOCKED, NOMEM, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL,
        // NOTADB.
        return matches!(class, 3 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 13 | 14 | 15 | 26);
    }
    let code = error.code().unwrap_or_default();
    // SQLSTATE classes: connection exception, transaction rollback, insufficient resources,
    // operator intervention, system error. Also a server that became read-only (a failover), and an
    // unavailable lock.
    ["08", "40", "53", "57", "58"].iter().any(|class| code.starts_with(class)) || code == "25006" || code == "55P03"
}
