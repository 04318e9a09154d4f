//! What a session's box reached and was refused, folded from its journal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::declared::{NetworkRule, RuleProtocol};
use super::judge::{MatchedRule, Treatment};
use super::refusal::RefusalCode;
use super::{Layer, Phase};
use crate::event::Event;

/// Maximum number of hosts that the state keeps, of each kind.
const MOST_HOSTS: usize = 1_000;

/// The first connection to a host and port in a phase by these rules, recorded before its first
/// byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedContact {
    pub phase: Phase,
    /// Name, address, or the name of a service inside the box.
    pub host: String,
    pub port: u16,
    pub protocol: RuleProtocol,
    pub how: Treatment,
    /// The first matching rule of each layer.
    pub rules: Vec<MatchedRule>,
}

/// The first refusal of a host, port and reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedContact {
    pub phase: Phase,
    pub host: String,
    /// 0 if the name was refused before any connection.
    pub port: u16,
    pub why: RefusalCode,
    /// The layer that has no rule for it, or that denies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// The rule that denies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// A rule that would allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft: Option<NetworkRule>,
}

/// Connections and bytes since the last count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TalliedTraffic {
    pub hosts: Vec<HostTraffic>,
    pub window: Window,
}

crate::parse::words!(
    /// What follows a count of traffic.
    Window, "network window", {
        /// Connections may still be open.
        Open = "open",
        /// Every connection was closed.
        Closed = "closed",
        /// The server ended without a count, so the bytes since the last count are not known.
        Uncounted = "uncounted",
    }
);

/// The traffic with one host and port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTraffic {
    pub phase: Phase,
    /// Empty for all hosts beyond the maximum.
    pub host: String,
    pub port: u16,
    pub connections: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// HTTP requests to a service.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests: u64,
    /// Bytes that the box sent.
    pub bytes_out: u64,
    /// Bytes that the box received.
    pub bytes_in: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a session's box reached and was refused. Keys are `host:port`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkUse {
    pub used: BTreeMap<String, UsedHost>,
    pub refused: BTreeMap<String, RefusedContact>,
    /// Bytes that the box sent in total.
    pub bytes_out: u64,
    /// Some bytes were not counted, because the server ended without a count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncounted: bool,
    /// Connections may be open, so that a count is still to come.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// A host that the box connected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedHost {
    pub host: String,
    pub port: u16,
    pub connections: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
}

impl NetworkUse {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the server may have ended without a count.
    pub fn may_be_uncounted(&self) -> bool {
        self.open
    }

    fn used(&mut self, host: &str, port: u16) -> Option<&mut UsedHost> {
        let key = format!("{host}:{port}");
        if !self.used.contains_key(&key) && self.used.len() >= MOST_HOSTS {
            return None;
        }
        let new = || UsedHost { host: host.to_owned(), port, connections: 0, bytes_out: 0, bytes_in: 0 };
        Some(self.used.entry(key).or_insert_with(new))
    }
}

/// Folds an event. Returns false if it is not about the use of the network.
pub(crate) fn fold(known: &mut std::sync::Arc<NetworkUse>, event: &Event) -> bool {
    match event {
        Event::NetworkOpened(opened) => {
            let known = std::sync::Arc::make_mut(known);
            known.used(&opened.host, opened.port);
            known.open = true;
        }
        Event::NetworkRefused(refused) => {
            let known = std::sync::Arc::make_mut(known);
            if known.refused.len() < MOST_HOSTS {
                let key = format!("{}:{}:{}", refused.host, refused.port, refused.why);
                known.refused.entry(key).or_insert_with(|| refused.clone());
            }
        }
        Event::NetworkTallied(tallied) => {
            let known = std::sync::Arc::make_mut(known);
            known.open = tallied.window == Window::Open;
            known.uncounted |= tallied.window == Window::Uncounted;
            for traffic in &tallied.hosts {
                known.bytes_out = known.bytes_out.saturating_add(traffic.bytes_out);
                if traffic.connections == 0 && traffic.bytes_out == 0 && traffic.bytes_in == 0 {
                    continue;
                }
                if let Some(used) = known.used(&traffic.host, traffic.port) {
                    used.connections = used.connections.saturating_add(traffic.connections);
                    used.bytes_out = used.bytes_out.saturating_add(traffic.bytes_out);
                    used.bytes_in = used.bytes_in.saturating_add(traffic.bytes_in);
                }
            }
        }
        _ => return false,
    }
    true
}
