//! What clients get, and how it is made from what the engine knows. One file per noun; each conversion is total.

pub(crate) mod agent_type;
pub(crate) mod audit;
pub(crate) mod content;
pub(crate) mod digest;
pub(crate) mod event;
pub(crate) mod exec;
pub(crate) mod file;
pub(crate) mod image;
pub(crate) mod list;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod provider;
pub(crate) mod provisioning;
pub(crate) mod replay;
pub(crate) mod rewind;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod tool;
pub(crate) mod usage;
pub(crate) mod workspace;
