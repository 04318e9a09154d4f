//! Where tests may make this crate fail or stop. Without the feature `failpoints` every function here is empty.

use crate::error::StoreError;

#[cfg(feature = "failpoints")]
fn injected(point: &str) -> StoreError {
    StoreError::Unavailable { doing: "pass a fail point", source: format!("the fail point {point} is on").into() }
}

/// Before an audit row is written: `store.audit`.
pub(crate) fn audit() -> Result<(), StoreError> {
    fail::fail_point!("store.audit", |_| Err(injected("store.audit")));
    Ok(())
}

/// Everything is written, nothing is durable: `store.commit.before`.
pub(crate) fn before_commit() -> Result<(), StoreError> {
    fail::fail_point!("store.commit.before", |_| Err(injected("store.commit.before")));
    Ok(())
}

/// Everything is durable, nobody was told: `store.commit.after`. An error here is an unknown outcome to the caller.
pub(crate) fn after_commit() -> Result<(), StoreError> {
    fail::fail_point!("store.commit.after", |_| Err(StoreError::OutcomeUnknown {
        source: "the fail point store.commit.after is on".into()
    }));
    Ok(())
}
