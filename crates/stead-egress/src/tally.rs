//! Counts connections and bytes by host and port.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use stead_core::network::Phase;

/// Maximum number of destinations of a session. Others are counted together.
pub(crate) const MOST_DESTINATIONS: usize = 1_000;

/// Numbers since the last count was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    pub connections: u64,
    pub refused: u64,
    /// HTTP requests that the server read.
    pub requests: u64,
    /// Bytes that the box sent.
    pub bytes_out: u64,
    /// Bytes that the box received.
    pub bytes_in: u64,
}

/// The traffic with one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    pub phase: Phase,
    /// Name or address. Empty for all destinations beyond the maximum.
    pub host: String,
    pub port: u16,
    pub traffic: Traffic,
}

impl Traffic {
    fn plus(self, other: Self) -> Self {
        Self {
            connections: self.connections + other.connections,
            refused: self.refused + other.refused,
            requests: self.requests + other.requests,
            bytes_out: self.bytes_out + other.bytes_out,
            bytes_in: self.bytes_in + other.bytes_in,
        }
    }
}

/// Adds up two sorted lists, so that each destination is there once.
pub(crate) fn merged(one: Vec<Tally>, other: Vec<Tally>) -> Vec<Tally> {
    let mut sums: BTreeMap<Key, Traffic> = BTreeMap::new();
    for tally in one.into_iter().chain(other) {
        let sum = sums.entry((tally.phase, tally.host, tally.port)).or_default();
        *sum = sum.plus(tally.traffic);
    }
    sums.into_iter().map(|((phase, host, port), traffic)| Tally { phase, host, port, traffic }).collect()
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
}

impl Counters {
    fn take(&self) -> Traffic {
        Traffic {
            connections: self.connections.swap(0, Relaxed),
            refused: self.refused.swap(0, Relaxed),
            requests: self.requests.swap(0, Relaxed),
            bytes_out: self.bytes_out.swap(0, Relaxed),
            bytes_in: self.bytes_in.swap(0, Relaxed),
        }
    }
}

type Key = (Phase, String, u16);

#[derive(Debug, Default)]
pub(crate) struct Tallies(Mutex<HashMap<Key, Arc<Counters>>>);

impl Tallies {
    pub(crate) fn of(&self, phase: Phase, host: &str, port: u16) -> Arc<Counters> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = counted.get(&(phase, host.to_owned(), port)) {
            return known.clone();
        }
        let key =
            if counted.len() < MOST_DESTINATIONS { (phase, host.to_owned(), port) } else { (phase, String::new(), 0) };
        counted.entry(key).or_default().clone()
    }

    /// Returns what was counted since the last call, sorted.
    pub(crate) fn take(&self) -> Vec<Tally> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tallies: Vec<Tally> = counted
            .iter()
            .map(|((phase, host, port), counters)| Tally {
                phase: *phase,
                host: host.clone(),
                port: *port,
                traffic: counters.take(),
            })
            .filter(|tally| tally.traffic != Traffic::default())
            .collect();
        drop(counted);
        tallies.sort_by(|one, other| (one.phase, &one.host, one.port).cmp(&(other.phase, &other.host, other.port)));
        tallies
    }
}
