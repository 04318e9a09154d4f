//! One session, box or client cannot use up what others need.

mod allowances;
mod client_fairness;
mod memory_limit;
mod ordinary_user;
mod processes;
mod sockets;
mod stream_fairness;
