//! Sessions and their journals.

pub(super) mod blame;
mod clone;
pub(super) mod events;
mod lifecycle;
pub(super) mod replay;
pub(super) mod session;
pub(super) mod state;
