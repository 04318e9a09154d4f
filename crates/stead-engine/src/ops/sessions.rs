//! Operations on sessions as a whole.

pub(super) mod change_network;
pub(super) mod clone_session;
pub(super) mod close_session;
pub(super) mod create_session;
pub(super) mod network;
pub(super) mod pause_session;
pub(super) mod plan_session;
pub(super) mod port;
pub(super) mod session;
pub(super) mod update_session;
pub(super) mod usage;
pub(super) mod usage_history;
