//! One captured connection, from its judgement to its last byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use stead_core::network::{
    Allowance, Contact, Destination, HostName, Refusal, RefusalCode, RuleProtocol, Service, ServiceName, Treatment,
    Verdict, judge_address,
};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client_hello::{self, Read};
use crate::copy::{self, Cut, Followed, Meter, reset, unreset};
use crate::dial::Host;
use crate::egress::{FromBox, Policy, Shared};
use crate::http_requests::Requests;
use crate::own_addresses;
use crate::record::{Opened, Refused};
use crate::request_connection::{self, RequestTarget};
use crate::second_hello::FurtherRecords;

/// Time for the first bytes that a rule demands.
pub(crate) const FIRST_BYTES: Duration = Duration::from_secs(10);
pub(crate) const IDLE: Duration = Duration::from_secs(15 * 60);
const IDLE_HTTP: Duration = Duration::from_secs(2 * 60);
/// Pause after a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until it is aborted, which ends them too.
pub(crate) async fn accept(from: Arc<FromBox>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => admit(&from, stream, &mut connections).await,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection of a box");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Starts a connection if the limits allow one more.
async fn admit(from: &Arc<FromBox>, stream: TcpStream, connections: &mut JoinSet<()>) {
    let Ok(SocketAddr::V4(wanted)) = stream.local_addr() else { return };
    let (shared, contact) = (&from.shared, from.contact(wanted));
    let permit = shared.slots.clone().try_acquire_owned().ok().filter(|_| shared.starts.try_take());
    let Some(permit) = permit else {
        reset(&stream);
        drop(stream);
        return shared.refused(refusal_of(shared.policy().phase, &contact, RefusalCode::TooManyConnections)).await;
    };
    let shared = shared.clone();
    connections.spawn(async move {
        let _permit = permit;
        let server = shared.server.clone();
        let Ok(_slot) = server.slots.try_acquire() else {
            reset(&stream);
            return shared.refused(refusal_of(shared.policy().phase, &contact, RefusalCode::TooManyConnections)).await;
        };
        carry(&shared, stream, contact).await;
    });
}

pub(crate) fn refusal_of(phase: stead_core::network::Phase, contact: &Contact, code: RefusalCode) -> Refused {
    Refused::new(phase, contact.destination.to_string(), contact.port, code)
}

/// An allowed connection whose first bytes are as its rule demands.
struct Ready {
    /// Bytes of the box to send first.
    first: Vec<u8>,
    followed: Followed,
}

async fn carry(shared: &Arc<Shared>, mut stream: TcpStream, contact: Contact) {
    let policy = shared.policy();
    let allowance = match judged(&policy, &contact) {
        Ok(allowance) => allowance,
        Err(refusal) => {
            reset(&stream);
            drop(stream);
            let (host, port) = (contact.destination.to_string(), contact.port);
            return shared.refused(Refused { phase: policy.phase, host, port, refusal }).await;
        }
    };
    let refused = |code| refusal_of(policy.phase, &contact, code);
    let ready = match timeout(FIRST_BYTES, first_bytes(&mut stream, &contact, &allowance)).await {
        Ok(Ok(ready)) => ready,
        // The program went away, or another program only tried whether the port is open.
        Ok(Err(Cut::Lost)) => return,
        Ok(Err(Cut::Refused(code))) => {
            reset(&stream);
            return shared.refused(refused(code)).await;
        }
        Err(_) => {
            reset(&stream);
            return shared.refused(refused(RefusalCode::TooSlow)).await;
        }
    };
    // The policy may have changed while the program was sending.
    let now = shared.policy();
    let opened = match judged(&now, &contact) {
        Ok(again) if is_alike(&again, &allowance) => open(shared, &now, &contact, again, stream, ready).await,
        _ => {
            reset(&stream);
            Err(Cut::Refused(RefusalCode::PhaseEnded))
        }
    };
    if let Err(Cut::Refused(code)) = opened {
        shared.refused(refused(code)).await;
    }
}

fn judged(policy: &Policy, contact: &Contact) -> Result<Allowance, Refusal> {
    let allowance = match policy.judge(contact) {
        Verdict::Allowed(allowance) => allowance,
        Verdict::Refused(refusal) => return Err(refusal),
    };
    if let Destination::Address(address) = contact.destination {
        let judged = judge_address(address, allowance.addresses, &own_addresses::read());
        judged.map_err(|code| Refusal { code, layer: None, rule: None, draft: None })?;
    }
    Ok(allowance)
}

/// Reads what the rule demands, before anything is sent outside.
async fn first_bytes(stream: &mut TcpStream, contact: &Contact, allowance: &Allowance) -> Result<Ready, Cut> {
    let nothing = Ready { first: Vec::new(), followed: Followed::Nothing };
    match (allowance.treatment, allowance.protocol) {
        (Treatment::Inspected, RuleProtocol::Tls) => {
            let (first, _) = hello(stream, contact).await?;
            Ok(Ready { first, followed: Followed::Nothing })
        }
        (Treatment::Passed, RuleProtocol::Tls) => passed_hello(stream, contact).await,
        (Treatment::Passed, RuleProtocol::Http) => {
            let mut requests = Requests::new(&contact.destination, contact.port);
            let mut first = Vec::new();
            while first.is_empty() {
                let bytes = some_bytes(stream).await?;
                first = requests.take(&bytes).map_err(Cut::Refused)?;
            }
            Ok(Ready { first, followed: Followed::Requests(Box::new(requests)) })
        }
        (Treatment::Passed, RuleProtocol::Tcp) | (Treatment::Service | Treatment::Inspected, _) => Ok(nothing),
    }
}

async fn passed_hello(stream: &mut TcpStream, contact: &Contact) -> Result<Ready, Cut> {
    let (mut first, named) = hello(stream, contact).await?;
    let Some((name, end)) = named else { return Ok(Ready { first, followed: Followed::Nothing }) };
    // The bytes after the hello are followed like all later ones.
    let mut records = FurtherRecords::new(name);
    let rest = first.split_off(end);
    first.extend(records.take(&rest).map_err(Cut::Refused)?);
    Ok(Ready { first, followed: Followed::Handshake(records) })
}

/// Reads the hello of a client, which must name the judged host. Returns the bytes that were read,
/// with the name and the end of the hello. An address has no name that a handshake could have.
async fn hello(stream: &mut TcpStream, contact: &Contact) -> Result<(Vec<u8>, Option<(HostName, usize)>), Cut> {
    let mut first = Vec::new();
    loop {
        first.extend(some_bytes(stream).await?);
        match (client_hello::read(&first), &contact.destination) {
            (Read::More, _) => {}
            (Read::Hello { name, bytes }, Destination::Name(wanted)) if name == *wanted => {
                return Ok((first, Some((name, bytes))));
            }
            (Read::Hello { .. } | Read::Refused(RefusalCode::NoServerName), Destination::Address(_)) => {
                return Ok((first, None));
            }
            (Read::Hello { .. }, _) => return Err(Cut::Refused(RefusalCode::NameMismatch)),
            (Read::Refused(code), _) => return Err(Cut::Refused(code)),
        }
    }
}

async fn some_bytes(stream: &mut TcpStream) -> Result<Vec<u8>, Cut> {
    let mut bytes = Vec::with_capacity(4 << 10);
    match stream.read_buf(&mut bytes).await? {
        0 => Err(Cut::Lost),
        _ => Ok(bytes),
    }
}

/// Where the bytes of a connection go.
enum Route<'a> {
    Host(Host),
    Service(&'a ServiceName, &'a Service),
    Inspected(&'a HostName),
}

/// A connection that can begin.
enum Opening {
    /// Its bytes go to this connection.
    Passed(TcpStream),
    /// The server reads its requests.
    Read(RequestTarget),
}

fn route<'a>(policy: &'a Policy, contact: &'a Contact, treatment: Treatment) -> Result<Route<'a>, RefusalCode> {
    match (&contact.destination, treatment) {
        (Destination::Name(name), Treatment::Passed) => Ok(Route::Host(Host::Name(name.clone()))),
        (Destination::Address(address), Treatment::Passed) => Ok(Route::Host(Host::Address(*address))),
        (Destination::Service(name), Treatment::Service) => {
            let service = policy.spec.services.get(name).ok_or(RefusalCode::NotAllowed)?;
            Ok(Route::Service(name, service))
        }
        (Destination::Name(name), Treatment::Inspected) => Ok(Route::Inspected(name)),
        // Sessions with rules about the requests to an address do not start.
        _ => Err(RefusalCode::RequestNotAllowed),
    }
}

/// Records the contact, connects and copies. The box's side is reset if that fails.
async fn open(
    shared: &Arc<Shared>,
    policy: &Arc<Policy>,
    contact: &Contact,
    allowance: Allowance,
    stream: TcpStream,
    ready: Ready,
) -> Result<(), Cut> {
    // Every return before the copying is a failure.
    reset(&stream);
    let route = route(policy, contact, allowance.treatment).map_err(Cut::Refused)?;
    let opened = Opened {
        phase: policy.phase,
        contact: contact.clone(),
        protocol: allowance.protocol,
        how: allowance.treatment,
        rules: allowance.rules.clone(),
    };
    if let Err(error) = shared.opened(opened).await {
        tracing::warn!(%error, "a connection of a box is refused");
        return Err(Cut::Refused(RefusalCode::Unreachable));
    }
    let to = match route {
        Route::Host(host) => {
            let connected = shared.dial(&host, contact.port, allowance.addresses).await;
            Opening::Passed(connected.map_err(Cut::Refused)?)
        }
        Route::Service(name, service) => {
            let target = RequestTarget::of_service(shared, (name, service), allowance.addresses).await;
            Opening::Read(target.map_err(Cut::Refused)?)
        }
        Route::Inspected(name) => {
            let to = (name, contact.port);
            let target = RequestTarget::of_host(shared, to, allowance.protocol, allowance.addresses).await;
            Opening::Read(target.map_err(Cut::Refused)?)
        }
    };
    let counters = shared.tallies.of(policy.phase, &contact.destination.to_string(), contact.port);
    counters.connections.fetch_add(1, Relaxed);
    let _ = stream.set_nodelay(true);
    let carried = async {
        match to {
            Opening::Read(target) => {
                unreset(&stream)?;
                let inside = (stream, ready.first);
                request_connection::serve(shared, (policy.phase, contact), target, inside, counters).await
            }
            Opening::Passed(outside) => {
                let meter = Meter::new(&shared.budget, &counters);
                let idle = if allowance.protocol == RuleProtocol::Http { IDLE_HTTP } else { IDLE };
                copy::both(stream, outside, ready.first, ready.followed, &meter, idle).await
            }
        }
    };
    tokio::select! {
        // First, so that no byte leaves after a change of the policy.
        biased;
        () = no_longer_allowed(shared, policy, contact, &allowance) => Err(Cut::Refused(RefusalCode::PhaseEnded)),
        carried = carried => carried,
    }
}

/// Returns true if both treat a connection in the same way.
fn is_alike(one: &Allowance, other: &Allowance) -> bool {
    (one.protocol, one.treatment, one.addresses) == (other.protocol, other.treatment, other.addresses)
}

/// Returns when the policy no longer allows a connection in the way it was opened.
async fn no_longer_allowed(shared: &Shared, policy: &Arc<Policy>, contact: &Contact, allowance: &Allowance) {
    let mut known = policy.clone();
    loop {
        shared.policy_changed(&known).await;
        known = shared.policy();
        if !judged(&known, contact).is_ok_and(|now| is_alike(&now, allowance)) {
            return;
        }
    }
}
