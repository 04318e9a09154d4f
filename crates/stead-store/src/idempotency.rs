//! Idempotency keys: which request made what, so that the same request made twice makes it once.
//!
//! A claim is inserted in the transaction of what it stands for. `ON CONFLICT DO NOTHING` waits for a concurrent claim of
//! the same key to commit or roll back, so two racing requests never both win and never both lose.

use stead_core::Timestamp;

use crate::chain::Hash;
use crate::commit::IdempotencyClaim;
use crate::error::StoreError;
use crate::operation::Operation;
use crate::sql::{Conn, values};

/// A key as a caller chose it, within the caller's own scope (who they are and what they asked for).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    pub scope: String,
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyRow {
    /// What the request said, hashed: the same key with another body is a mistake, not a repetition.
    pub body_hash: Hash,
    /// The id of what the request made.
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

/// A key that somebody has.
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

/// Takes the key, or says who has it.
pub(crate) async fn claim(conn: &mut Conn<'_>, claim: &IdempotencyClaim, at: Timestamp) -> Result<(), ClaimError> {
    // A second round only if the row that was in the way is forgotten between the two statements.
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
