//! What an agent is told of its workspace: a [`digest()`] of the tree, and the sections of a [`prompt`].
//!
//! A digest is made without a model and without a clock: the same tree gives the same bytes, whatever machine, backend or order its files
//! were made in. All limits are therefore counts (files, bytes, steps of a parser), never seconds.
//!
//! Everything in a tree is hostile. Files are looked at through a [`Survey`], which bounds what is read; manifests are read by
//! parsers that bound their own depth; the grammars, which are C, run in a process of their own that can do nothing but
//! compute ([`Parsers::Worker`]); and every text that ends up in a digest goes through [`text`], so that it cannot forge a heading, a
//! fence or a direction of writing.

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
