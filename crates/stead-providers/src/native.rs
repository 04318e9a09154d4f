//! The native provider: boxes on this host's own kernel without a daemon, as root or as an ordinary
//! user.
//!
//! Their workspaces are overlays ([`crate::overlay`]). The box starts over the current layers at
//! the first operation that needs it, and stops when a snapshot freezes what it wrote.

mod box_root;
mod boxes;
mod spares;

use std::sync::Arc;

use async_trait::async_trait;
use stead_box::{BoxError, Held, RunningBox};
use stead_core::WorkspaceId;
use stead_core::box_facts::{Allowances, BoxFacts};
use stead_core::capability::{FileStorage, LimitKind, ProviderCapabilities};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::network::Reach;
use stead_core::pause::PauseMode;
use stead_core::policy::PolicyKind;
use stead_core::registry::Side;

use crate::contract::error::ProviderError;
use crate::contract::provider::{AdoptOrder, DiskUsage, Health, ImageCache, Provider, WarmBoxes, WorkspaceUsage};
use crate::contract::setup_cache::SetupEntry;
use crate::contract::workspace::Workspace;
use crate::guest::{GuestWorkspace, limit_kinds, off_thread};
use crate::overlay::images::Images;
use crate::overlay::layer_store::LayerStore;
use crate::overlay::{Boxes, Directories, Lineage, OverlayBox, Running, Workspaces};
pub use box_root::NativeConfig;
pub(crate) use box_root::network_shape;
use boxes::{NativeBox, NativeBoxes};
use spares::Spares;

pub struct NativeProvider {
    config: NativeConfig,
    workspaces: Arc<Workspaces>,
    boxes: Arc<NativeBoxes>,
    enforceable: Held,
}

impl NativeProvider {
    /// Other providers of the same server may use the same `layers`.
    pub fn new(config: NativeConfig, layers: Arc<LayerStore>, images: Arc<Images>) -> Self {
        let instances = (config.instance.clone(), config.former_instances.clone());
        let directories = Directories::new(config.home.clone(), instances, config.home.join("uids"));
        let workspaces = Arc::new(Workspaces::open(directories, layers));
        let spares = Spares::new(config.init.clone(), config.home.join("spares"));
        let boxes = NativeBoxes { init: config.init.clone(), workspaces: workspaces.clone(), images, spares };
        Self { config, workspaces, boxes: Arc::new(boxes), enforceable: stead_box::enforceable() }
    }

    fn workspace(&self, order: &CreateOrder) -> Arc<dyn Workspace> {
        Arc::new(GuestWorkspace::new(self.overlay_box(order)))
    }

    fn overlay_box(&self, order: &CreateOrder) -> OverlayBox {
        let (workspaces, state) = (self.workspaces.clone(), self.workspaces.state(order.workspace));
        let started_anew = state.lock().is_ok_and(|state| state.running.is_none()).into();
        let asked = [
            (order.limits.cpu.is_some(), LimitKind::Cpu),
            (order.limits.memory.is_some(), LimitKind::Memory),
            (order.limits.disk.is_some(), LimitKind::Disk),
            (order.limits.pids.is_some(), LimitKind::Pids),
        ];
        let enforceable = limit_kinds(self.enforceable);
        // The box starts later. Its start fails if one of these limits cannot be enforced then.
        let promised = asked.into_iter().filter(|(asked, limit)| *asked && enforceable.contains(limit));
        let promised = promised.map(|(_, limit)| limit).collect();
        let lineage = self.workspaces.lineage(order.workspace);
        let image = lineage.as_ref().and_then(|lineage| lineage.image.clone());
        let made = BoxFacts {
            image: image.as_ref().map(|image| image.reference.clone()).or_else(|| box_root::named_directory(order)),
            image_digest: image.map(|image| image.digest.to_string()),
            runtime: None,
            warm: lineage.is_some_and(|lineage| lineage.claimed),
            trees: None,
            allowances: Some(if stead_box::runs_as_root() { Allowances::Own } else { Allowances::Shared }),
            network: Some(order.network).filter(|reach| *reach != Reach::None),
        };
        let boxes: Arc<dyn Boxes> = self.boxes.clone();
        OverlayBox { order: order.clone(), workspaces, boxes, state, promised, made, started_anew }
    }
}

#[async_trait]
impl Provider for NativeProvider {
    fn name(&self) -> ProviderName {
        ProviderName::Native
    }

    fn capabilities(&self) -> ProviderCapabilities {
        ProviderCapabilities {
            workspace_provider: vec![Side::Host, Side::Guest],
            policies: vec![PolicyKind::Git, PolicyKind::Empty, PolicyKind::Bundle, PolicyKind::Mount],
            tools: crate::guest::TOOLS.to_vec(),
            enforced_limits: limit_kinds(self.enforceable),
            setup_commands: true,
            files: FileStorage::Host,
            network: Reach::Captured,
        }
    }

    async fn health(&self) -> Health {
        match self.config.check() {
            Ok(()) => Health::Healthy,
            Err(reason) => Health::Unhealthy { reason },
        }
    }

    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let (boxes, ordered) = (self.boxes.clone(), order.clone());
        off_thread(move || {
            boxes.workspaces.reserve(ordered.workspace, |directories| {
                let image = box_root::image(&boxes.images, &ordered)?;
                let ids = directories.take_ids(ordered.workspace)?;
                let mut lineage = Lineage::new(&directories.instance, ids);
                lineage.image = image;
                Ok(lineage)
            })
        })
        .await?;
        Ok(self.workspace(order))
    }

    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let (workspaces, id) = (self.workspaces.clone(), order.create.workspace);
        off_thread(move || {
            workspaces.adopt(id, |_| match RunningBox::find(&workspaces.directories.directory(id)) {
                Err(BoxError::Gone { .. }) => Ok(None),
                found => Ok(Some(Arc::new(NativeBox(found?)) as Arc<dyn Running>)),
            })
        })
        .await?;
        let overlay_box = self.overlay_box(&order.create);
        off_thread(move || overlay_box.lend_network_again()).await?;
        Ok(self.workspace(&order.create))
    }

    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError> {
        let workspaces = self.workspaces.clone();
        off_thread(move || workspaces.remove(workspace)).await
    }

    fn freezes(&self) -> Result<(), &'static str> {
        if stead_box::can_freeze() { Ok(()) } else { Err("this host gives the server no control groups of version 2") }
    }

    async fn pause(&self, workspace: WorkspaceId, mode: PauseMode) -> Result<(), ProviderError> {
        let workspaces = self.workspaces.clone();
        off_thread(move || match mode {
            PauseMode::Stop => {
                workspaces.stop_with(workspace, |directory, volume| Ok(stead_box::stop(directory, volume)?))
            }
            PauseMode::Freeze => {
                let directory = workspaces.directories.directory(workspace);
                match RunningBox::find(&directory) {
                    // No box runs, for example after a snapshot. The next one starts after the
                    // resume.
                    Err(BoxError::Gone { .. }) => Ok(()),
                    found => Ok(found.and_then(|_| stead_box::freeze(&directory))?),
                }
            }
        })
        .await
    }

    async fn thaw(&self, workspace: WorkspaceId) -> Result<(), ProviderError> {
        let workspaces = self.workspaces.clone();
        off_thread(move || match stead_box::thaw(&workspaces.directories.directory(workspace)) {
            // The box has ended, for example with the host. A new one starts over its files.
            Err(BoxError::Gone { .. }) => Ok(()),
            thawed => Ok(thawed?),
        })
        .await
    }

    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError> {
        let workspaces = self.workspaces.clone();
        off_thread(move || workspaces.list()).await
    }

    fn unclaimed(&self) -> Vec<String> {
        self.workspaces.unclaimed.clone()
    }

    fn retire(&self) {
        self.boxes.spares.retire();
    }

    fn warm_boxes(&self) -> Option<&dyn WarmBoxes> {
        // Binding limits to a running box goes through its cgroups, which needs root.
        if stead_box::runs_as_root() { Some(self) } else { None }
    }

    fn image_cache(&self) -> Option<&dyn ImageCache> {
        None
    }

    fn disk_usage(&self) -> Option<&dyn DiskUsage> {
        Some(self)
    }
}

#[async_trait]
impl WarmBoxes for NativeProvider {
    async fn shape(&self, order: &CreateOrder) -> Result<String, ProviderError> {
        let (boxes, order) = (self.boxes.clone(), order.clone());
        off_thread(move || box_root::shape(&boxes.images, &order)).await
    }

    async fn warm(&self, order: &CreateOrder) -> Result<(), ProviderError> {
        self.create(order).await?;
        let overlay_box = self.overlay_box(order);
        off_thread(move || {
            let warmed = overlay_box.warm();
            if warmed.is_err() {
                // Ignore a failed removal: no session refers to the workspace, so the next server
                // start removes it.
                let _ = overlay_box.workspaces.remove(overlay_box.order.workspace);
            }
            warmed
        })
        .await
    }

    async fn claim(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let overlay_box = self.overlay_box(order);
        off_thread(move || {
            let env = box_root::env(&overlay_box.order, &overlay_box.lineage()?);
            overlay_box.claim(env)
        })
        .await?;
        Ok(self.workspace(order))
    }
}

#[async_trait]
impl DiskUsage for NativeProvider {
    async fn workspace_usage(&self, workspace: WorkspaceId) -> Result<Option<WorkspaceUsage>, ProviderError> {
        let workspaces = self.workspaces.clone();
        off_thread(move || workspaces.usage(workspace)).await
    }

    fn layers(&self) -> &Arc<LayerStore> {
        &self.workspaces.layers
    }

    async fn setups(&self) -> Result<Vec<SetupEntry>, ProviderError> {
        let workspaces = self.workspaces.clone();
        off_thread(move || Ok(workspaces.kept_setups())).await
    }

    async fn remove_setup(&self, id: String) -> Result<bool, ProviderError> {
        let workspaces = self.workspaces.clone();
        off_thread(move || workspaces.remove_setup(&id)).await
    }
}
