//! Looks up names outside, for names that a rule allows.
//!
//! One lookup serves all connections to a name for a few seconds. The addresses that it returns are
//! judged and dialled as they are, so a second lookup cannot replace a judged address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_core::network::HostName;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::Instant;

/// Time that the answer of a lookup is used.
const KEPT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of lookups at one time. Each occupies a thread.
const MOST_LOOKUPS: usize = 64;
/// Maximum number of addresses of a name. A name with more is not resolved.
const MOST_ADDRESSES: usize = 64;
const MOST_KEPT: usize = 4_096;

/// The reason why a name has no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unresolved {
    NoSuchName,
    Failed,
}

type Addresses = Result<Vec<IpAddr>, Unresolved>;

struct Lookup {
    begun: Instant,
    answer: OnceCell<Addresses>,
}

/// The lookups of a server.
pub(crate) struct Lookups {
    kept: Mutex<HashMap<HostName, Arc<Lookup>>>,
    slots: Semaphore,
}

impl Default for Lookups {
    fn default() -> Self {
        Self { kept: Mutex::default(), slots: Semaphore::new(MOST_LOOKUPS) }
    }
}

impl Lookups {
    /// Returns the addresses of a name, IPv4 first. `share` has the lookups that a session may make
    /// at one time.
    pub(crate) async fn addresses(&self, name: &HostName, share: &Semaphore) -> Addresses {
        let lookup = self.lookup(name);
        if let Some(known) = lookup.answer.get() {
            return known.clone();
        }
        let place = tokio::time::timeout(TIMEOUT, share.acquire()).await;
        let Ok(Ok(_place)) = place else { return Err(Unresolved::Failed) };
        lookup.answer.get_or_init(|| self.look_up(name)).await.clone()
    }

    fn lookup(&self, name: &HostName) -> Arc<Lookup> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() > MOST_KEPT {
            kept.retain(|_, lookup| lookup.begun.elapsed() < KEPT);
        }
        match kept.get(name) {
            Some(lookup) if lookup.begun.elapsed() < KEPT => lookup.clone(),
            _ => {
                let lookup = Arc::new(Lookup { begun: Instant::now(), answer: OnceCell::new() });
                kept.insert(name.clone(), lookup.clone());
                lookup
            }
        }
    }

    async fn look_up(&self, name: &HostName) -> Addresses {
        let work = async {
            let _slot = self.slots.acquire().await.map_err(|_| Unresolved::Failed)?;
            if let Some(addresses) = in_hosts_file(name).await {
                return Ok(addresses);
            }
            // The final dot keeps the resolver from trying other names, with a suffix.
            let absolute = if name.labels() > 1 { format!("{name}.") } else { name.to_string() };
            match tokio::net::lookup_host((absolute, 0)).await {
                Ok(found) => Ok(found.map(|address| address.ip()).collect()),
                Err(error) if is_absent(&error) => Err(Unresolved::NoSuchName),
                Err(_) => Err(Unresolved::Failed),
            }
        };
        let mut addresses = tokio::time::timeout(TIMEOUT, work).await.unwrap_or(Err(Unresolved::Failed))?;
        addresses.sort_by_key(IpAddr::is_ipv6);
        addresses.dedup();
        match addresses.len() {
            0 => Err(Unresolved::NoSuchName),
            1..=MOST_ADDRESSES => Ok(addresses),
            _ => Err(Unresolved::Failed),
        }
    }
}

/// Returns true if the resolver says that the name does not exist, not that it could not find out.
fn is_absent(error: &std::io::Error) -> bool {
    let text = error.to_string();
    text.contains("Name or service not known") || text.contains("No address associated") || text.contains("not found")
}

/// Returns the addresses of a name in the server's own `/etc/hosts`.
async fn in_hosts_file(name: &HostName) -> Option<Vec<IpAddr>> {
    let text = tokio::fs::read_to_string("/etc/hosts").await.ok()?;
    let addresses: Vec<IpAddr> = text.lines().filter_map(|line| address_of(line, name)).collect();
    (!addresses.is_empty()).then_some(addresses)
}

fn address_of(line: &str, name: &HostName) -> Option<IpAddr> {
    let mut words = line.split('#').next()?.split_ascii_whitespace();
    let address = words.next()?.parse().ok()?;
    words.any(|word| word.parse::<HostName>().is_ok_and(|listed| listed == *name)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_is_read() {
        let name = "db.example".parse().unwrap();
        assert_eq!(address_of("10.0.0.9 other DB.example # db.example", &name), Some("10.0.0.9".parse().unwrap()));
        for line in ["10.0.0.9 other # db.example", "# 10.0.0.9 db.example", "", "10.0.0.9", "x db.example"] {
            assert_eq!(address_of(line, &name), None, "{line}");
        }
    }
}
