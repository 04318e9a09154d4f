//! The server inside this process. Its parts are started in an order that lets each failure be
//! named.
//!
//! The home is locked before anything is opened, so two servers never share a store. The address is
//! bound before the store is opened, so an early client waits instead of being refused.

pub(crate) mod continuity;
mod descriptor_limit;
mod host_memory;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stead_core::Timestamp;
use stead_core::network::{Network, NetworkPhase, preset};
use stead_core::registry::Platform;
use stead_engine::{BoxMemory, Engine, Settings, ops};
use stead_git::{Mirrors, Retention};
use stead_providers::{
    Images, LayerStore, MemoryProvider, NativeConfig, NativeProvider, PodmanConfig, PodmanProvider, Providers,
};
use stead_server::ServerConfig;
use stead_store::{Ownership, Sealer, Store};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use continuity::AcceptedHead;

use crate::config::{Config, Endpoint, Listen, PodmanSettings, ServerSettings};
use crate::failure::Failure;
use crate::home::{Home, Identity, Lock, RunningServer};
use crate::secret::Secret;

/// Time that requests have to finish after a stop is requested.
const DRAIN: Duration = Duration::from_secs(5);
const LAST_THREADS: Duration = Duration::from_secs(1);

/// Behaviour if the address is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenTaken {
    Fail,
    /// Take another port, unless the user chose this one.
    TakeAnother,
}

impl WhenTaken {
    /// The platform of a home that has none yet. A server that a person starts to try Stead allows
    /// the network presets, and agent types still choose among them. One that an operator runs
    /// allows nothing until the operator says so.
    fn first_platform(self) -> Option<Platform> {
        let presets = || NetworkPhase::Rules {
            allow: Vec::new(),
            presets: preset::USUAL.iter().map(|name| (*name).to_owned()).collect(),
        };
        let network = Network { setup: Some(presets()), agent: Some(presets()), ..Network::default() };
        (self == Self::TakeAnother).then(|| Platform { network: Some(network), ..Platform::default() })
    }
}

/// Effect of a signal to this process on the embedded server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnSignal {
    Stop,
    /// The caller handles signals.
    GoOn,
}

pub(crate) struct Server {
    home: Home,
    lock: Lock,
    token: Secret,
    runtime: Runtime,
    running: RunningServer,
    database: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), Failure>>,
}

impl Server {
    /// Returns when the server answers and other processes find it.
    pub(crate) fn start(config: &Config, when_taken: WhenTaken, on_signal: OnSignal) -> Result<Self, Failure> {
        Self::start_accepting(config, when_taken, on_signal, None)
    }

    /// Starts also on an older copy of the database, if its head is the accepted one.
    pub(crate) fn start_accepting(
        config: &Config,
        when_taken: WhenTaken,
        on_signal: OnSignal,
        accepted: Option<AcceptedHead>,
    ) -> Result<Self, Failure> {
        let server = Self::start_unannounced(config, when_taken, on_signal, accepted)?;
        server.announce()?;
        Ok(server)
    }

    /// Returns when the server answers. Other processes find it after [`Self::announce`].
    pub(crate) fn start_unannounced(
        config: &Config,
        when_taken: WhenTaken,
        on_signal: OnSignal,
        accepted: Option<AcceptedHead>,
    ) -> Result<Self, Failure> {
        let settings = config.server()?;
        descriptor_limit::raise_limit();
        let podman = config.podman()?;
        let database = config.database()?;
        let (git, retention) = (config.git()?, config.mirror_retention()?);
        let secret_key = config.secret_key();
        let home = config.home.clone();
        home.create()?;
        let lock = home.lock()?;
        let token = home.token_or_create(&lock)?;
        warn_about_token(&home);
        let runtime = runtime().map_err(|error| Failure::new("cannot start the runtime").because(&error))?;
        // From here on a signal means a clean shutdown, also while the previous run is recovered.
        let interrupted = {
            let _context = runtime.enter();
            interrupted().map_err(|error| Failure::new("cannot wait for signals").because(&error))?
        };
        let (listener, engine) = runtime.block_on(async {
            let listener = bind(&settings.listen, when_taken).await?;
            let store = Store::open(&database, &home.blobs()).await.map_err(|error| Failure::from_error(&error))?;
            let sealer = Arc::new(Sealer::open(home.path()).map_err(|error| Failure::from_error(&error))?);
            let cut = continuity::check(&store, sealer.noted(), accepted).await?;
            // Taken before the first write and before the search for boxes, because another server
            // may be running.
            let ownership = own(&store, &home).await?;
            if let Some(cut) = cut {
                let accepted = store.accept_cut(&sealer, continuity::audit_entry(cut, now())).await;
                accepted.map_err(|error| Failure::from_error(&error))?;
            }
            let layers = LayerStore::open(home.path().join("layers")).map_err(|error| Failure::from_error(&error))?;
            let layers = Arc::new(layers);
            let images = Images::open(home.path().join("images"), layers.clone());
            let images = Arc::new(images.map_err(|error| Failure::from_error(&error))?);
            let identity = identity(&store, &home, &lock).await?;
            let providers = providers(identity, &home, podman, (layers, images.clone()))?;
            let mirrors = Mirrors::open(git).map_err(|error| Failure::from_error(&error))?;
            let settings = engine_settings(&settings, (mirrors, retention), images, home.path().join("clock.json"));
            let settings = Settings { sealer: Some(sealer), secret_key: Some(secret_key), ..settings };
            let engine = Engine::start(store, ownership, providers, settings).await;
            let engine = engine.map_err(|error| Failure::from_error(&error))?;
            if let Some(platform) = when_taken.first_platform() {
                ops::begin_platform(&engine, platform).await.map_err(|error| Failure::from_error(&error))?;
            }
            Ok::<_, Failure>((listener, engine))
        })?;
        let address =
            listener.local_addr().map_err(|error| Failure::new("cannot read the listen address").because(&error))?;
        let running = RunningServer { url: url(address), pid: std::process::id(), started_at: now().to_string() };
        let (stop, stopped) = oneshot::channel();
        let server_config = server_config(settings, &token);
        let presence = home.presence()?;
        let serving = runtime.spawn(async move {
            let shutdown = async {
                tokio::select! {
                    () = interrupted, if on_signal == OnSignal::Stop => {}
                    () = presence.removed() => {}
                    _ = stopped => {}
                    reason = engine.disowned() => tracing::error!(reason, "this server lost its database; stopping"),
                }
            };
            let served = stead_server::serve(listener, engine.clone(), server_config, shutdown).await;
            let lost = engine.lost_store();
            engine.stop().await;
            if let Some(reason) = lost {
                return Err(disowned(&reason));
            }
            served.map_err(|error| Failure::new("the server stopped listening").because(&error))?;
            presence.confirm()
        });
        Ok(Self { home, lock, token, runtime, running, database: database.to_string(), stop, serving })
    }

    pub(crate) fn announce(&self) -> Result<(), Failure> {
        self.home.announce(&self.running, &self.lock)
    }

    pub(crate) fn url(&self) -> &str {
        &self.running.url
    }

    /// The database URL without its password.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Endpoint of the server in this process.
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint { url: self.running.url.clone(), token: Some(self.token.clone()) }
    }

    /// Returns true if a stop was requested.
    pub(crate) fn has_ended(&self) -> bool {
        self.stop.is_closed()
    }

    /// Serves until a signal arrives.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self { home, lock, runtime, stop, serving, .. } = self;
        let ended = runtime.block_on(serving);
        // Dropping it earlier would have stopped the server.
        drop(stop);
        end(&home, lock, runtime, ended)
    }

    pub(crate) fn stop(self) -> Result<(), Failure> {
        let Self { home, lock, runtime, stop, serving, .. } = self;
        // An error means that the server is already stopping.
        let _ = stop.send(());
        let ended = runtime.block_on(serving);
        end(&home, lock, runtime, ended)
    }
}

/// Worker threads get twice the usual stack. The futures of operations are large, above all in
/// unoptimised builds, and a stack overflow ends the server.
fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(4 << 20).build()
}

fn end(
    home: &Home,
    lock: Lock,
    runtime: Runtime,
    ended: Result<Result<(), Failure>, tokio::task::JoinError>,
) -> Result<(), Failure> {
    home.withdraw(&lock);
    runtime.shutdown_timeout(LAST_THREADS);
    drop(lock);
    ended.unwrap_or_else(|error| Err(Failure::new("the server ended with an error").because(&error)))
}

/// Takes ownership of the database, or fails if another server has it.
async fn own(store: &Store, home: &Home) -> Result<Ownership, Failure> {
    let owned = store.own(&holder(home)).await.map_err(|error| Failure::from_error(&error))?;
    owned.ok_or_else(|| {
        Failure::new("another Stead server uses this database")
            .hint("use that one, stop it first, or set STEAD_DATABASE_URL to another database")
    })
}

/// The name of this home for other servers on the same database.
pub(crate) fn holder(home: &Home) -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", machine.trim(), home.path().display())
}

fn disowned(reason: &str) -> Failure {
    Failure::new(format!("this server lost its database and stopped: {reason}"))
        .hint("nothing was acknowledged after the loss; start the server again when the other one is stopped")
}

async fn bind(listen: &Listen, when_taken: WhenTaken) -> Result<TcpListener, Failure> {
    let error = match TcpListener::bind(&listen.addresses[..]).await {
        Ok(listener) => return Ok(listener),
        Err(error) => error,
    };
    let taken = error.kind() == std::io::ErrorKind::AddrInUse;
    if taken && listen.by_default && when_taken == WhenTaken::TakeAnother {
        let any_port: Vec<SocketAddr> =
            listen.addresses.iter().map(|address| SocketAddr::new(address.ip(), 0)).collect();
        if let Ok(listener) = TcpListener::bind(&any_port[..]).await {
            return Ok(listener);
        }
    }
    let wanted = listen.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
    let failure = Failure::new(format!("cannot listen on {wanted}")).because(&error);
    Err(if taken {
        failure.hint("another program listens there; choose another with --listen HOST:PORT")
    } else {
        failure
    })
}

/// Completes at the first SIGTERM or SIGINT. The handlers are installed when this function returns,
/// before the future is awaited.
fn interrupted() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
    })
}

fn engine_settings(
    settings: &ServerSettings,
    (mirrors, mirror_retention): (Mirrors, Retention),
    images: Arc<Images>,
    clock_file: PathBuf,
) -> Settings {
    let defaults = Settings::default();
    Settings {
        default_provider: settings.default_provider,
        default_limits: settings.default_limits.clone(),
        network_presets: settings.network_presets.clone(),
        extra_roots: settings.extra_roots.clone(),
        max_sessions: settings.max_sessions,
        box_memory: settings.memory_overcommit.and_then(|overcommit| {
            let host_bytes = host_memory::bytes();
            if host_bytes.is_none() {
                tracing::warn!("the host's memory cannot be read, so memory_overcommit has no effect");
            }
            Some(BoxMemory { host_bytes: host_bytes?, overcommit })
        }),
        concurrent_creations: settings.limits.creations.unwrap_or(defaults.concurrent_creations),
        calls_per_session: settings.limits.calls_per_session.unwrap_or(defaults.calls_per_session),
        mirrors: Some(mirrors),
        images: Some(images),
        mirror_retention,
        blob_grace: settings.blob_grace,
        // This program, even if its file was replaced.
        parsers: stead_digest::Parsers::Worker("/proc/self/exe".into()),
        clock_file: Some(clock_file),
        ..defaults
    }
}

fn server_config(settings: ServerSettings, token: &Secret) -> ServerConfig {
    let config = ServerConfig {
        allowed_hosts: settings.allowed_hosts,
        allowed_origins: settings.allowed_origins,
        preview_domain: settings.preview_domain,
        admin_tokens: settings.tokens,
        drain_timeout: DRAIN,
        max_upload_bytes: settings.max_upload.bytes(),
        ..ServerConfig::default()
    };
    let config = settings.limits.over(config);
    let max_connections = descriptor_limit::connections_within(config.max_connections);
    ServerConfig { max_connections, ..config }.with_admin_token("admin", token.expose())
}

/// A URL that works on this machine, because a client cannot connect to the wildcard address.
fn url(address: SocketAddr) -> String {
    let mut address = address;
    if address.ip().is_unspecified() {
        let loopback =
            if address.is_ipv4() { std::net::Ipv4Addr::LOCALHOST.into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    format!("http://{address}")
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn warn_about_token(home: &Home) {
    if let Some(mode) = home.mode("token").filter(|mode| mode & 0o077 != 0) {
        let (path, mode) = (home.token_path(), format!("{mode:03o}"));
        tracing::warn!(path = %path.display(), mode, "other users can read the admin token; see stead doctor");
    }
}

/// Returns the instance name of this home on the host, by which the server recognises its boxes.
async fn identity(store: &Store, home: &Home, lock: &Lock) -> Result<Identity, Failure> {
    let drawn = || uuid::Uuid::now_v7().simple().to_string();
    let known = store.setting_or_insert("instance", &drawn()).await.map_err(|error| Failure::from_error(&error))?;
    home.identity(lock, &known, &drawn())
}

/// Every provider of this build. One that does not work on this host reports it in its health.
fn providers(
    Identity { instance, former }: Identity,
    home: &Home,
    podman: PodmanSettings,
    (layers, images): (Arc<LayerStore>, Arc<Images>),
) -> Result<Providers, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::new("cannot find this program").because(&error))?;
    let init = program.with_file_name("stead-init");
    let native = NativeConfig {
        home: home.path().to_owned(),
        instance: instance.clone(),
        former_instances: former.clone(),
        init: init.clone(),
    };
    let PodmanSettings { cache, target, runtime, image, pull, trees } = podman;
    let uids = home.path().join("uids");
    let podman = PodmanConfig {
        home: cache,
        uids,
        instance,
        former_instances: former,
        init,
        target,
        runtime,
        base_image: image,
        pull,
        trees,
    };
    Ok(Providers::default()
        .with(MemoryProvider::new())
        .with(NativeProvider::new(native, layers, images.clone()))
        .with(PodmanProvider::new(podman, images)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_an_address_one_can_connect_to() {
        for (address, expect) in [
            ("127.0.0.1:7717", "http://127.0.0.1:7717"),
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:80", "http://[::1]:80"),
        ] {
            assert_eq!(url(address.parse().unwrap()), expect);
        }
    }
}
