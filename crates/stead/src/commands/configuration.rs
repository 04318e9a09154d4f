//! Agent types, projects, the platform, and what they configure.

pub(super) mod agent_type;
pub(super) mod image;
pub(super) mod plan;
pub(super) mod platform;
pub(super) mod pool;
pub(super) mod project;
pub(super) mod providers;
pub(super) mod token;
