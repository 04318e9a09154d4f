//! A write that runs inside one transaction and happens completely or not at all.
//!
//! An operation never begins, commits or rolls back. On PostgreSQL `backend.rs` gives it its own
//! transaction, on SQLite `writer.rs` gives it a savepoint in a shared one. `run` may be called
//! again after a rollback, so it must change nothing but the database.

use std::future::Future;

use crate::database::sql::Conn;
use crate::error::StoreError;

pub(crate) trait Operation: Send + Sync + 'static {
    type Output: Send + 'static;
    type Error: Failure;
    const ACCESS: Access = Access::Shared;

    fn run(&self, conn: &mut Conn<'_>) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// The access of a write on PostgreSQL: concurrent with other writes, or exclusive. SQLite has one
/// writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Shared,
    Exclusive,
}

/// The error of an operation: its own refusal, or an error of the database.
pub(crate) trait Failure: From<StoreError> + Send + 'static {
    fn store_error(&self) -> Option<&StoreError>;
}

impl Failure for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

/// Returns true if PostgreSQL aborted this transaction because of another one, so that it must be
/// run again.
pub(crate) fn is_transient(error: &impl Failure) -> bool {
    let Some(StoreError::Unavailable { source, .. }) = error.store_error() else { return false };
    let Some(sqlx::Error::Database(cause)) = source.downcast_ref::<sqlx::Error>() else { return false };
    matches!(cause.code().as_deref(), Some("40001" | "40P01"))
}
