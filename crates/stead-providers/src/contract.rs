//! The contract of providers and workspaces, and their errors.

pub(crate) mod error;
pub(crate) mod execs;
pub(crate) mod network;
pub(crate) mod ports;
pub(crate) mod provider;
pub(crate) mod setup_cache;
pub(crate) mod workspace;
