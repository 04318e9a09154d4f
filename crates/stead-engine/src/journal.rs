//! Audit records, histories and exports of journals, and the cache of folded states.

pub(crate) mod audit;
pub mod exported;
pub(crate) mod history;
pub(crate) mod search_terms;
pub(crate) mod state_cache;
