//! The operations of Stead, one file each, over the store and the providers.
//!
//! Every operation has the same steps: open the session, decide (pure, in `stead-core`), commit the
//! intent, perform the effect, record the outcome. Only a committed intent hands out an effect.
//! After a crash [`recover`](Engine::start) therefore finds every effect that may have happened,
//! and continues with the same code that does long work ([`reconcile`]).
//!
//! This crate reads no environment variables and no configuration files, and prints nothing.
//! Callers pass values. Only the `failpoints` feature, for tests, reads the environment.

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
