//! The tables beside the journal: registry documents, content, audit log, idempotency keys, what
//! projects keep, and settings.

pub(crate) mod audit;
pub(crate) mod content;
pub(crate) mod document;
pub(crate) mod idempotency;
pub(crate) mod project_storage;
pub(crate) mod setting;
pub(crate) mod token_use;
