//! Operations on declarations and the server: agent types, projects, images, providers.

pub(super) mod agent_type;
pub(super) mod document;
pub(super) mod image;
pub(super) mod platform;
pub(super) mod pool;
pub(super) mod project;
pub(super) mod providers;
