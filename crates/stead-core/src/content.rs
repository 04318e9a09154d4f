//! Agent content: prompt packs, tool catalogs, and when a session adopts which version of them.
//!
//! Content is a named, versioned tree of files that somebody outside pushes. A session changes only through events: a sync stages a
//! version ([`snapshot`]), an apply adopts it at a stated point ([`mod@decide`], [`state`]). What a step of a run sends to a model is a function of the
//! adopted version and of what was said ([`materialize`]). Content describes tools; whether a call may run is the business of [`binding`] and of the agent
//! type, never of the content.
//!
//! Everything in a content tree is hostile until [`mod@compile`] has read it.

pub mod access;
pub mod anthropic;
pub mod binding;
pub mod catalog;
pub mod compile;
pub mod conclude;
pub mod decide;
pub mod event;
pub mod fault;
pub mod index;
pub mod json;
pub mod materialize;
pub mod message;
pub mod openai;
pub mod options;
pub mod pack;
pub mod path;
pub mod profile;
pub mod refusal;
pub mod run;
pub mod schema;
pub mod snapshot;
pub mod state;

pub use access::{Authority, ContentConfig};
pub use catalog::Descriptor;
pub use compile::{Compiled, Progress, Source, compile};
pub use event::{ApplyMode, SyncTarget};
pub use fault::{Fault, SyncFault};
pub use materialize::{materialize_llm_generate_params_with_workspace, materialize_workspace_step_inputs};
pub use message::{Message, Part, Role};
pub use path::ContentPath;
pub use refusal::Refusal;
pub use snapshot::{Snapshot, SnapshotRef};
pub use state::ContentState;
