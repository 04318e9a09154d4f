//! Finding files by name and lines by pattern, over any backend.
//!
//! Both stand on [`Filesystem::walk`](crate::Filesystem::walk), so results come in the order of their paths and are the same on
//! every backend. The invariant: a capped answer is the first part of the whole answer, not a random part of it.

mod filter;
mod gitignore;
mod glob;
mod grep;
mod line;
mod matcher;
mod pattern;

pub use glob::{GlobFound, GlobQuery};
pub use grep::{Case, GrepFound, GrepMatch, GrepQuery};

pub(crate) use glob::glob;
pub(crate) use grep::grep;
pub(crate) use pattern::Pattern;

/// Whether names that start with a dot are looked at. A pattern that itself names one always finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hidden {
    #[default]
    Skipped,
    Included,
}
