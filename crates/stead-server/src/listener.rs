//! Connections: their number, their timeouts, and the requests on each of them.

pub(crate) mod body_drain;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod door;
