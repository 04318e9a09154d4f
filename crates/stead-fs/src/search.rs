//! Searches files by name and lines by pattern, on any backend.
//!
//! Both use [`Filesystem::walk`](crate::Filesystem::walk), so results come in path order and are
//! the same on every backend. Invariant: a limited result is the first part of the whole result,
//! not a random part.

mod collector;
mod file_searcher;
mod filter;
mod gitignore;
mod glob;
mod grep;
mod matcher;
mod pattern;
mod working_tree;

pub use glob::{GlobFound, GlobQuery};
pub use grep::{Case, GrepFile, GrepFound, GrepMatch, GrepMode, GrepQuery, LineSpan};

pub(crate) use gitignore::PathIgnores;
pub(crate) use glob::glob;
pub(crate) use grep::grep;
pub(crate) use pattern::Pattern;
pub(crate) use working_tree::WorkingTree;

/// The treatment of names that start with a dot. A pattern that itself names one always finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hidden {
    #[default]
    Skipped,
    Included,
}
