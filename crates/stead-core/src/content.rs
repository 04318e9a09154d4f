//! Agent content: prompt packs, tool catalogs, and the rules for adopting their versions.
//!
//! Content is a named, versioned tree of files that a client pushes. A session changes only through
//! events. A sync stages a version ([`snapshot`]), and an apply adopts it at a defined point
//! ([`mod@decide`], [`state`]). The adopted version and the messages determine the model request of
//! a step ([`materialize`]). Content only describes tools. The permission to run a call comes from
//! [`binding`] and the agent type, never from content.
//!
//! Everything in a content tree is untrusted until [`mod@compile`] has checked it.

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
