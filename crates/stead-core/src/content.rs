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
pub mod binding;
pub mod compile;
pub mod conclude;
pub mod decide;
pub mod event;
pub mod gate;
pub mod model_request;
pub mod profile;
pub mod refusal;
pub mod resource;
pub mod run;
pub mod snapshot;
pub mod state;

pub use access::{Authority, ContentConfig};
pub use compile::catalog::Descriptor;
pub use compile::fault::{Fault, SyncFault};
pub use compile::path::ContentPath;
pub use compile::{Compiled, Progress, Source, catalog, compile, fault, index, json, pack, path, schema};
pub use event::{ApplyMode, SyncTarget};
pub use model_request::materialize::{
    materialize_llm_generate_params_with_workspace, materialize_workspace_step_inputs,
};
pub use model_request::message::{Message, Role};
pub use model_request::part::Part;
pub use model_request::{anthropic, materialize, message, openai, options, part};
pub use refusal::Refusal;
pub use snapshot::{Snapshot, SnapshotRef};
pub use state::ContentState;
