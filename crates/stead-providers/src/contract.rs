//! The contract of providers and workspaces, and their errors.

pub(crate) mod error;
pub(crate) mod execs;
pub(crate) mod ports;
pub(crate) mod provider;
pub(crate) mod workspace;
