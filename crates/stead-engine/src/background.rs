//! Loops that run for the whole life of the server.

pub(crate) mod collect;
pub(crate) mod pool;
pub(crate) mod project_deletion;
pub(crate) mod reap;
pub(crate) mod seals;
