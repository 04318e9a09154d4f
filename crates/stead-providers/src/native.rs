//! The native provider: boxes of this host's own kernel, no daemon, no image, as root and as an ordinary user.
//!
//! Everything of a workspace is in one directory, `boxes/<id>`: the box's record, its volume, its snapshots. So removing that directory
//! by `stead_box::remove` removes the workspace, and listing the directories lists the workspaces. What happens in a box is
//! [`crate::boxed`].

mod home;
mod place;

use std::sync::Arc;

use async_trait::async_trait;
use stead_box::{BoxError, Held};
use stead_core::WorkspaceId;
use stead_core::capability::{FileHome, LimitKind, ProviderCapabilities};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::policy::PolicyKind;
use stead_core::registry::Side;
use stead_core::tool::ToolName;

use crate::boxed::{BoxedWorkspace, off_thread};
use crate::error::ProviderError;
use crate::provider::{AdoptOrder, Health, Provider};
use crate::workspace::Workspace;
use home::NativeHome;
pub use place::NativeConfig;
use place::{Place, Taken};

pub struct NativeProvider {
    place: Arc<Place>,
    enforceable: Held,
}

impl NativeProvider {
    pub fn new(config: NativeConfig) -> Self {
        Self { place: Arc::new(Place::new(config)), enforceable: stead_box::enforceable() }
    }

    fn workspace(&self, id: WorkspaceId, taken: Taken) -> Arc<dyn Workspace> {
        let (running, started_anew) = match taken {
            Taken::Found(running) => (running, false),
            Taken::Started(running) => (running, true),
        };
        Arc::new(BoxedWorkspace::new(NativeHome { id, running, place: self.place.clone(), started_anew }))
    }
}

fn limits(held: Held) -> Vec<LimitKind> {
    let kinds = [
        (held.cpu, LimitKind::Cpu),
        (held.memory, LimitKind::Memory),
        (held.disk, LimitKind::Disk),
        (held.pids, LimitKind::Pids),
    ];
    kinds.into_iter().filter(|(holds, _)| *holds).map(|(_, kind)| kind).collect()
}

#[async_trait]
impl Provider for NativeProvider {
    fn name(&self) -> ProviderName {
        ProviderName::Native
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
                ToolName::Bash,
                ToolName::Python,
                ToolName::Eval,
            ],
            enforced_limits: limits(self.enforceable),
            setup_commands: true,
            files: FileHome::Host,
        }
    }

    async fn health(&self) -> Health {
        match self.place.check() {
            Ok(()) => Health::Healthy,
            Err(reason) => Health::Unhealthy { reason },
        }
    }

    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let (place, order) = (self.place.clone(), order.clone());
        let id = order.workspace;
        let running = off_thread(move || {
            place.remove(id)?;
            place.create(&order)
        });
        Ok(self.workspace(id, Taken::Started(running.await?)))
    }

    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let (place, order) = (self.place.clone(), order.create.clone());
        let id = order.workspace;
        let running = off_thread(move || match place.adopt(&order) {
            Err(ProviderError::Box { source: BoxError::Gone { .. } }) => Err(ProviderError::Gone { workspace: id }),
            adopted => adopted,
        });
        Ok(self.workspace(id, running.await?))
    }

    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError> {
        let place = self.place.clone();
        off_thread(move || place.remove(workspace)).await
    }

    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError> {
        let place = self.place.clone();
        off_thread(move || place.list()).await
    }
}
