//! This program: manual, completions, version.

pub(super) mod completions;
pub(super) mod man;
pub(super) mod openapi;
pub(super) mod version;
pub(super) mod welcome;
