//! The operations of Stead, one file each, over the store and the providers.
//!
//! Every operation makes one trip: open the session, decide (pure, in `stead-core`), commit the intent, perform the effect, record the
//! outcome. Only a committed intent hands out an effect, so after a crash [`recover`](Engine::start) finds every effect that may have
//! happened, and goes on with the code that runs long work anyway ([`reconcile`]).
//!
//! This crate reads no environment, no configuration files and prints nothing: its callers hand it values.

mod audit;
mod bundle;
mod claim;
mod clock;
mod collect;
pub mod content;
mod digests;
mod ended;
mod engine;
mod error;
mod execs;
pub mod exported;
mod failpoint;
mod files;
mod git_tool;
mod guard;
mod history;
mod journal_size;
mod lanes;
mod open_session;
pub mod ops;
mod pause;
mod points;
mod pool;
mod readiness;
mod reap;
mod reconcile;
mod recover;
mod repository;
mod seals;
mod share;
mod token;
mod uploads;

pub use engine::{Engine, Settings, StartError};
pub use error::OpError;
pub use history::{Deed, DeedKind};
pub use pool::PoolReport;
