//! One session, box or client cannot use up what others need.

mod allowances;
mod client_fairness;
mod memory_limit;
pub(in crate::rows) mod ordinary_user;
mod processes;
mod sockets;
mod stream_fairness;
