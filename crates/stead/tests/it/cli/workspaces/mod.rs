//! Commands that work on a session: files, execs, evaluation, content, images.

mod blobs;
mod content;
mod eval;
mod execs;
mod files;
mod follow;
mod images;
mod mcp_sessions;
mod rewind;
