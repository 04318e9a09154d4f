//! Operations on declarations and the server: agent types, projects, quotas, images, providers.

pub(super) mod access;
pub(super) mod agent_type;
pub(super) mod document;
pub(super) mod image;
pub(super) mod platform;
pub(super) mod pool;
pub(super) mod project;
pub(super) mod providers;
pub(super) mod quota;
pub(super) mod secret;
pub(super) mod setup_results;
pub(super) mod token;
