//! The connections of one session.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use stead_core::Timestamp;
use stead_core::network::{
    AddressReach, Contact, Destination, Grant, HostName, MatchedRule, NetworkSpec, Phase, Refusal, RefusalCode,
    RequestAllowance, TrustFiles, Verdict, judge, judge_request,
};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio::task::JoinHandle;

use crate::connection;
use crate::dial::{Host, Outside};
use crate::http::{self, InvalidRoots};
use crate::inspection::{self, Authority, AuthorityError};
use crate::limits::Bucket;
use crate::names::{Names, is_made_up};
use crate::record::{Opened, Record, Refused, Unrecorded};
use crate::resolver;
use crate::tally::{self, MOST_DESTINATIONS, Tallies, Tally};

/// Maximum number of connections of all sessions together.
const MOST_CONNECTIONS: usize = 4_096;
/// Maximum number of lookups of one session at one time.
const MOST_SESSION_LOOKUPS: usize = 8;
/// Number of refusals that are remembered for the answers of calls.
const REMEMBERED_REFUSALS: usize = 256;

/// What all sessions of a server share.
pub struct EgressServer {
    pub(crate) outside: Outside,
    pub(crate) slots: Semaphore,
    extra_roots: Vec<CertificateDer<'static>>,
    tls: OnceCell<Arc<ClientConfig>>,
}

impl Default for EgressServer {
    fn default() -> Self {
        Self {
            outside: Outside::default(),
            slots: Semaphore::new(MOST_CONNECTIONS),
            extra_roots: Vec::new(),
            tls: OnceCell::new(),
        }
    }
}

impl EgressServer {
    /// Trusts the certificates of a PEM file besides the roots of the system.
    pub fn with_roots(pem: &[u8]) -> Result<Self, InvalidRoots> {
        Ok(Self { extra_roots: http::read_roots(pem)?, ..Self::default() })
    }

    /// Returns the settings of TLS. The roots of the system are read at the first use.
    pub(crate) async fn tls(&self) -> Result<Arc<ClientConfig>, RefusalCode> {
        let read = || async {
            let roots = self.extra_roots.clone();
            let made = tokio::task::spawn_blocking(move || http::client_config(roots)).await;
            made.ok()?.inspect_err(|error| tracing::error!(%error, "cannot prepare TLS to hosts outside")).ok()
        };
        self.tls
            .get_or_try_init(|| async { read().await.ok_or(()) })
            .await
            .cloned()
            .map_err(|()| RefusalCode::Certificate)
    }
}

impl EgressServer {
    /// Returns the files that make a box trust the authority, and everything that the server
    /// trusts: these files replace the roots that programs in the box would use otherwise.
    pub async fn trust_files(&self, authority: &Authority) -> Result<TrustFiles, AuthorityError> {
        let mut certificates = tokio::task::spawn_blocking(http::system_roots).await.unwrap_or_default();
        if certificates.is_empty() {
            tracing::warn!("the system has no root certificates, so boxes with inspected hosts trust only those");
        }
        certificates.extend(self.extra_roots.iter().cloned());
        certificates.push(authority.certificate()?);
        Ok(inspection::trust_files(&certificates))
    }
}

/// The sockets that a box lent, without blocking.
#[derive(Debug)]
pub struct Sockets {
    /// Listener of every TCP connection of the box.
    pub capture: std::net::TcpListener,
    /// The box's resolver, over UDP and over TCP.
    pub datagrams: std::net::UdpSocket,
    pub streams: std::net::TcpListener,
}

/// The policy of a session as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub phase: Phase,
    pub spec: NetworkSpec,
    /// Grants that have ended have no effect.
    pub grants: Vec<Grant>,
}

impl Policy {
    /// Judges a contact now.
    pub fn judge(&self, contact: &Contact) -> Verdict {
        judge(&self.spec, self.phase, &self.grants_in_force(), contact)
    }

    /// Judges a request on an allowed connection now.
    pub(crate) fn judge_request(
        &self,
        contact: &Contact,
        method: &str,
        target: &str,
    ) -> Result<RequestAllowance, Refusal> {
        judge_request(&self.spec, self.phase, &self.grants_in_force(), contact, method, target)
    }

    fn grants_in_force(&self) -> Vec<Grant> {
        let now = now();
        self.grants.iter().filter(|grant| now < grant.until).cloned().collect()
    }

    /// Returns the time until the next grant ends.
    fn next_end(&self) -> Option<Duration> {
        let now = now();
        let left = self.grants.iter().filter(|grant| now < grant.until);
        left.map(|grant| Duration::from_millis((grant.until.millis() - now.millis()).max(0).cast_unsigned())).min()
    }
}

fn now() -> Timestamp {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// Limits of all connections of a session together.
pub(crate) struct Budget {
    pub(crate) out: Bucket,
    pub(crate) inwards: Bucket,
    most_out: Option<u64>,
    spent: AtomicU64,
}

impl Budget {
    /// Spends bytes of the total that the box may send.
    pub(crate) fn spend(&self, count: u64) -> Result<(), RefusalCode> {
        let before = self.spent.fetch_add(count, Relaxed);
        match self.most_out {
            Some(most) if before.saturating_add(count) > most => Err(RefusalCode::TooManyBytes),
            _ => Ok(()),
        }
    }
}

/// The connections of one session. Cheap to clone.
#[derive(Clone)]
pub struct Egress(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) server: Arc<EgressServer>,
    pub(crate) policy: watch::Sender<Arc<Policy>>,
    pub(crate) record: Arc<dyn Record>,
    pub(crate) budget: Budget,
    pub(crate) starts: Bucket,
    /// Requests per minute.
    pub(crate) requests: Option<Bucket>,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) tallies: Tallies,
    authority: OnceCell<Arc<Authority>>,
    /// Apart, so that many refused destinations leave room for those that are used.
    refused_tallies: Tallies,
    /// Lookups of this session at one time, so that slow names delay no other session.
    pub(crate) lookups: Semaphore,
    recorded: tokio::sync::Mutex<BTreeSet<(Phase, Contact, Vec<MatchedRule>)>>,
    refusals: Mutex<Refusals>,
}

#[derive(Default)]
struct Refusals {
    /// The recorded destinations of each reason. A flood of one reason leaves room for the others.
    recorded: HashMap<RefusalCode, HashSet<(String, u16)>>,
    latest: VecDeque<Refused>,
    /// Number of all refusals.
    count: u64,
}

/// The service of one box. Dropping it closes its sockets and its connections, so that the box's
/// network can go.
pub struct Serving {
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The box that a connection or a question comes from.
pub(crate) struct FromBox {
    pub(crate) shared: Arc<Shared>,
    names: Mutex<Names>,
}

impl Egress {
    /// `bytes_out` is what the session sent before, which counts towards its limit.
    pub fn new(server: Arc<EgressServer>, policy: Policy, record: Arc<dyn Record>, bytes_out: u64) -> Self {
        let limits = &policy.spec.limits;
        let budget = Budget {
            out: Bucket::new(limits.bytes_per_second),
            inwards: Bucket::new(limits.bytes_per_second),
            most_out: limits.bytes_out,
            spent: AtomicU64::new(bytes_out),
        };
        let requests = limits.requests_per_minute.map(Bucket::per_minute);
        let (starts, slots) = (Bucket::new(limits.connections_per_second), limits.connections);
        let slots = Arc::new(Semaphore::new(usize::try_from(slots).unwrap_or(MOST_CONNECTIONS).min(MOST_CONNECTIONS)));
        Self(Arc::new(Shared {
            server,
            policy: watch::Sender::new(Arc::new(policy)),
            record,
            budget,
            starts,
            requests,
            slots,
            tallies: Tallies::default(),
            authority: OnceCell::new(),
            refused_tallies: Tallies::default(),
            lookups: Semaphore::new(MOST_SESSION_LOOKUPS),
            recorded: tokio::sync::Mutex::default(),
            refusals: Mutex::default(),
        }))
    }

    /// Serves a box until the value is dropped. Needs a runtime.
    pub fn serve(&self, sockets: Sockets) -> std::io::Result<Serving> {
        let from = Arc::new(FromBox { shared: self.0.clone(), names: Mutex::default() });
        let capture = TcpListener::from_std(sockets.capture)?;
        let datagrams = UdpSocket::from_std(sockets.datagrams)?;
        let streams = TcpListener::from_std(sockets.streams)?;
        let tasks = vec![
            tokio::spawn(connection::accept(from.clone(), capture)),
            tokio::spawn(resolver::serve_datagrams(from.clone(), datagrams)),
            tokio::spawn(resolver::serve_streams(from, streams)),
        ];
        Ok(Serving { tasks })
    }

    /// Replaces the policy. Connections that it does not allow are cut.
    pub fn set_policy(&self, policy: Policy) {
        self.0.policy.send_replace(Arc::new(policy));
    }

    pub fn policy(&self) -> Arc<Policy> {
        self.0.policy.borrow().clone()
    }

    /// Returns the traffic since the last call.
    pub fn take_tallies(&self) -> Vec<Tally> {
        tally::merged(self.0.tallies.take(), self.0.refused_tallies.take())
    }

    /// Returns a mark for [`Self::refusals_since`].
    pub fn refusals(&self) -> u64 {
        self.0.refusals().count
    }

    /// Returns the refusals since a mark, each host, port and reason once, as far as remembered.
    pub fn refusals_since(&self, mark: u64) -> Vec<Refused> {
        let refusals = self.0.refusals();
        let new = usize::try_from(refusals.count - mark.min(refusals.count)).unwrap_or(usize::MAX);
        let skipped = refusals.latest.len().saturating_sub(new);
        let mut seen = HashSet::new();
        let first = |refused: &&Refused| seen.insert((refused.host.clone(), refused.port, refused.refusal.code));
        refusals.latest.iter().skip(skipped).filter(first).cloned().collect()
    }
}

impl Shared {
    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        // Inserts and pushes, so a panic cannot leave it inconsistent.
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn policy(&self) -> Arc<Policy> {
        self.policy.borrow().clone()
    }

    /// Returns the authority that the box trusts.
    pub(crate) async fn authority(&self) -> Result<Arc<Authority>, RefusalCode> {
        self.authority.get_or_try_init(|| self.record.authority()).await.cloned()
    }

    /// Returns when the policy may judge differently than `known`.
    pub(crate) async fn policy_changed(&self, known: &Arc<Policy>) {
        let mut changes = self.policy.subscribe();
        let end = known.next_end();
        let changed = changes.wait_for(|policy| !Arc::ptr_eq(policy, known));
        match end {
            Some(end) => {
                // A little later, so that the grant has ended on the clock.
                let _ = tokio::time::timeout(end + Duration::from_millis(1), changed).await;
            }
            None => drop(changed.await),
        }
    }

    /// Connects to a host outside.
    pub(crate) async fn dial(&self, host: &Host, port: u16, reach: AddressReach) -> Result<TcpStream, RefusalCode> {
        self.server.outside.connect(host, port, reach, &self.lookups).await
    }

    /// Has the first contact recorded. No byte leaves before this returns `Ok`.
    pub(crate) async fn opened(&self, opened: Opened) -> Result<(), Unrecorded> {
        let key = (opened.phase, opened.contact.clone(), opened.rules.clone());
        let mut recorded = self.recorded.lock().await;
        if !recorded.contains(&key) {
            // Beyond the maximum, contacts are recorded again: correct, and bounded by the rate.
            if recorded.len() >= MOST_DESTINATIONS {
                recorded.clear();
            }
            self.record.opened(&opened).await?;
            recorded.insert(key);
        }
        Ok(())
    }

    pub(crate) async fn refused(&self, refused: Refused) {
        self.refused_tallies.of(refused.phase, &refused.host, refused.port).refused.fetch_add(1, Relaxed);
        let first = {
            let mut refusals = self.refusals();
            refusals.count += 1;
            if refusals.latest.len() >= REMEMBERED_REFUSALS {
                refusals.latest.pop_front();
            }
            refusals.latest.push_back(refused.clone());
            let recorded = refusals.recorded.entry(refused.refusal.code).or_default();
            recorded.len() < MOST_DESTINATIONS && recorded.insert((refused.host.clone(), refused.port))
        };
        if first {
            self.record.refused(&refused).await;
        }
    }
}

impl FromBox {
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the destination of a connection.
    pub(crate) fn contact(&self, wanted: SocketAddrV4) -> Contact {
        let name = |address: Ipv4Addr| self.names().name(address).cloned();
        let destination = match name(*wanted.ip()) {
            Some(name) if is_made_up(*wanted.ip()) => destination_of(name),
            _ => Destination::Address((*wanted.ip()).into()),
        };
        Contact { destination, port: wanted.port() }
    }
}

/// Returns the destination of a name. A name in the domain of services that is none stays a name,
/// which no rule allows.
pub(crate) fn destination_of(name: HostName) -> Destination {
    Destination::of_host(name.clone()).unwrap_or(Destination::Name(name))
}
