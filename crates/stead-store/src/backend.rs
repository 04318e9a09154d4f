//! The two databases behind one door: borrow a connection to read, hand over an operation to write.
//!
//! Invariant: `write` answers `Ok` only after `COMMIT` was confirmed. SQLite's writes all go through the one writer task;
//! PostgreSQL's run side by side, each in a transaction, and are run again when the server asks for it.

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgPool, Postgres, Sqlite, SqlitePool};

use crate::error::StoreError;
use crate::failpoints;
use crate::operation::{Operation, is_transient};
use crate::sql::Conn;
use crate::writer::Writer;

/// How often PostgreSQL may give a transaction up before its caller hears of it.
const ATTEMPTS: u32 = 5;

#[derive(Debug)]
pub(crate) enum Backend {
    Sqlite { readers: SqlitePool, writer: Writer },
    Postgres(PgPool),
}

/// A connection lent by a pool.
pub(crate) enum Reader {
    Sqlite(PoolConnection<Sqlite>),
    Postgres(PoolConnection<Postgres>),
}

impl Reader {
    pub(crate) fn conn(&mut self) -> Conn<'_> {
        match self {
            Self::Sqlite(connection) => Conn::Sqlite(connection),
            Self::Postgres(connection) => Conn::Postgres(connection),
        }
    }
}

impl Backend {
    pub(crate) async fn reader(&self) -> Result<Reader, StoreError> {
        match self {
            Self::Sqlite { readers, .. } => readers.acquire().await.map(Reader::Sqlite),
            Self::Postgres(pool) => pool.acquire().await.map(Reader::Postgres),
        }
        .map_err(|error| StoreError::from_driver("get a connection", error))
    }

    pub(crate) async fn write<O: Operation>(&self, operation: O) -> Result<O::Output, O::Error> {
        let pool = match self {
            Self::Sqlite { writer, .. } => return writer.write(operation).await,
            Self::Postgres(pool) => pool,
        };
        let mut attempt = 1;
        loop {
            match transact(pool, &operation).await {
                Err(error) if attempt < ATTEMPTS && is_transient(&error) => attempt += 1,
                answer => return answer,
            }
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite { readers, writer } => {
                // Readers first: the last connection to close is then the writer, which empties the WAL.
                readers.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

async fn transact<O: Operation>(pool: &PgPool, operation: &O) -> Result<O::Output, O::Error> {
    let begin = |error| StoreError::from_driver("begin a transaction", error);
    let mut connection = pool.acquire().await.map_err(begin)?;
    let mut transaction = connection.begin().await.map_err(begin)?;
    let answer = operation.run(&mut Conn::Postgres(&mut transaction)).await;
    let output = match answer {
        Ok(output) => output,
        Err(refused) => {
            // Should the rollback fail too, the connection is lost, and the server rolls back what it had.
            if let Err(error) = transaction.rollback().await {
                tracing::debug!(%error, "rollback failed; the server will roll back when it sees the connection gone");
            }
            return Err(refused);
        }
    };
    failpoints::before_commit()?;
    transaction.commit().await.map_err(commit_failed)?;
    failpoints::after_commit()?;
    Ok(output)
}

/// A `COMMIT` that the server answered with an error did not happen; one that it did not answer may have.
fn commit_failed(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(_) => StoreError::from_driver("commit", error),
        lost => StoreError::OutcomeUnknown { source: lost.into() },
    }
}
