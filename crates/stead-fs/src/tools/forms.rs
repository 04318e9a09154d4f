//! Further forms of the tools, for presentations in the shapes that other servers and models use.
//!
//! They have the rights and limits of the tool whose form they are.

pub(super) mod edits;
pub(super) mod raw;
pub(super) mod str_replace;
pub(super) mod tree;
