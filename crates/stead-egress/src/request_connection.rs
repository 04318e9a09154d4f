//! Connections whose requests the server reads: to services, and to inspected hosts.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use async_trait::async_trait;
use rustls::ServerConfig;
use stead_core::Name;
use stead_core::network::{
    AddressReach, Contact, HostName, Phase, RefusalCode, RequestAllowance, RuleProtocol, Scheme, Service, ServiceHost,
    ServiceName,
};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connection::{FIRST_BYTES, IDLE, refusal_of};
use crate::copy::Cut;
use crate::dial::Host;
use crate::egress::Shared;
use crate::http::{RelayLimits, Relayed, RequestJudge, Stream, Target, Upstream, UsableSecret, relay};
use crate::inspection;
use crate::metered::Metered;
use crate::record::SecretUse;
use crate::tally::Counters;

/// The target of the requests of a connection.
pub(crate) struct RequestTarget {
    /// The name that requests must have in their `Host` header.
    own_name: HostName,
    /// The certificate to show to the box. `None` for plain HTTP.
    inside: Option<Arc<ServerConfig>>,
    host: Host,
    target: Target,
    reach: AddressReach,
    purpose: String,
}

impl RequestTarget {
    /// The target of a service.
    pub(crate) async fn of_service(
        shared: &Shared,
        (name, service): (&ServiceName, &Service),
        reach: AddressReach,
    ) -> Result<Self, RefusalCode> {
        let tls = match service.scheme {
            Scheme::Https => Some(shared.server.tls().await?),
            Scheme::Http => None,
        };
        let (host, text) = match &service.host {
            ServiceHost::Name(name) => (Host::Name(name.clone()), name.to_string()),
            ServiceHost::Address(address) => (Host::Address(*address), address.to_string()),
        };
        Ok(Self {
            own_name: name.host().parse().map_err(|_| RefusalCode::InvalidName)?,
            inside: None,
            host,
            target: Target { host: text, port: service.port, tls },
            reach,
            purpose: format!("service {name}"),
        })
    }

    /// An inspected host. Requests go to the host that the program in the box named.
    pub(crate) async fn of_host(
        shared: &Shared,
        (name, port): (&HostName, u16),
        protocol: RuleProtocol,
        reach: AddressReach,
    ) -> Result<Self, RefusalCode> {
        let (inside, tls) = match protocol {
            RuleProtocol::Tls => {
                let config = shared.authority().await?.server_config(name).map_err(|error| {
                    tracing::error!(error = &error as &dyn std::error::Error, %name, "cannot inspect a connection");
                    RefusalCode::InspectionUnavailable
                })?;
                (Some(config), Some(shared.server.tls().await?))
            }
            RuleProtocol::Http => (None, None),
            // Rules of one layer say both that the bytes are requests and that they may be any.
            RuleProtocol::Tcp => return Err(RefusalCode::ProtocolConflict),
        };
        Ok(Self {
            own_name: name.clone(),
            inside,
            host: Host::Name(name.clone()),
            target: Target { host: name.to_string(), port, tls },
            reach,
            purpose: "inspected host".to_owned(),
        })
    }
}

/// Serves the requests of a recorded connection until it ends. `first` are bytes that were already
/// read from the stream.
pub(crate) async fn serve(
    shared: &Arc<Shared>,
    (phase, contact): (Phase, &Contact),
    to: RequestTarget,
    (stream, first): (TcpStream, Vec<u8>),
    counters: Arc<Counters>,
) -> Result<(), Cut> {
    let RequestTarget { own_name, inside, host, target, reach, purpose } = to;
    let judge = Requests {
        shared: shared.clone(),
        phase,
        contact: contact.clone(),
        purpose,
        target: target.authority(),
        counters: counters.clone(),
        used: tokio::sync::Mutex::default(),
    };
    let upstream = To { shared: shared.clone(), host, port: target.port, reach };
    let metered = Metered::new(stream, first, shared.clone(), counters);
    let (activity, spent) = (metered.activity(), metered.spent());
    let is_inspected = inside.is_some();
    let relayed = async {
        let stream: Box<dyn Stream> = match inside {
            None => Box::new(metered),
            Some(config) => {
                let accepting = timeout(FIRST_BYTES, inspection::accept(config, metered));
                Box::new(accepting.await.map_err(|_| RefusalCode::TooSlow)??)
            }
        };
        let named = (own_name, contact.port);
        Ok(relay(stream, named, target, Arc::new(judge), Arc::new(upstream), RelayLimits::default()).await)
    };
    let relayed = tokio::select! {
        relayed = relayed => relayed,
        () = activity.idle(IDLE) => return Err(Cut::Lost),
    };
    if spent.load(Relaxed) {
        return Err(Cut::Refused(RefusalCode::TooManyBytes));
    }
    match relayed.map_err(Cut::Refused)? {
        // Clients that pin a certificate compare it after the handshake.
        Relayed::Nothing if is_inspected => Err(Cut::Refused(RefusalCode::InspectionRejected)),
        Relayed::Nothing | Relayed::Requests => Ok(()),
    }
}

/// Judges the requests of one connection by the policy of the moment.
struct Requests {
    shared: Arc<Shared>,
    phase: Phase,
    contact: Contact,
    /// Why the server adds secrets, for the record.
    purpose: String,
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
            purpose: self.purpose.clone(),
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
