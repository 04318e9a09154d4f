//! Places where tests can make this crate fail or stop. Without the feature `failpoints` every
//! function here is empty.

use crate::error::StoreError;

/// Before an audit row is written: `store.audit`.
pub(crate) fn audit() -> Result<(), StoreError> {
    fail::fail_point!("store.audit", |_| Err(StoreError::Unavailable {
        doing: "write the audit log",
        source: "the fail point store.audit is on".into()
    }));
    Ok(())
}

/// All rows are written but not durable: `store.commit.before`.
pub(crate) fn before_commit() -> Result<(), StoreError> {
    fail::fail_point!("store.commit.before", |_| Err(StoreError::Unavailable {
        doing: "commit",
        source: "the fail point store.commit.before is on".into()
    }));
    Ok(())
}

/// All rows are durable but no caller was answered: `store.commit.after`. An error here means an
/// unknown outcome for the caller.
pub(crate) fn after_commit() -> Result<(), StoreError> {
    fail::fail_point!("store.commit.after", |_| Err(StoreError::OutcomeUnknown {
        source: "the fail point store.commit.after is on".into()
    }));
    Ok(())
}

/// The files of blobs are removed and the records of their uploads are not: `store.blobs.removed`.
pub(crate) fn removed_blobs() {
    fail::fail_point!("store.blobs.removed");
}
