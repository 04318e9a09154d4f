//! The memory provider: files in the server's memory, no processes, thousands of workspaces per
//! second.
//!
//! Its files live in the journal. A change becomes visible only after the engine has recorded it
//! ([`Staged`]), and after a restart the tree is the fold of the recorded changes. So a crash never
//! loses an acknowledged write and never keeps an unacknowledged one.

mod compare;
mod fill;
mod operate;
mod rebuild;
mod tree;
mod workspace;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use stead_core::WorkspaceId;
use stead_core::capability::{FileStorage, LimitKind, ProviderCapabilities};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::network::Reach;
use stead_core::pause::PauseMode;
use stead_core::policy::PolicyKind;
use stead_core::registry::Side;
use stead_core::tool::ToolName;

use crate::contract::error::ProviderError;
use crate::contract::provider::{AdoptOrder, DiskUsage, Health, ImageCache, Provider, WarmBoxes};
use crate::contract::workspace::Workspace;
pub use rebuild::{RebuildError, rebuild};
use tree::{Kept, Tree};
use workspace::MemoryWorkspace;

#[cfg(doc)]
use crate::contract::workspace::Staged;

#[derive(Default)]
pub struct MemoryProvider {
    workspaces: Mutex<HashMap<WorkspaceId, Arc<MemoryWorkspace>>>,
    /// Snapshots of all workspaces, so that a new workspace can start from another one's snapshot.
    kept: Kept,
}

impl MemoryProvider {
    pub fn new() -> Self {
        Self::default()
    }

    fn keep(&self, order: &CreateOrder, tree: Tree) -> Arc<dyn Workspace> {
        let workspace = Arc::new(MemoryWorkspace::new(order, tree, self.kept.clone()));
        self.lock().insert(order.workspace, workspace.clone());
        workspace
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WorkspaceId, Arc<MemoryWorkspace>>> {
        // The map is only inserted into and removed from, so a panic cannot leave it inconsistent.
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Provider for MemoryProvider {
    fn name(&self) -> ProviderName {
        ProviderName::Memory
    }

    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities {
            workspace_provider: vec![Side::Host, Side::Guest],
            policies: vec![PolicyKind::Git, PolicyKind::Empty, PolicyKind::Bundle],
            tools: vec![
                ToolName::Ls,
                ToolName::Read,
                ToolName::Write,
                ToolName::Edit,
                ToolName::Glob,
                ToolName::Grep,
                ToolName::Rm,
                ToolName::Move,
                ToolName::Copy,
                ToolName::Mkdir,
                ToolName::Stat,
                ToolName::MultiEdit,
                ToolName::Eval,
            ],
            enforced_limits: vec![LimitKind::Disk],
            setup_commands: false,
            files: FileStorage::Journal,
            network: Reach::None,
        }
    }

    async fn health(&self) -> Health {
        Health::Healthy
    }

    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        self.kept.forget(order.workspace);
        Ok(self.keep(order, Tree::default()))
    }

    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let workspace = order.create.workspace;
        let rebuilt = rebuild(&order.history).map_err(|source| ProviderError::Rebuild { workspace, source })?;
        for (snapshot, files) in rebuilt.snapshots {
            self.kept.keep(workspace, snapshot, files);
        }
        Ok(self.keep(&order.create, rebuilt.tree))
    }

    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError> {
        self.lock().remove(&workspace);
        self.kept.forget(workspace);
        Ok(())
    }

    fn freezes(&self) -> Result<(), &'static str> {
        Err("a memory workspace has no processes")
    }

    /// Drops the files, which are in the journal. Snapshots stay for clones.
    async fn pause(&self, workspace: WorkspaceId, mode: PauseMode) -> Result<(), ProviderError> {
        if mode == PauseMode::Freeze {
            return Err(ProviderError::Unsupported { provider: ProviderName::Memory, action: "freeze" });
        }
        self.lock().remove(&workspace);
        Ok(())
    }

    async fn thaw(&self, _: WorkspaceId) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError> {
        Ok(self.lock().keys().copied().collect())
    }

    fn warm_boxes(&self) -> Option<&dyn WarmBoxes> {
        None
    }

    fn image_cache(&self) -> Option<&dyn ImageCache> {
        None
    }

    fn disk_usage(&self) -> Option<&dyn DiskUsage> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_provider_has_every_tool_that_needs_no_box() {
        let offered: BTreeSet<ToolName> = MemoryProvider::new().capabilities().tools.into_iter().collect();
        let without_box = ToolName::ALL.iter().copied().filter(|tool| !tool.needs_box());
        assert_eq!(offered, without_box.collect::<BTreeSet<_>>());
    }
}
