//! The contract of a provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use stead_core::capability::ProviderCapabilities;
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::pause::PauseMode;
use stead_core::{SessionId, SnapshotId, Timestamp, WorkspaceId};
use stead_fs::ContentHash;

use crate::contract::error::ProviderError;
use crate::contract::setup_cache::SetupEntry;
use crate::contract::workspace::Workspace;
use crate::guest::off_thread;
use crate::overlay::layer_store::{LayerStore, Usage};

/// The health of a provider: whether it can make workspaces now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Unhealthy { reason: String },
}

/// Fetch progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// A few words that name the current stage.
    pub stage: String,
    /// Percent of the known bytes; never decreases.
    pub percent: u64,
    pub detail: String,
}

/// Progress callback.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// One journal event that concerns files, with the bytes of its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// The session's journal and the event's sequence number in it.
    pub session: SessionId,
    pub seq: u64,
    /// When the operation of this event began; the modification time of its changes.
    pub at: Timestamp,
    pub changes: Vec<stead_fs::Change>,
    /// In the order they happened; they come after the changes.
    pub marks: Vec<Mark>,
    /// Hash of the whole tree after the event; `None` if the event did not touch the tree.
    pub tree_hash: Option<String>,
}

/// An effect of a file event other than changing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Kept(SnapshotId),
    PutBack(SnapshotId),
    /// Provisioning finished.
    Began,
}

/// The disk space that a workspace uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct WorkspaceUsage {
    /// Bytes that only this workspace uses.
    pub own_bytes: u64,
    /// Bytes of layers that other workspaces may use too.
    pub shared_bytes: u64,
    pub shared_layers: u64,
}

/// An order to adopt a session's workspace after a server start.
#[derive(Debug, Clone)]
pub struct AdoptOrder {
    pub create: CreateOrder,
    /// The workspace's whole history, oldest first, for a provider that keeps its files in the
    /// journal; empty for others.
    pub history: Vec<FileEvent>,
}

/// Makes, adopts, lists and removes workspaces. Orders are complete: a provider makes no choices
/// and reads no configuration.
#[async_trait]
pub trait Provider: Send + Sync {
    fn name(&self) -> ProviderName;

    /// The provider's capabilities on this host. Constant while the server runs.
    fn capabilities(&self) -> ProviderCapabilities;

    /// Checks the provider within about a second; creates nothing.
    async fn health(&self) -> Health;

    /// Makes the box with an empty, writable workspace directory.
    ///
    /// Promises: on `Ok` the workspace exists and is listed; on `Err` no trace of it remains.
    /// Removes the remains of an interrupted attempt under the same id first. Two workspaces never
    /// share anything writable.
    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError>;

    /// Adopts a workspace that existed before the server restarted.
    ///
    /// Promises: on `Ok` its files are in the state that the last acknowledged operation left.
    /// Returns `Gone` if the workspace does not exist; never makes a new, empty one.
    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError>;

    /// Removes the box, its processes and its files.
    ///
    /// Promises: on `Ok` no trace of it remains and it is not listed. Removing a workspace that
    /// does not exist is `Ok`. Touches nothing that the provider did not make.
    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError>;

    /// Returns the reason if this provider cannot freeze boxes on this host.
    fn freezes(&self) -> Result<(), &'static str>;

    /// Stops or freezes the box of a workspace.
    ///
    /// Promises: after `Stop` no process of the box runs, its files stay and are durable, and only
    /// [`Provider::adopt`] makes a box over them again. After `Freeze` its processes exist and do
    /// not run. Pausing a paused box is `Ok`.
    async fn pause(&self, workspace: WorkspaceId, mode: PauseMode) -> Result<(), ProviderError>;

    /// Lets the processes of a frozen box run again. `Ok` for a box that is not frozen or has
    /// ended.
    async fn thaw(&self, workspace: WorkspaceId) -> Result<(), ProviderError>;

    /// Lists all existing workspaces of this server, including those that no session refers to.
    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError>;

    /// Returns one description for each object on this host that the records of a copied home name
    /// and that the provider does not touch.
    fn unclaimed(&self) -> Vec<String> {
        Vec::new()
    }

    /// Called when the server stops: removes what was prepared for future boxes. Workspaces stay.
    fn retire(&self) {}

    /// Boxes started ahead of time; `None` if this provider does not support them on this host.
    fn warm_boxes(&self) -> Option<&dyn WarmBoxes>;

    /// Images that the provider keeps a copy of; `None` if it keeps none.
    fn image_cache(&self) -> Option<&dyn ImageCache>;

    /// Disk usage; `None` if its workspaces use no disk.
    fn disk_usage(&self) -> Option<&dyn DiskUsage>;
}

/// Boxes that start before a session claims them.
#[async_trait]
pub trait WarmBoxes: Send + Sync {
    /// Returns one key for everything that is fixed in a box before a session claims it.
    ///
    /// The key may depend on the order's image and disk limit only: [`WarmBoxes::claim`] binds the
    /// rest.
    async fn shape(&self, order: &CreateOrder) -> Result<String, ProviderError>;

    /// Makes a box without a session. The box answers when this returns; promises as for
    /// [`Provider::create`].
    async fn warm(&self, order: &CreateOrder) -> Result<(), ProviderError>;

    /// Gives a box of [`WarmBoxes::warm`] to a session and binds its limits and environment. A box
    /// can be claimed once.
    async fn claim(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError>;
}

/// A provider's own copies of images.
#[async_trait]
pub trait ImageCache: Send + Sync {
    /// Fetches the image that [`Provider::create`] needs but does not fetch itself. Reports
    /// progress.
    ///
    /// May take long. Dropping the future cancels the fetch. Nothing needs cleaning up then,
    /// because a fetch makes no part of the workspace.
    async fn fetch(&self, order: &CreateOrder, on_progress: OnProgress<'_>) -> Result<(), ProviderError>;

    /// Called when an imported image has lost its last name: the provider may delete its copy.
    async fn forget_image(&self, digest: &ContentHash) -> Result<(), ProviderError>;
}

/// The disk usage of a provider's workspaces on this host.
#[async_trait]
pub trait DiskUsage: Send + Sync {
    /// Usage of one workspace; `None` if it does not exist or its size is unknown.
    async fn workspace_usage(&self, workspace: WorkspaceId) -> Result<Option<WorkspaceUsage>, ProviderError>;

    /// The store of the layers that its workspaces share. Several providers may use the same store.
    fn layers(&self) -> &Arc<LayerStore>;

    /// Lists the kept setup results, the most recently used first.
    async fn setups(&self) -> Result<Vec<SetupEntry>, ProviderError>;

    /// Removes a kept setup result. Its files stay while a workspace uses them. Returns false if
    /// there is no such result.
    async fn remove_setup(&self, id: String) -> Result<bool, ProviderError>;
}

/// The providers of one server.
#[derive(Clone, Default)]
pub struct Providers(BTreeMap<ProviderName, Arc<dyn Provider>>);

impl Providers {
    pub fn with(mut self, provider: impl Provider + 'static) -> Self {
        self.0.insert(provider.name(), Arc::new(provider));
        self
    }

    pub fn get(&self, name: ProviderName) -> Result<&Arc<dyn Provider>, ProviderError> {
        self.0.get(&name).ok_or(ProviderError::Absent { provider: name })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.0.values()
    }

    /// Disk usage of the layers of all providers. Counts each store once and skips unreadable
    /// stores.
    pub async fn layer_usage(&self) -> Usage {
        let mut stores: Vec<Arc<LayerStore>> = Vec::new();
        for usage in self.iter().filter_map(|provider| provider.disk_usage()) {
            if !stores.iter().any(|store| Arc::ptr_eq(store, usage.layers())) {
                stores.push(usage.layers().clone());
            }
        }
        let mut sum = Usage::default();
        for store in stores {
            if let Ok(usage) = off_thread(move || store.usage()).await {
                sum.layers += usage.layers;
                sum.bytes += usage.bytes;
                sum.held_layers += usage.held_layers;
                sum.held_bytes += usage.held_bytes;
            }
        }
        sum
    }

    pub fn capabilities(&self) -> BTreeMap<ProviderName, ProviderCapabilities> {
        self.0.iter().map(|(name, provider)| (*name, provider.capabilities())).collect()
    }
}
