//! Connections to services: the server reads their requests and sends them to the target.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use stead_core::Name;
use stead_core::network::{
    AddressReach, Contact, HostName, Phase, RefusalCode, RequestAllowance, Scheme, Service, ServiceHost, ServiceName,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::connection::{IDLE, refusal_of};
use crate::copy::{Activity, Cut};
use crate::dial::Host;
use crate::egress::Shared;
use crate::http::{RelayLimits, RequestJudge, Stream, Target, Upstream, UsableSecret, relay};
use crate::record::SecretUse;
use crate::tally::Counters;

/// A service and the addresses that it may have.
pub(crate) struct ServiceTarget<'a> {
    pub(crate) name: &'a ServiceName,
    pub(crate) service: &'a Service,
    pub(crate) reach: AddressReach,
}

/// Serves the requests of a recorded connection until it ends.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    (phase, contact): (Phase, &Contact),
    to: ServiceTarget<'_>,
    stream: TcpStream,
    counters: Arc<Counters>,
) -> Result<(), Cut> {
    let ServiceTarget { name, service, reach } = to;
    let own_name: HostName = name.host().parse().map_err(|_| Cut::Refused(RefusalCode::InvalidName))?;
    let tls = match service.scheme {
        Scheme::Https => Some(shared.server.tls().await.map_err(Cut::Refused)?),
        Scheme::Http => None,
    };
    let (host, text) = match &service.host {
        ServiceHost::Name(name) => (Host::Name(name.clone()), name.to_string()),
        ServiceHost::Address(address) => (Host::Address(*address), address.to_string()),
    };
    let target = Target { host: text, port: service.port, tls };
    let judge = Requests {
        shared: shared.clone(),
        phase,
        contact: contact.clone(),
        service: name.clone(),
        target: target.authority(),
        counters: counters.clone(),
        used: tokio::sync::Mutex::default(),
    };
    let upstream = To { shared: shared.clone(), host, port: service.port, reach };
    let (activity, spent) = (Arc::new(Activity::new()), Arc::new(AtomicBool::new(false)));
    let metered = Metered {
        stream,
        shared: shared.clone(),
        counters,
        activity: activity.clone(),
        spent: spent.clone(),
        wait: Waits::default(),
    };
    let served =
        relay(metered, (own_name, contact.port), target, Arc::new(judge), Arc::new(upstream), RelayLimits::default());
    tokio::select! {
        () = served => {}
        () = activity.idle(IDLE) => return Err(Cut::Lost),
    }
    if spent.load(Relaxed) { Err(Cut::Refused(RefusalCode::TooManyBytes)) } else { Ok(()) }
}

/// Judges the requests of one connection by the policy of the moment.
struct Requests {
    shared: Arc<Shared>,
    phase: Phase,
    contact: Contact,
    service: ServiceName,
    /// Host and port that receive the requests.
    target: String,
    counters: Arc<Counters>,
    /// Names and versions of the secrets whose use is recorded.
    used: tokio::sync::Mutex<HashSet<(Name, u64)>>,
}

#[async_trait]
impl RequestJudge for Requests {
    fn judge(&self, method: &str, target: &str) -> Result<RequestAllowance, RefusalCode> {
        if self.shared.requests.as_ref().is_some_and(|requests| !requests.try_take()) {
            return Err(RefusalCode::TooManyRequests);
        }
        let allowed = self.shared.policy().judge_request(&self.contact, method, target);
        let allowance = allowed.map_err(|refusal| refusal.code)?;
        self.counters.requests.fetch_add(1, Relaxed);
        Ok(allowance)
    }

    async fn secret(&self, name: &Name) -> Result<UsableSecret, RefusalCode> {
        self.shared.record.secret(name).await
    }

    async fn using(&self, secret: &UsableSecret) -> Result<(), RefusalCode> {
        let mut used = self.used.lock().await;
        let version = (secret.name.clone(), secret.version);
        if used.contains(&version) {
            return Ok(());
        }
        let use_of = SecretUse {
            secret: secret.name.clone(),
            project: secret.project.clone(),
            service: self.service.clone(),
            target: self.target.clone(),
        };
        self.shared.record.secret_used(&use_of).await.map_err(|error| {
            tracing::warn!(%error, secret = %secret.name, "a secret is not used");
            RefusalCode::SecretUnavailable
        })?;
        used.insert(version);
        Ok(())
    }

    async fn refused(&self, code: RefusalCode) {
        self.shared.refused(refusal_of(self.phase, &self.contact, code)).await;
    }
}

struct To {
    shared: Arc<Shared>,
    host: Host,
    port: u16,
    reach: AddressReach,
}

#[async_trait]
impl Upstream for To {
    async fn connect(&self) -> Result<Box<dyn Stream>, RefusalCode> {
        Ok(Box::new(self.shared.dial(&self.host, self.port, self.reach).await?))
    }
}

/// The box's side of a connection, with the counts and limits of the session.
struct Metered {
    stream: TcpStream,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    activity: Arc<Activity>,
    /// The box has sent more than it may.
    spent: Arc<AtomicBool>,
    wait: Waits,
}

/// Pauses that the rate of bytes demands.
#[derive(Default)]
struct Waits {
    read: Option<Pin<Box<Sleep>>>,
    write: Option<Pin<Box<Sleep>>>,
}

/// Returns when the pause is over.
fn over(wait: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> Poll<()> {
    if let Some(sleep) = wait {
        ready!(sleep.as_mut().poll(context));
        *wait = None;
    }
    Poll::Ready(())
}

fn pause(wait: Duration) -> Option<Pin<Box<Sleep>>> {
    (!wait.is_zero()).then(|| Box::pin(tokio::time::sleep(wait)))
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(over(&mut this.wait.read, context));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len() - before;
        this.activity.moved();
        if this.shared.budget.spend(count as u64).is_err() {
            this.spent.store(true, Relaxed);
            buffer.set_filled(before);
            return Poll::Ready(Err(io::Error::other("the box has sent more bytes than it may")));
        }
        this.counters.bytes_out.fetch_add(count as u64, Relaxed);
        this.wait.read = pause(this.shared.budget.out.take_and_wait(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(over(&mut this.wait.write, context));
        let count = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        this.activity.moved();
        this.counters.bytes_in.fetch_add(count as u64, Relaxed);
        this.wait.write = pause(this.shared.budget.inwards.take_and_wait(count));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
