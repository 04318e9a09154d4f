//! The server: start, stop, health and maintenance.

pub(super) mod audit;
pub(super) mod doctor;
pub(super) mod gc;
pub(super) mod open;
pub(super) mod serve;
pub(super) mod status;
pub(super) mod stop;
pub(super) mod up;
pub(super) mod usage;
pub(super) mod verify;
