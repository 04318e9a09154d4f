//! Connects to judged addresses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use stead_core::network::{AddressReach, HostName, RefusalCode, judge_address};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::own_addresses;
use crate::resolve::{Lookups, Unresolved};

/// Timeout of all attempts to connect.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Delay before the next address is tried as well.
const NEXT_AFTER: Duration = Duration::from_millis(250);

/// A host outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Name(HostName),
    Address(IpAddr),
}

/// Connects to hosts outside, for a whole server.
#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) lookups: Lookups,
}

impl Outside {
    /// Connects to a host. If one of its addresses is not allowed, none is used: the owner of a
    /// name must not choose which of them is judged.
    pub(crate) async fn connect(
        &self,
        host: &Host,
        port: u16,
        reach: AddressReach,
        share: &Semaphore,
    ) -> Result<TcpStream, RefusalCode> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.lookups.addresses(name, share).await.map_err(|unresolved| match unresolved {
                Unresolved::NoSuchName => RefusalCode::NotFound,
                Unresolved::Failed => RefusalCode::Unreachable,
            })?,
        };
        let own = own_addresses::read();
        for address in &addresses {
            judge_address(*address, reach, &own)?;
        }
        let attempts = first_of(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect());
        let stream = timeout(TIMEOUT, attempts).await.ok().flatten().ok_or(RefusalCode::Unreachable)?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// Tries the addresses in order, the next one when one fails or is slow. Returns the first
/// connection.
async fn first_of(addresses: Vec<SocketAddr>) -> Option<TcpStream> {
    let mut attempts = JoinSet::new();
    let mut rest = addresses.into_iter();
    loop {
        let more = rest.next().map(|address| attempts.spawn(TcpStream::connect(address))).is_some();
        if attempts.is_empty() {
            return None;
        }
        let joined =
            if more { timeout(NEXT_AFTER, attempts.join_next()).await } else { Ok(attempts.join_next().await) };
        if let Ok(Some(Ok(Ok(stream)))) = joined {
            return Some(stream);
        }
    }
}
