//! The engine: the shared state and services of all operations.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use stead_core::config::{ProviderName, ResourceLimits};
use stead_core::network::Presets;
use stead_core::registry::Platform;
use stead_core::spec::ServerFacts;
use stead_core::{SessionId, Timestamp, TokenId};
use stead_digest::Parsers;
use stead_egress::EgressServer;
use stead_eval::Evaluator;
use stead_git::{Mirrors, Retention};
use stead_providers::{Images, Providers};
use stead_store::{DocumentKind, Ownership, Sealer, Standing, Store, StoreError};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::background::collect;
use crate::background::pool;
use crate::background::pool::Pool;
use crate::background::project_deletion;
use crate::background::project_deletion::Deletions;
use crate::background::reap;
use crate::background::seals;
use crate::clock::{self, Clock};
use crate::content::mcp::Connections;
use crate::digests::Digests;
use crate::effects::secret_vault::SecretVault;
use crate::effects::snapshot_hashes::SnapshotHashes;
use crate::effects::workspace_users::WorkspaceUsers;
use crate::error::OpError;
use crate::journal::state_cache::StateCache;
use crate::limits::creations::Creations;
use crate::limits::lanes::{Lanes, Slot};
use crate::limits::quotas::QuotaCache;
use crate::limits::storage;
use crate::open_session::Cell;
use crate::ops::PLATFORM;
use crate::readiness::Readiness;
use crate::recover;
use crate::session_token::{SessionTokenClaims, TokenKey};
use crate::tokens::{self, Authenticated, Tokens};

/// Maximum number of concurrent imports of images. Each unpacks its archive into a file.
const MOST_IMPORTS: usize = 2;
/// Maximum number of concurrent exports. Each holds a thread while its client reads.
const MOST_EXPORTS: usize = 128;

/// The server's settings for the engine.
#[derive(Debug, Clone)]
pub struct Settings {
    pub default_provider: ProviderName,
    pub default_limits: ResourceLimits,
    /// The hosts of each network preset.
    pub network_presets: Presets,
    /// A PEM file with roots that services may have besides those of the system.
    pub extra_roots: Option<PathBuf>,
    /// Maximum number of live sessions with a workspace.
    pub max_sessions: u32,
    /// Limits the sum of the memory limits of all boxes. `None` for no limit.
    pub box_memory: Option<BoxMemory>,
    /// Number of sessions that are created at the same time while several projects create
    /// sessions. Others wait for their project's turn.
    pub concurrent_creations: usize,
    /// Maximum number of concurrent calls, commands and file operations of one session. Four times
    /// as many may wait.
    pub calls_per_session: usize,
    /// Interval of the search for sessions whose time is over.
    pub reap_every: Duration,
    /// Maximum time that a close waits for the removal before it answers that the removal is in
    /// progress.
    pub close_wait: Duration,
    /// Runs the `eval` tool.
    pub evaluator: Evaluator,
    /// The repository mirrors. Without them no repository can be cloned.
    pub mirrors: Option<Mirrors>,
    /// The store of images imported from files. Without it none can be imported.
    pub images: Option<Arc<Images>>,
    /// Limits for mirrors that no live session needs.
    pub mirror_retention: Retention,
    /// Interval of the search for unneeded mirrors.
    pub collect_every: Duration,
    /// Grace period for a blob that no event or document names, because a client may be about to
    /// name it.
    pub blob_grace: Duration,
    /// The parsers that find symbols for digests.
    pub parsers: Parsers,
    /// Signs the ledger. Without it records are chained but not signed.
    pub sealer: Option<Arc<Sealer>>,
    /// The file of the key that seals secrets. Without it no secret can be stored.
    pub secret_key: Option<PathBuf>,
    /// The file that records steps of the wall clock, so that a step while the server is down
    /// closes no session.
    pub clock_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_provider: ProviderName::Memory,
            default_limits: ResourceLimits::default(),
            network_presets: Presets::default(),
            extra_roots: None,
            max_sessions: 1000,
            box_memory: None,
            concurrent_creations: default_concurrent_creations(),
            calls_per_session: 32,
            reap_every: Duration::from_secs(1),
            close_wait: Duration::from_secs(30),
            evaluator: Evaluator::beside_this_program(),
            mirrors: None,
            images: None,
            mirror_retention: Retention::default(),
            collect_every: Duration::from_secs(3600),
            blob_grace: Duration::from_secs(24 * 3600),
            parsers: Parsers::InProcess,
            sealer: None,
            secret_key: None,
            clock_file: None,
        }
    }
}

/// The memory of the host, and how often it may be promised to boxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxMemory {
    pub host_bytes: u64,
    /// The memory limits of all boxes together are at most this many times the memory.
    pub overcommit: f64,
}

/// The number of cores. More creations at a time would share the cores, and each would take longer,
/// also the only one of a project that waits beside a flood of another.
fn default_concurrent_creations() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZeroUsize::get).max(2)
}

/// The reason why an engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the system gives no random bytes")]
    Randomness(#[source] getrandom::Error),
    #[error("the token key in the database is damaged")]
    TokenKey,
    #[error("the settings of the platform in the database cannot be read")]
    Platform(#[source] serde_json::Error),
    #[error("cannot use the certificates in {} (network.extra_roots)", path.display())]
    ExtraRoots { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("cannot resume the sessions of the last run")]
    Recover(#[source] OpError),
}

fn egress(extra_roots: Option<&Path>) -> Result<EgressServer, StartError> {
    let Some(path) = extra_roots else { return Ok(EgressServer::default()) };
    let unusable = |source| StartError::ExtraRoots { path: path.to_owned(), source };
    let pem = std::fs::read(path).map_err(|error| unusable(error.into()))?;
    EgressServer::with_roots(&pem).map_err(|error| unusable(error.into()))
}

/// A running Stead without its API. A clone is another handle to the same engine.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    store: Store,
    providers: Providers,
    settings: Settings,
    token_key: TokenKey,
    tokens: Tokens,
    secrets: SecretVault,
    project_deletions: Deletions,
    /// Released by [`Engine::stop`]. Until then no other engine works on this store.
    ownership: Mutex<Option<Ownership>>,
    /// The cells of sessions in use. Ended sessions are not among them.
    cells: Mutex<HashMap<SessionId, Arc<Cell>>>,
    state_cache: StateCache,
    readiness: Readiness,
    workspace_users: WorkspaceUsers,
    digests: Digests,
    egress: Arc<EgressServer>,
    pool: Pool,
    connections: Connections,
    exports: Arc<Semaphore>,
    imports: Arc<Semaphore>,
    storage: tokio::sync::Mutex<()>,
    snapshot_hashes: SnapshotHashes,
    lanes: Lanes,
    creations: Creations,
    quota_cache: QuotaCache,
    clock: Clock,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Engine {
    /// Recovers the sessions of the last run, then maintains them until [`Engine::stop`].
    ///
    /// The caller owns the store ([`Store::own`]), so no other engine works on it.
    pub async fn start(
        store: Store,
        ownership: Ownership,
        providers: Providers,
        settings: Settings,
    ) -> Result<Engine, StartError> {
        crate::failpoint::arm();
        let drawn = TokenKey::draw().map_err(StartError::Randomness)?;
        let key = store.setting_or_insert("token_key", &drawn).await?;
        let token_key = TokenKey::from_hex(&key).ok_or(StartError::TokenKey)?;
        let platform: Option<Platform> = match store.document(DocumentKind::Platform, PLATFORM).await? {
            Some(document) => Some(serde_json::from_str(&document.body).map_err(StartError::Platform)?),
            None => None,
        };
        let tokens = Tokens::load(&store, platform.unwrap_or_default().roles).await?;
        let secrets = SecretVault::new(settings.secret_key.clone(), token_key.placeholder_key());
        let egress = Arc::new(egress(settings.extra_roots.as_deref())?);
        let digests = Digests::new(settings.parsers.clone());
        let lanes = Lanes::new(settings.calls_per_session);
        let creations = Creations::new(settings.concurrent_creations);
        let clock = Clock::start(settings.clock_file.clone());
        let engine = Engine(Arc::new(Inner {
            store,
            providers,
            settings,
            token_key,
            tokens,
            secrets,
            project_deletions: Deletions::default(),
            ownership: Mutex::new(Some(ownership)),
            cells: Mutex::default(),
            state_cache: StateCache::default(),
            readiness: Readiness::default(),
            workspace_users: WorkspaceUsers::default(),
            digests,
            egress,
            pool: Pool::default(),
            connections: Connections::default(),
            exports: Arc::new(Semaphore::new(MOST_EXPORTS)),
            imports: Arc::new(Semaphore::new(MOST_IMPORTS)),
            storage: tokio::sync::Mutex::default(),
            snapshot_hashes: SnapshotHashes::default(),
            lanes,
            creations,
            quota_cache: QuotaCache::default(),
            clock,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }));
        recover::recover(&engine).await.map_err(StartError::Recover)?;
        project_deletion::take_up(&engine).await.map_err(StartError::Recover)?;
        storage::settle(&engine).await.map_err(StartError::Recover)?;
        engine.spawn(reap::run(engine.clone()));
        engine.spawn(pool::run(engine.clone()));
        engine.spawn(collect::run(engine.clone()));
        engine.spawn(collect::run_blobs(engine.clone()));
        engine.spawn(seals::run(engine.clone()));
        engine.spawn(tokens::run(engine.clone()));
        Ok(engine)
    }

    /// Waits for running work to end, then closes the store. Sessions stay open.
    pub async fn stop(&self) {
        self.0.stopping.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(Duration::from_secs(10), self.0.tasks.wait()).await.is_err() {
            tracing::warn!("some work did not end in time; the next start resumes it");
        }
        self.0.connections.end_all();
        self.0.settings.evaluator.retire();
        self.0.providers.iter().for_each(|provider| provider.retire());
        self.give_up_store().await;
        self.0.store.close().await;
    }

    /// Signs the end of the ledger and releases the store, so that the next server can take over at
    /// once.
    async fn give_up_store(&self) {
        let ownership = self.0.ownership.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(ownership) = ownership else { return };
        if self.0.store.standing() != Standing::Held {
            return;
        }
        seals::seal(self).await;
        if let Err(error) = self.0.store.release(ownership).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot release the database in order");
        }
    }

    /// Returns the reason if another server owns the store.
    pub fn lost_store(&self) -> Option<String> {
        match self.0.store.standing() {
            Standing::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Completes with the reason when another server owns the store. Writes fail from then on, so
    /// the caller must stop.
    pub async fn disowned(&self) -> String {
        self.0.store.lost().await
    }

    /// Returns a token of a session that is valid until `expires_at`.
    pub fn session_token(&self, claims: SessionTokenClaims) -> String {
        self.0.token_key.token(claims)
    }

    /// Returns the claims of a session token of this server, if neither it nor the token that asked
    /// for it has ended.
    pub fn verify_session_token(&self, token: &str) -> Option<SessionTokenClaims> {
        let claims = self.0.token_key.verify(token).filter(|claims| claims.expires_at > clock::now())?;
        claims.asked_by.is_none_or(|token| self.is_valid_token(token)).then_some(claims)
    }

    /// Returns true if a token that was created at run time has not ended.
    pub fn is_valid_token(&self, token: TokenId) -> bool {
        self.0.tokens.is_valid_token(token)
    }

    /// Returns what is cancelled when a token is revoked. `None` if there is no such token.
    pub fn revocation(&self, token: TokenId) -> Option<CancellationToken> {
        self.0.tokens.revocation(token)
    }

    /// Returns the holder of a token that was created at run time.
    pub fn authenticate(&self, token: &str) -> Option<Authenticated> {
        self.0.tokens.authenticate(token)
    }

    /// Returns the holder of a token that was created at run time, by the hash of its secret.
    pub fn authenticate_hash(&self, secret_hash: &str) -> Option<Authenticated> {
        self.0.tokens.authenticate_hash(secret_hash)
    }

    /// Returns a proof that this server signed a session of the web page.
    pub fn page_proof(&self, signed: &str) -> blake3::Hash {
        self.0.token_key.page_proof(signed)
    }

    /// The wall clock of the engine.
    pub fn now(&self) -> Timestamp {
        clock::now()
    }

    /// Returns true if a secret with this hash is valid now.
    pub fn is_valid_secret(&self, hash: &str) -> bool {
        self.0.tokens.is_valid(hash)
    }

    pub(crate) fn project_deletions(&self) -> &Deletions {
        &self.0.project_deletions
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.0.tokens
    }

    pub(crate) fn secrets(&self) -> &SecretVault {
        &self.0.secrets
    }

    /// Checks that operations can succeed now.
    pub async fn ready(&self) -> Result<(), OpError> {
        if self.0.stopping.is_cancelled() {
            return Err(OpError::ShuttingDown);
        }
        if let Standing::InDoubt(reason) | Standing::Lost(reason) = self.0.store.standing() {
            return Err(StoreError::NotOwner { reason }.into());
        }
        self.0.readiness.check(&self.0.store).await
    }

    /// Watches the last sequence number of a session. `None` once the session has ended.
    pub fn watch(&self, session: SessionId) -> Option<watch::Receiver<u64>> {
        self.cell(session).map(|cell| cell.watch())
    }

    /// Number of uses of the database since the server started.
    pub fn database_accesses(&self) -> stead_store::Accesses {
        self.0.store.accesses()
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.0.connections
    }

    pub(crate) fn exports(&self) -> Arc<Semaphore> {
        self.0.exports.clone()
    }

    pub(crate) fn imports(&self) -> Arc<Semaphore> {
        self.0.imports.clone()
    }

    /// Held while images or setup results change together with their counts in the store.
    pub(crate) fn storage(&self) -> &tokio::sync::Mutex<()> {
        &self.0.storage
    }

    pub(crate) fn snapshot_hashes(&self) -> &SnapshotHashes {
        &self.0.snapshot_hashes
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn providers(&self) -> &Providers {
        &self.0.providers
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn state_cache(&self) -> &StateCache {
        &self.0.state_cache
    }

    pub(crate) fn creations(&self) -> &Creations {
        &self.0.creations
    }

    pub(crate) fn quota_cache(&self) -> &QuotaCache {
        &self.0.quota_cache
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    pub(crate) fn workspace_users(&self) -> &WorkspaceUsers {
        &self.0.workspace_users
    }

    /// What the connections of all sessions share.
    pub(crate) fn egress(&self) -> &Arc<EgressServer> {
        &self.0.egress
    }

    pub(crate) fn digests(&self) -> &Digests {
        &self.0.digests
    }

    pub(crate) fn facts(&self) -> ServerFacts {
        ServerFacts {
            default_provider: self.0.settings.default_provider,
            default_limits: self.0.settings.default_limits.clone(),
            providers: self.0.providers.capabilities(),
            network_presets: self.0.settings.network_presets.clone(),
        }
    }

    /// Runs work that must complete and be recorded even if its caller goes away.
    pub(crate) fn spawn<F>(&self, work: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.tasks.spawn(work)
    }

    /// The same for an operation that a caller waits for. Every operation that appends events runs
    /// like this. If its future were dropped with the connection, the journal could be ahead of the
    /// state in memory.
    ///
    /// The work is boxed at once. An operation's future takes tens of kilobytes, and every `async
    /// fn` that takes it by value would hold a copy of it on the stack.
    pub(crate) fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, OpError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, OpError>> + Send {
        let spawned = self.spawn(work.boxed());
        async move {
            match spawned.await {
                Ok(done) => done,
                Err(stopped) if stopped.is_panic() => Err(OpError::Panicked),
                Err(_) => Err(OpError::ShuttingDown),
            }
        }
    }

    /// Like [`Engine::to_its_end`], in a slot of the session that the work holds until it ends.
    pub(crate) fn in_lane<T: Send + 'static>(
        &self,
        session: SessionId,
        work: impl Future<Output = Result<T, OpError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, OpError>> + Send {
        let work = work.boxed();
        async move {
            let slot = self.enter(session).await?;
            self.to_its_end(async move {
                let done = work.await;
                drop(slot);
                done
            })
            .await
        }
    }

    /// Takes a slot of the session, for work that ends when its caller goes away.
    pub(crate) async fn enter(&self, session: SessionId) -> Result<Slot, OpError> {
        self.0.lanes.enter(session).await
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    pub(crate) fn cell(&self, session: SessionId) -> Option<Arc<Cell>> {
        self.lock_cells().get(&session).cloned()
    }

    /// Stores a freshly loaded cell, unless another task stored one first. There is one cell per
    /// session.
    pub(crate) fn keep_cell(&self, session: SessionId, cell: Arc<Cell>) -> Arc<Cell> {
        self.lock_cells().entry(session).or_insert(cell).clone()
    }

    pub(crate) fn drop_cell(&self, session: SessionId) {
        self.lock_cells().remove(&session);
        self.0.connections.end(session);
    }

    /// Drops the cell if it is still the stored one.
    pub(crate) fn drop_stale_cell(&self, session: SessionId, stale: &Arc<Cell>) -> bool {
        let mut cells = self.lock_cells();
        let same = cells.get(&session).is_some_and(|cell| Arc::ptr_eq(cell, stale));
        if same {
            cells.remove(&session);
            drop(cells);
            self.0.connections.end(session);
        }
        same
    }

    fn lock_cells(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, Arc<Cell>>> {
        // Entries are inserted and removed as a whole, so a panic elsewhere cannot corrupt the map.
        self.0.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
