//! Agent content, the runs that use it, and the prompt sections about a workspace.

pub(super) mod apply_content;
pub(super) mod content;
pub(super) mod digest;
pub(super) mod prompt;
pub(super) mod runs;
pub(super) mod sync;
