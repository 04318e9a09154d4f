//! Operations on content, prompts, digests and runs.

pub(super) mod digest;
pub(super) mod prompt;
pub(super) mod push_content;
pub(super) mod run;
pub(super) mod sync_content;
pub(super) mod versions;
