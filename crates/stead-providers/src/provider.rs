//! The contract of a provider.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use stead_core::capability::ProviderCapabilities;
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::{SessionId, SnapshotId, Timestamp, WorkspaceId};
use stead_fs::Digest;

use crate::error::ProviderError;
use crate::layers::Usage;
use crate::workspace::Workspace;

/// Whether a provider can be asked for workspaces now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    Healthy,
    Unhealthy { reason: String },
}

/// How far a provider is with what it fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// What it does, in a few words.
    pub stage: String,
    /// Of what is known to be fetched; never less than it was.
    pub percent: u64,
    pub detail: String,
}

/// Who is told of it.
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

    /// Fetches from elsewhere what [`Provider::create`] will need and does not fetch itself, and tells now and then how far it is.
    ///
    /// May take long. Given up whenever it is dropped: it makes nothing that is the workspace's, so nothing is left to remove.
    async fn fetch(&self, _order: &CreateOrder, _tell: Tell<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Makes the box with an empty, writable workspace directory.
    ///
    /// Promises: on `Ok` the workspace exists and is listed; on `Err` nothing of it is left. What an earlier, interrupted attempt
    /// left under the same id is removed first. Two workspaces never share anything writable.
    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError>;

    /// Everything that shapes a box before it is known whose it is, as one key; `None` if boxes cannot be kept ready here.
    ///
    /// Of the order it may look at the image and the disk, nothing else: the rest is bound by [`Provider::claim`].
    async fn shape(&self, _order: &CreateOrder) -> Result<Option<String>, ProviderError> {
        Ok(None)
    }

    /// Makes a box that is nobody's yet. It answers when this returns; promises as for [`Provider::create`].
    async fn warm(&self, _order: &CreateOrder) -> Result<(), ProviderError> {
        Err(ProviderError::Unsupported { provider: self.name(), action: "warm" })
    }

    /// Gives a box that [`Provider::warm`] made to its session: limits and environment are bound now. Once.
    async fn claim(&self, _order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        Err(ProviderError::Unsupported { provider: self.name(), action: "claim" })
    }

    /// Takes up a workspace that was there before the server restarted, as it was.
    ///
    /// Promises: on `Ok` its files are what the last acknowledged operation left. `Gone` if there is none; never a new, empty one.
    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError>;

    /// Removes the box, its processes and its files.
    ///
    /// Promises: on `Ok` nothing of it is left and it is not listed. Removing what is not there is `Ok`. Touches nothing it did not
    /// make.
    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError>;

    /// An imported image is no longer named here: what was made of it for boxes to come may go.
    async fn forget_image(&self, _digest: &Digest) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Every workspace of this server's that exists now, whoever remembers it.
    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError>;

    /// Objects on this host that the records of a copied home name and that the provider leaves
    /// alone, one description each.
    fn unclaimed(&self) -> Vec<String> {
        Vec::new()
    }

    /// The server ends: what was made for boxes to come goes. Workspaces stay.
    fn retire(&self) {}

    /// What a workspace takes on this host's disk; `None` where nobody can tell.
    async fn usage(&self, _workspace: WorkspaceId) -> Result<Option<WorkspaceUsage>, ProviderError> {
        Ok(None)
    }

    /// What its workspaces share; `None` where they share nothing.
    async fn shared_usage(&self) -> Result<Option<Usage>, ProviderError> {
        Ok(None)
    }
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

    pub fn capabilities(&self) -> BTreeMap<ProviderName, ProviderCapabilities> {
        self.0.iter().map(|(name, provider)| (*name, provider.capabilities())).collect()
    }
}
