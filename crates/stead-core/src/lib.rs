//! Stead's nouns and rules.
//!
//! Everything here is a pure function of its arguments: no I/O, no async, no clock, no randomness. Time, ids and
//! the actor arrive as values. Start with [`command`] (everything anyone may ask), [`event`] (everything that can
//! have happened) and [`session`] (`decide` and `apply`, the whole behaviour).

pub mod id;
pub mod time;

pub use id::{CallId, Name, SessionId, WorkspaceId};
pub use time::Timestamp;
