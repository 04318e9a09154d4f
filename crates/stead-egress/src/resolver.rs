//! The resolver of a box.

use std::sync::Arc;
use std::time::Duration;

use stead_core::network::{Contact, Destination, HostName, Ports, RefusalCode, Target, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::dns::{Answered, MOST_BYTES, Question, Unanswerable};
use crate::egress::{FromBox, Policy, destination_of};
use crate::names::Expected;
use crate::record::Refused;
use crate::resolve::Unresolved;

/// Maximum number of questions in progress. Others get no answer, and programs ask again.
const MOST_QUESTIONS: usize = 64;
/// Maximum number of connections to the resolver.
const MOST_STREAMS: usize = 16;
const STREAM_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Answers datagrams until it is aborted.
pub(crate) async fn serve_datagrams(from: Arc<FromBox>, socket: UdpSocket) {
    let (socket, slots) = (Arc::new(socket), Arc::new(Semaphore::new(MOST_QUESTIONS)));
    let mut answers = JoinSet::new();
    // One byte more, so that a longer message is not mistaken for a complete one.
    let mut buffer = [0; MOST_BYTES + 1];
    loop {
        while answers.try_join_next().is_some() {}
        let (length, asker) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            // An asker that is gone.
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let (from, socket, message) = (from.clone(), socket.clone(), buffer[..length].to_vec());
        answers.spawn(async move {
            let _slot = slot;
            if let Some(answer) = answer(&from, &message).await {
                let _ = socket.send_to(&answer, asker).await;
            }
        });
    }
}

/// Answers connections until it is aborted.
pub(crate) async fn serve_streams(from: Arc<FromBox>, listener: TcpListener) {
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if streams.len() < MOST_STREAMS => {
                    let from = from.clone();
                    streams.spawn(async move {
                        let _ = serve_stream(&from, stream).await;
                    });
                }
                Ok(_) => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = streams.join_next() => {}
        }
    }
}

async fn serve_stream(from: &FromBox, mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let length = timeout(STREAM_TIMEOUT, stream.read_u16()).await??;
        let mut message = vec![0; usize::from(length)];
        timeout(STREAM_TIMEOUT, stream.read_exact(&mut message)).await??;
        let Some(answer) = answer(from, &message).await else { return Ok(()) };
        let length = u16::try_from(answer.len()).unwrap_or(0);
        timeout(STREAM_TIMEOUT, stream.write_all(&[&length.to_be_bytes()[..], &answer].concat())).await??;
    }
}

async fn answer(from: &FromBox, message: &[u8]) -> Option<Vec<u8>> {
    let question = match Question::read(message) {
        Ok(question) => question,
        Err(Unanswerable::Refused(answer)) => return Some(answer),
        Err(Unanswerable::Ignored) => return None,
    };
    let answered = match &question.name {
        Some(name) if question.wants_address() => address(from, name).await,
        Some(_) => Answered::Nothing,
        None => Answered::NoSuchName,
    };
    Some(question.answer(answered))
}

/// Returns the made-up address of a name. A name that a rule allows by itself must exist.
async fn address(from: &FromBox, name: &HostName) -> Answered {
    let policy = from.shared.policy();
    let allowed = is_allowed(&policy, name);
    if allowed && is_listed(&policy, name) {
        match from.shared.server.outside.lookups.addresses(name, &from.shared.lookups).await {
            Err(Unresolved::NoSuchName) => return Answered::NoSuchName,
            Err(Unresolved::Failed) => return Answered::Failed,
            Ok(_) => {}
        }
    }
    let expected = if allowed { Expected::Allowed } else { Expected::Refused };
    let address = from.names().address(name, expected, policy.spec.limits.names);
    match address {
        Some(address) => Answered::Address(address),
        None => {
            let refused = Refused::new(policy.phase, name.to_string(), 0, RefusalCode::TooManyNames);
            from.shared.refused(refused).await;
            Answered::Failed
        }
    }
}

/// Returns true if a rule of every layer names a host on some port.
fn is_allowed(policy: &Policy, name: &HostName) -> bool {
    let destination = destination_of(name.clone());
    let rules = policy.spec.layers.iter().flat_map(|layer| layer.rules(policy.phase).unwrap_or_default());
    let mut ports: Vec<u16> = rules
        .chain(policy.grants.iter().map(|grant| &grant.rule))
        .flat_map(|rule| match &rule.ports {
            Ports::Every => vec![443],
            Ports::These(ports) => ports.iter().map(|rule| rule.port).collect(),
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    let allowed = |port: &u16| {
        let contact = Contact { destination: destination.clone(), port: *port };
        matches!(policy.judge(&contact), Verdict::Allowed(_))
    };
    ports.iter().any(allowed)
}

/// Returns true if a rule names exactly this host, which the server then looks up. A name below a
/// wildcard is only looked up for a connection, or a lookup would carry what the box put into it.
fn is_listed(policy: &Policy, name: &HostName) -> bool {
    if !matches!(destination_of(name.clone()), Destination::Name(_)) {
        return false;
    }
    let rules = policy.spec.layers.iter().flat_map(|layer| layer.rules(policy.phase).unwrap_or_default());
    let is_it = |target: &Target| matches!(target, Target::Name(listed) if listed == name);
    rules.chain(policy.grants.iter().map(|grant| &grant.rule)).any(|rule| is_it(&rule.host))
}
