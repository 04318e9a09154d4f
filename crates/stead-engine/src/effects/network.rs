//! The connections of sessions' boxes to the outside: which sockets are served, by which policy,
//! and what the journal keeps of them.
//!
//! A session with a network has one [`SessionNetwork`] while it has a workspace. It serves whatever
//! box of the workspace runs, and drops the sockets of a box that ended, because a socket keeps the
//! box's network alive.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stead_core::event::Event;
use stead_core::identity::Tenant;
use stead_core::network::{
    HostTraffic, InForce, NetworkRefused, OpenedContact, Phase, Reachable, RefusalCode, RefusedContact, TalliedTraffic,
    Target, Treatment, Window, reachable,
};
use stead_core::secret::SealedSecret;
use stead_core::session::Session;
use stead_core::spec::SessionSpec;
use stead_core::{Name, Rejection, SessionId, Status};
use stead_egress::http::UsableSecret;
use stead_egress::{Authority, Egress, Opened, Policy, Record, Refused, SecretUse, Serving, Sockets, Unrecorded};
use stead_providers::{LentNetworks, TakenNetwork, Workspace};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use crate::effects::inspection;
use crate::effects::secret_vault::{self, SecretUser, find_usable};
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// Interval of the counts of traffic outside of calls.
const TALLY_EVERY: Duration = Duration::from_secs(30);

/// The network of one session.
pub(crate) struct SessionNetwork {
    egress: Egress,
    /// The phase never goes back.
    phase: Mutex<Phase>,
    ended: CancellationToken,
}

impl Drop for SessionNetwork {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl SessionNetwork {
    /// Begins to serve the boxes of a workspace. `None` for a session without a network, and for
    /// one that shares the workspace of another session, whose policy then holds.
    pub(crate) fn begin(
        engine: &Engine,
        id: SessionId,
        session: &Session,
        workspace: &Arc<dyn Workspace>,
    ) -> Option<Arc<Self>> {
        let networks = workspace.network()?;
        let spec = session.workspace_spec().filter(|spec| spec.shared_with.is_none())?;
        spec.network.as_ref()?;
        let phase = phase_of(session);
        let policy = policy_of(session, phase)?;
        let record = Arc::new(Recorder { engine: engine.clone(), id });
        let egress = Egress::new(engine.egress().clone(), policy, record, session.network_use.bytes_out);
        let ended = CancellationToken::new();
        engine.spawn(run(engine.clone(), id, egress.clone(), networks, ended.clone()));
        Some(Arc::new(Self { egress, phase: Mutex::new(phase), ended }))
    }

    /// Applies what the session's new state says about the policy. Connections that it no longer
    /// allows are cut before this returns to the caller that recorded the change.
    pub(crate) fn follow(&self, session: &Session) {
        let phase = {
            let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            *phase = (*phase).max(phase_of(session));
            *phase
        };
        if let Some(policy) = policy_of(session, phase)
            && *self.egress.policy() != policy
        {
            self.egress.set_policy(policy);
        }
    }

    /// Ends the phase of the setup commands.
    fn end_setup(&self, session: &Session) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase::Agent;
        self.follow(session);
    }

    /// Returns true until its workspace is gone.
    pub(crate) fn is_live(&self) -> bool {
        !self.ended.is_cancelled()
    }

    /// Returns a mark for [`Self::refused_since`].
    pub(crate) fn mark(&self) -> u64 {
        self.egress.refusals()
    }

    /// Returns what was refused since a mark.
    pub(crate) fn refused_since(&self, mark: u64) -> Vec<RefusedContact> {
        self.egress.refusals_since(mark).into_iter().take(MOST_REPORTED).map(refused_contact).collect()
    }
}

/// Refuses a session with rules about the requests to an address: the requests of a connection must
/// name the host that the policy judges.
pub(crate) fn check_inspectable(spec: &SessionSpec) -> Result<(), Rejection> {
    let network = spec.workspace.as_ref().and_then(|workspace| workspace.network.as_ref());
    let Some(network) = network else { return Ok(()) };
    let hosts = Phase::ALL.iter().flat_map(|phase| reachable(network, *phase, &[]));
    let is_address = |host: &Reachable| host.how == Treatment::Inspected && matches!(host.host, Target::Address(_));
    match hosts.into_iter().find(is_address) {
        None => Ok(()),
        Some(host) => {
            let reason = format!(
                "a rule about the requests to the address {} cannot be kept: allow the host by its name, or leave out \
                 methods, paths, inspect, encoded_slash and upgrade",
                host.host
            );
            Err(NetworkRefused::Invalid { field: "network".to_owned(), reason }.into())
        }
    }
}

/// Maximum number of refusals in the answer of a call.
const MOST_REPORTED: usize = 20;

fn phase_of(session: &Session) -> Phase {
    if session.status == Status::Provisioning { Phase::Setup } else { Phase::Agent }
}

fn policy_of(session: &Session, phase: Phase) -> Option<Policy> {
    let InForce { spec, grants } = in_force(session)?;
    Some(Policy { phase, spec, grants })
}

/// Returns the policy with every change; `None` without a network. Grants that have ended are
/// included.
pub(crate) fn in_force(session: &Session) -> Option<InForce> {
    let spec = session.workspace_spec()?.network.as_ref()?;
    let changes = &session.network_changes;
    Some(InForce { spec: spec.clone().narrowed(changes.denied.clone()), grants: changes.grants.clone() })
}

/// Ends the phase of the setup commands, before the session becomes active: their connections must
/// not stay open for the agent.
pub(crate) async fn end_setup(session: &OpenSession) {
    let Some(network) = session.network() else { return };
    if let Some(state) = session.state().await.session {
        network.end_setup(&state);
    }
    tally(session, Window::Open).await;
}

/// Records the traffic since the last count.
pub(crate) async fn tally(session: &OpenSession, window: Window) {
    let Some(network) = session.network() else { return };
    tally_egress(session, &network.egress, window).await;
}

async fn tally_egress(session: &OpenSession, egress: &Egress, window: Window) {
    let hosts: Vec<HostTraffic> = egress
        .take_tallies()
        .into_iter()
        .map(|tally| HostTraffic {
            phase: tally.phase,
            host: tally.host,
            port: tally.port,
            connections: tally.traffic.connections,
            refused: tally.traffic.refused,
            requests: tally.traffic.requests,
            bytes_out: tally.traffic.bytes_out,
            bytes_in: tally.traffic.bytes_in,
        })
        .collect();
    let closes = window == Window::Closed
        && session.state().await.session.is_some_and(|session| session.network_use.may_be_uncounted());
    if hosts.is_empty() && !closes {
        return;
    }
    let (sent, received) = hosts.iter().fold((0, 0), |(out, back), host| (out + host.bytes_out, back + host.bytes_in));
    metrics::counter!("stead_network_bytes_total", "direction" => "out").increment(sent);
    metrics::counter!("stead_network_bytes_total", "direction" => "in").increment(received);
    if let Err(error) = session.note(Event::NetworkTallied(TalliedTraffic { hosts, window })).await {
        tracing::warn!(session = %session.id(), error = &error as &dyn std::error::Error, "cannot record the traffic");
    }
}

/// After a start of the server: says that the last count may be missing.
pub(crate) async fn note_uncounted(session: &OpenSession) {
    let missing = session.state().await.session.is_some_and(|session| session.network_use.may_be_uncounted());
    if missing {
        let uncounted = TalliedTraffic { hosts: Vec::new(), window: Window::Uncounted };
        if let Err(error) = session.note(Event::NetworkTallied(uncounted)).await {
            tracing::warn!(session = %session.id(), error = &error as &dyn std::error::Error, "cannot record the traffic");
        }
    }
}

/// A box that is being served.
struct Served {
    _serving: Serving,
    alive: UnixStream,
}

async fn run(engine: Engine, id: SessionId, egress: Egress, mut networks: LentNetworks, ended: CancellationToken) {
    let _at_the_end = ended.clone().drop_guard();
    let mut served: Option<Served> = None;
    let mut tallies = tokio::time::interval(TALLY_EVERY);
    networks.mark_changed();
    loop {
        tokio::select! {
            () = ended.cancelled() => return,
            () = engine.stopping().cancelled() => break,
            changed = networks.changed() => {
                // Closes the sockets of the last box before it takes those of the next.
                drop(served.take());
                if changed.is_err() {
                    return;
                }
                let lent = networks.borrow_and_update().clone();
                served = lent.and_then(|lent| lent.take()).and_then(|taken| serve(id, &egress, taken));
            }
            () = end_of(served.as_ref()) => drop(served.take()),
            _ = tallies.tick() => {
                if let Ok(session) = OpenSession::open(&engine, id).await {
                    tally_egress(&session, &egress, Window::Open).await;
                }
            }
        }
    }
    drop(served);
    if let Ok(session) = OpenSession::open(&engine, id).await {
        tally_egress(&session, &egress, Window::Closed).await;
    }
}

fn serve(id: SessionId, egress: &Egress, taken: TakenNetwork) -> Option<Served> {
    let TakenNetwork { sockets, alive } = taken;
    let sockets = Sockets {
        capture: sockets.capture.into(),
        datagrams: sockets.datagrams.into(),
        streams: sockets.streams.into(),
    };
    let served = alive
        .set_nonblocking(true)
        .and_then(|()| Ok(Served { alive: UnixStream::from_std(alive)?, _serving: egress.serve(sockets)? }));
    served.inspect_err(|error| tracing::error!(session = %id, %error, "cannot serve the network of a box")).ok()
}

/// Returns when the box has ended. A box sends nothing on this connection.
async fn end_of(served: Option<&Served>) {
    match served {
        Some(served) => {
            let _ = served.alive.readable().await;
        }
        None => std::future::pending().await,
    }
}

/// Keeps first contacts and refusals in the session's journal.
struct Recorder {
    engine: Engine,
    id: SessionId,
}

impl Recorder {
    async fn note(&self, event: Event) -> Result<(), Unrecorded> {
        let unrecorded = |error: OpError| Unrecorded(error.to_string());
        let session = OpenSession::open(&self.engine, self.id).await.map_err(unrecorded)?;
        match session.note(event).await.map_err(unrecorded)? {
            true => Ok(()),
            false => Err(Unrecorded("the session has ended".to_owned())),
        }
    }

    async fn inspecting(&self) -> Result<Option<Authority>, OpError> {
        let state = OpenSession::open(&self.engine, self.id).await?.state().await;
        let Some(session) = state.session else { return Ok(None) };
        inspection::authority(&self.engine, &session).await
    }

    /// Opens a secret as it is stored now. `None` if the session may not use it.
    async fn usable(&self, name: &Name) -> Result<Option<UsableSecret>, OpError> {
        let state = OpenSession::open(&self.engine, self.id).await?.state().await;
        let Some(session) = state.session else { return Ok(None) };
        let spec = &session.spec;
        let agent_type_tenant = Tenant::of(spec.agent_type_project.as_ref());
        let user = SecretUser {
            project: spec.project.as_ref(),
            agent_type: &spec.agent_type,
            agent_type_tenant: &agent_type_tenant,
        };
        let Some(sealed) = find_usable(&self.engine, &user, name).await? else { return Ok(None) };
        let value = secret_vault::open(&self.engine, &sealed).await?;
        let placeholder = self.engine.secrets().placeholder(self.id, name);
        let SealedSecret { name, project, version, binding, .. } = sealed;
        Ok(Some(UsableSecret { name, project, version, binding, value, placeholder }))
    }
}

#[async_trait]
impl Record for Recorder {
    async fn opened(&self, opened: &Opened) -> Result<(), Unrecorded> {
        crate::failpoint::pause("network.opened").await;
        metrics::counter!("stead_network_contacts_total", "how" => opened.how.as_str()).increment(1);
        let contact = OpenedContact {
            phase: opened.phase,
            host: opened.contact.destination.to_string(),
            port: opened.contact.port,
            protocol: opened.protocol,
            how: opened.how,
            rules: opened.rules.clone(),
        };
        self.note(Event::NetworkOpened(contact)).await
    }

    async fn refused(&self, refused: &Refused) {
        metrics::counter!("stead_network_refused_total", "why" => refused.refusal.code.as_str()).increment(1);
        if let Err(error) = self.note(Event::NetworkRefused(refused_contact(refused.clone()))).await {
            tracing::warn!(session = %self.id, %error, "cannot record a refused connection");
        }
    }

    async fn secret(&self, name: &Name) -> Result<UsableSecret, RefusalCode> {
        let found = self.usable(name).await.unwrap_or_else(|error| {
            tracing::warn!(session = %self.id, secret = %name, error = &error as &dyn std::error::Error, "a secret cannot be used");
            None
        });
        found.ok_or(RefusalCode::SecretUnavailable)
    }

    async fn secret_used(&self, used: &SecretUse) -> Result<(), Unrecorded> {
        let event = Event::CredentialUsed {
            host: used.target.clone(),
            kind: "secret".to_owned(),
            username: None,
            purpose: used.purpose.clone(),
            project: used.project.clone(),
            secret: Some(used.secret.clone()),
        };
        self.note(event).await
    }

    async fn authority(&self) -> Result<Arc<Authority>, RefusalCode> {
        let found = self.inspecting().await.unwrap_or_else(|error| {
            tracing::warn!(session = %self.id, error = &error as &dyn std::error::Error, "cannot inspect connections");
            None
        });
        found.map(Arc::new).ok_or(RefusalCode::InspectionUnavailable)
    }
}

fn refused_contact(refused: Refused) -> RefusedContact {
    let Refused { phase, host, port, refusal } = refused;
    RefusedContact {
        phase,
        host,
        port,
        why: refusal.code,
        layer: refusal.layer,
        rule: refusal.rule,
        draft: refusal.draft,
    }
}
