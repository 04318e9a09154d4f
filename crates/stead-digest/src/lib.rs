//! Describes a workspace to an agent: a [`digest()`] of the tree, and the sections of a [`prompt`].
//!
//! The generator uses no model and no clock. The same tree gives the same bytes on every machine
//! and backend, in whatever order its files were created. So all limits are counts (files, bytes,
//! parser steps), never seconds.
//!
//! Everything in a tree is hostile:
//!
//! * A [`Survey`] bounds what is read.
//! * Parsers of manifests bound their own depth.
//! * The grammars are C code and run in a process that can only compute ([`Parsers::Worker`]).
//! * Every text in a digest goes through [`text`], so that it cannot forge a heading or a fence, or
//!   change the writing direction.

mod caveats;
mod commands;
mod entry_points;
mod generate;
mod language;
mod layout;
mod notes;
pub mod prompt;
mod render;
mod survey;
mod symbols;
pub mod text;

pub use generate::{Digest, DigestError, GENERATOR, digest};
pub use survey::{Survey, SurveyError};
pub use symbols::{Cache, Parsers, WORKER_ARGUMENT, serve_worker};
