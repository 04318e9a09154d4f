//! The tables beside the journal: registry documents, content, audit log, idempotency keys and
//! settings.

pub(crate) mod audit;
pub(crate) mod content;
pub(crate) mod document;
pub(crate) mod idempotency;
pub(crate) mod setting;
pub(crate) mod token_use;
