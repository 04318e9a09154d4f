//! The handlers, one file per resource. Those of a session are in `sessions/`. Each handler parses
//! its request, makes one engine call and converts the result to its API type.

pub(crate) mod agent_types;
pub(crate) mod audit;
pub(crate) mod blobs;
pub(crate) mod content;
pub(crate) mod health;
pub(crate) mod images;
pub(crate) mod page;
pub(crate) mod paging;
pub(crate) mod platform;
pub(crate) mod pool;
pub(crate) mod projects;
pub(crate) mod providers;
pub(crate) mod quotas;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod setup_results;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod usage;
