//! The one place that asks what time it is, and the one that draws ids.

use std::time::{SystemTime, UNIX_EPOCH};

use stead_core::Timestamp;

pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Fresh bits for an id: a UUIDv7, so that ids sort in order of creation.
pub(crate) fn id_bits() -> u128 {
    uuid::Uuid::now_v7().as_u128()
}
