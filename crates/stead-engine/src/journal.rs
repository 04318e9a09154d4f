//! What is read from journals and written with them: audit records, histories, exports.

pub(crate) mod audit;
pub mod exported;
pub(crate) mod history;
pub(crate) mod state_cache;
