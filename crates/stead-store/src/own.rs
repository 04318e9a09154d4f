//! One server per store.
//!
//! SQLite's file is guarded by the lock on the home it lives in. A PostgreSQL database can be reached from anywhere, so a server holds an
//! advisory lock on it for as long as its connection lives; the database lets go of it when the process dies, however it dies.

use std::time::{Duration, Instant};

use sqlx::PgConnection;

use crate::backend::{Backend, Reader};
use crate::error::StoreError;
use crate::sql::{Conn, values};

const OWNER_LOCK: i64 = 0x73_74_65_61_64_02;
/// A server that was just killed may still be known to the database for a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// The right to work on a store; given up when dropped.
#[derive(Debug)]
pub struct Ownership {
    _connection: Option<PgConnection>,
}

/// `None`: another server works on this store.
pub(crate) async fn own(backend: &Backend) -> Result<Option<Ownership>, StoreError> {
    let mut connection = match backend.reader().await? {
        Reader::Sqlite(_) => return Ok(Some(Ownership { _connection: None })),
        // Not the pool's any more: it must live as long as the ownership does.
        Reader::Postgres(connection) => connection.detach(),
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let taken: Option<(bool,)> = Conn::Postgres(&mut connection)
            .optional("take the store", "SELECT pg_try_advisory_lock($1)", values![OWNER_LOCK])
            .await?;
        if taken.is_some_and(|(taken,)| taken) {
            return Ok(Some(Ownership { _connection: Some(connection) }));
        }
        if Instant::now() > deadline {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
