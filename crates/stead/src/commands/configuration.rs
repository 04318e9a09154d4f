//! Commands for agent types, projects, the platform, images, plans, providers, warm pools, tokens
//! and logins.

pub(super) mod agent_type;
pub(super) mod config;
mod declarations;
pub(super) mod image;
pub(super) mod login;
pub(super) mod network;
pub(super) mod plan;
pub(super) mod platform;
pub(super) mod pool;
pub(super) mod project;
pub(super) mod providers;
pub(super) mod quota;
pub(super) mod secret;
pub(super) mod setup_cache;
pub(super) mod token;
pub(super) mod whoami;
