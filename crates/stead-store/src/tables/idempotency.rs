//! Idempotency keys, so that a repeated request has an effect only once.
//!
//! A claim is inserted in the transaction of the write it belongs to. `ON CONFLICT DO NOTHING`
//! waits for a concurrent claim of the same key to commit or roll back. Of two concurrent requests,
//! exactly one wins.

use stead_core::Timestamp;

use crate::database::operation::Operation;
use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::journal::chain::Hash;
use crate::journal::commit::IdempotencyClaim;

/// A key from a caller, within the caller's own scope (the actor and the kind of request).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    pub scope: String,
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRow {
    /// Hash of the request's body. The same key with another body is an error and not a repetition.
    pub body_hash: Hash,
    /// The id of the item that the request created.
    pub target: String,
    pub at: Timestamp,
}

pub(crate) async fn select(conn: &mut Conn<'_>, key: &IdempotencyKey) -> Result<Option<IdempotencyRow>, StoreError> {
    let row: Option<(Vec<u8>, String, i64)> = conn
        .optional(
            "read an idempotency key",
            "SELECT body_hash, target, at FROM idempotency WHERE scope = $1 AND key = $2",
            values![key.scope.clone(), key.key.clone()],
        )
        .await?;
    let Some((body_hash, target, at)) = row else { return Ok(None) };
    let body_hash = Hash::try_from(body_hash.as_slice()).map_err(|error| StoreError::corrupt("hash", error))?;
    Ok(Some(IdempotencyRow { body_hash, target, at: Timestamp::from_millis(at) }))
}

/// The reason why a key cannot be claimed.
pub(crate) enum ClaimError {
    Replay(IdempotencyRow),
    Mismatch(IdempotencyRow),
    Store(StoreError),
}

impl From<StoreError> for ClaimError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Claims the key, or returns the existing claim.
pub(crate) async fn claim(conn: &mut Conn<'_>, claim: &IdempotencyClaim, at: Timestamp) -> Result<(), ClaimError> {
    // Repeated only if the conflicting row is deleted between the two statements.
    loop {
        let inserted = conn
            .execute(
                "claim an idempotency key",
                "INSERT INTO idempotency (scope, key, body_hash, target, at) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (scope, key) DO NOTHING",
                values![claim.key.scope.clone(), claim.key.key.clone(), claim.body_hash, claim.target.clone(), at],
            )
            .await?;
        if inserted == 1 {
            return Ok(());
        }
        match select(conn, &claim.key).await? {
            Some(row) if row.body_hash == claim.body_hash => return Err(ClaimError::Replay(row)),
            Some(row) => return Err(ClaimError::Mismatch(row)),
            None => {}
        }
    }
}

pub(crate) struct ForgetBefore(pub(crate) Timestamp);

impl Operation for ForgetBefore {
    type Output = u64;
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<u64, StoreError> {
        conn.execute("forget idempotency keys", "DELETE FROM idempotency WHERE at < $1", values![self.0]).await
    }
}
