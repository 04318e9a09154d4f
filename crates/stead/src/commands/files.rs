//! The files of a workspace, and blobs.

pub(super) mod apply;
pub(super) mod blob;
pub(super) mod cp;
pub(super) mod diff;
pub(super) mod export;
pub(super) mod restore;
pub(super) mod rewind;
pub(super) mod snapshot;
