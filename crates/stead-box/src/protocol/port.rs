//! TCP ports of servers in the box.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A port that a program in the box listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListeningPort {
    pub port: u16,
    /// Address that the program is bound to. It is reachable from loopback.
    pub address: IpAddr,
}
