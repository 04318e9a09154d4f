//! Turns a panic into an error, where an operation can still record it.
//!
//! An intent without an outcome stays open until the next start. Work between the two is therefore
//! guarded: a bug in a tool ends that call, and the journal records it.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;

use crate::error::OpError;

/// Runs work to its end. A panic becomes [`OpError::Panicked`]. The panic hook has logged its
/// message and position.
///
/// Unwind safety: shared state is behind mutexes and replaced as a whole, so a panic leaves no
/// half-made value behind.
pub(crate) async fn guard<T>(work: impl Future<Output = T>) -> Result<T, OpError> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| {
        tracing::error!("an operation panicked; its call is recorded as failed");
        OpError::Panicked
    })
}

/// The same for work that has an error of its own.
pub(crate) async fn guard_op<T>(work: impl Future<Output = Result<T, OpError>>) -> Result<T, OpError> {
    guard(work).await?
}
