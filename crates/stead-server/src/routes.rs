//! The handlers, one file per resource. Each handler parses its request, makes one engine call and
//! converts the result to its API type.

pub(crate) mod agent_types;
pub(crate) mod audit;
pub(crate) mod blobs;
pub(crate) mod clones;
pub(crate) mod content;
pub(crate) mod diff;
pub(crate) mod digests;
pub(crate) mod events;
pub(crate) mod execs;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod images;
pub(crate) mod paging;
pub(crate) mod platform;
pub(crate) mod pool;
pub(crate) mod projects;
pub(crate) mod prompts;
pub(crate) mod providers;
pub(crate) mod rewind;
pub(crate) mod runs;
pub(crate) mod sessions;
pub(crate) mod snapshots;
pub(crate) mod tools;
pub(crate) mod usage;
