//! Types and rules of Stead.
//!
//! Everything here is a pure function of its arguments: no I/O, no async, no clock, no randomness.
//! Time, ids and the actor are arguments. Start with [`command`] (all requests), [`event`] (the
//! journal format), [`mod@decide`] (the rules) and [`session`] (`apply`: the fold of the journal).

pub mod canonical;
pub mod command;
pub mod config;
pub mod content;
pub mod content_hash;
pub mod decide;
pub mod event;
pub mod id;
pub mod identity;
pub mod network;
pub mod parse;
pub mod record;
pub mod rejection;
pub mod repository;
pub mod resource;
pub mod schema;
pub mod session;
pub mod spec;
pub mod time;

pub use command::{Command, Effect, Outcome, Step};
pub use config::{admission, capability, env, image, quantity, quota, registry, request, setup_cache, tool, usage};
pub use content_hash::ContentHash;
pub use decide::{conclude, conclude_with_next, decide, decide_and_conclude, decide_with_next, may_use_exec, next};
pub use event::{Event, Recorded};
pub use id::{CallId, ExecId, Name, RunId, SessionId, SnapshotId, TokenId, WorkspaceId};
pub use identity::{Actor, AuditKind, secret};
pub use rejection::Rejection;
pub use repository::{git_push, remote, resolved_commit};
pub use resource::Resource;
pub use session::{Session, State, Status, box_facts, digest, exec, fold, pause, rewind, timeline};
pub use spec::{plan, policy};
pub use time::{Day, Timestamp, clock_history};
