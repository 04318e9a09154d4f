//! Types and rules of Stead.
//!
//! Everything here is a pure function of its arguments: no I/O, no async, no clock, no randomness.
//! Time, ids and the actor are arguments. Start with [`command`] (all requests), [`event`] (the
//! journal format), [`mod@decide`] (the rules) and [`session`] (`apply`: the fold of the journal).

pub mod actor;
pub mod audit_kind;
pub mod box_facts;
pub mod canonical;
pub mod capability;
pub mod clock_history;
pub mod command;
pub mod config;
pub mod content;
pub mod decide;
pub mod digest;
pub mod env;
pub mod event;
pub mod exec;
mod file_operation;
mod fingerprint;
pub mod git_push;
pub mod id;
pub mod image;
pub mod network;
pub mod parse;
pub mod plan;
pub mod policy;
mod public_address;
pub mod quantity;
pub mod registry;
pub mod rejection;
pub mod remote;
pub mod repository;
pub mod request;
pub mod resource;
pub mod rewind;
pub mod session;
pub mod settled;
pub mod spec;
pub mod time;
pub mod timeline;
pub mod tool;

pub use actor::Actor;
pub use audit_kind::AuditKind;
pub use command::{Command, Effect, Outcome, Step};
pub use decide::{conclude, conclude_onward, decide, decide_and_conclude, decide_onward, may_use_exec, next};
pub use event::{Event, Recorded};
pub use id::{CallId, ExecId, Name, RunId, SessionId, SnapshotId, WorkspaceId};
pub use rejection::Rejection;
pub use resource::Resource;
pub use session::{Session, State, Status, apply};
pub use time::Timestamp;
