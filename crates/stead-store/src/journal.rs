//! The journal of each session: its hash chain, its only write, its session row, its verification.

pub mod chain;
pub(crate) mod commit;
pub(crate) mod reservations;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod usage_days;
pub(crate) mod verify;
