//! The contract of a provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use stead_core::capability::ProviderCapabilities;
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::{SessionId, SnapshotId, Timestamp, WorkspaceId};
use stead_fs::Digest;

use crate::contract::error::ProviderError;
use crate::contract::workspace::Workspace;
use crate::guest::off_thread;
use crate::overlay::layer_store::{LayerStore, Usage};

/// Whether a provider can be asked for workspaces now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Unhealthy { reason: String },
}

/// Fetch progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What it does, in a few words.
    pub stage: String,
    /// Percent of the known bytes; never decreases.
    pub percent: u64,
    pub detail: String,
}

/// Progress callback.
pub type Tell<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// One event of the journal that concerned the files, with the bytes at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    /// Where it stands: the session's journal and the place in it.
    pub session: SessionId,
    pub seq: u64,
    /// When what it tells of began: the time of its changes.
    pub at: Timestamp,
    pub changes: Vec<stead_fs::Change>,
    /// In the order they happened, after the changes.
    pub marks: Vec<Mark>,
    /// Of the whole tree after it; `None` if nothing happened to it.
    pub tree_hash: Option<String>,
}

/// What a file event did besides changing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Kept(SnapshotId),
    PutBack(SnapshotId),
    /// Provisioning was over.
    Began,
}

/// What a workspace takes on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct WorkspaceUsage {
    /// For itself alone.
    pub own_bytes: u64,
    /// Of layers that others may stand on too.
    pub shared_bytes: u64,
    pub shared_layers: u64,
}

/// What a provider is told when a server takes up a session again.
#[derive(Debug, Clone)]
pub struct AdoptOrder {
    pub create: CreateOrder,
    /// The workspace's whole history, oldest first, for a provider whose files live in the journal; empty for others.
    pub history: Vec<FileEvent>,
}

/// Makes, finds and removes workspaces. Orders are complete: a provider makes no choices and reads no configuration.
#[async_trait]
pub trait Provider: Send + Sync {
    fn name(&self) -> ProviderName;

    /// What it can do here. Constant while the server runs.
    fn capabilities(&self) -> ProviderCapabilities;

    /// Answers within a second or so; never makes anything.
    async fn health(&self) -> Health;

    /// Makes the box with an empty, writable workspace directory.
    ///
    /// Promises: on `Ok` the workspace exists and is listed; on `Err` nothing of it is left. What an earlier, interrupted attempt
    /// left under the same id is removed first. Two workspaces never share anything writable.
    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError>;

    /// Takes up a workspace that was there before the server restarted, as it was.
    ///
    /// Promises: on `Ok` its files are what the last acknowledged operation left. `Gone` if there is none; never a new, empty one.
    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError>;

    /// Removes the box, its processes and its files.
    ///
    /// Promises: on `Ok` nothing of it is left and it is not listed. Removing what is not there is `Ok`. Touches nothing it did not
    /// make.
    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError>;

    /// Every workspace of this server's that exists now, whoever remembers it.
    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError>;

    /// Objects on this host that the records of a copied home name and that the provider leaves
    /// alone, one description each.
    fn unclaimed(&self) -> Vec<String> {
        Vec::new()
    }

    /// The server ends: what was made for boxes to come goes. Workspaces stay.
    fn retire(&self) {}

    /// Boxes started ahead of time; `None` if this provider cannot have them here.
    fn warm_boxes(&self) -> Option<&dyn WarmBoxes>;

    /// Images that the provider keeps a copy of; `None` if it keeps none.
    fn image_cache(&self) -> Option<&dyn ImageCache>;

    /// Disk usage; `None` if its workspaces use no disk.
    fn disk_usage(&self) -> Option<&dyn DiskUsage>;
}

/// Boxes that are started before it is known which session gets them.
#[async_trait]
pub trait WarmBoxes: Send + Sync {
    /// Everything that shapes a box before it is known whose it is, as one key.
    ///
    /// Of the order it may look at the image and the disk, nothing else: the rest is bound by [`WarmBoxes::claim`].
    async fn shape(&self, order: &CreateOrder) -> Result<String, ProviderError>;

    /// Makes a box that belongs to no session yet. It answers when this returns; promises as for [`Provider::create`].
    async fn warm(&self, order: &CreateOrder) -> Result<(), ProviderError>;

    /// Gives a box that [`WarmBoxes::warm`] made to its session: limits and environment are bound now. Once.
    async fn claim(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError>;
}

/// A provider's own copies of images.
#[async_trait]
pub trait ImageCache: Send + Sync {
    /// Fetches the image that [`Provider::create`] will need and does not fetch itself, and reports progress.
    ///
    /// May take long. Dropping the future cancels it: it makes nothing that is the workspace's, so nothing is left to remove.
    async fn fetch(&self, order: &CreateOrder, tell: Tell<'_>) -> Result<(), ProviderError>;

    /// An imported image has no name any more: the copy made for boxes to come may go.
    async fn forget_image(&self, digest: &Digest) -> Result<(), ProviderError>;
}

/// What a provider's workspaces take on this host's disk.
#[async_trait]
pub trait DiskUsage: Send + Sync {
    /// Of one workspace; `None` if there is no such workspace or its size is unknown.
    async fn workspace_usage(&self, workspace: WorkspaceId) -> Result<Option<WorkspaceUsage>, ProviderError>;

    /// The store of the layers that its workspaces share. Several providers may have the same store.
    fn layers(&self) -> &Arc<LayerStore>;
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

    /// What the layers of all providers take, each store counted once. Leaves out a store that cannot be read.
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
