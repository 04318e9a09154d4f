//! What every provider and every workspace promises, and how they fail.

pub(crate) mod error;
pub(crate) mod execs;
pub(crate) mod provider;
pub(crate) mod workspace;
