//! The Podman provider: one container per session, from any image, through Podman's REST API.
//!
//! Podman makes the container with `stead-init` as its first process. From then on the server talks
//! to `stead-init` directly, so calls do not pay for Podman. All data of a workspace is in one
//! directory ([`box_records`]); the requests to Podman are in [`container`].

mod abandoned_containers;
mod address;
mod box_records;
mod boxes;
mod client;
mod container;
mod copied_box;
mod file_body;
mod image;
mod imported;
mod orphan_containers;
mod pull;
mod start;
mod tunnel;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use stead_box::Held;
use stead_core::WorkspaceId;
pub use stead_core::box_facts::Trees;
use stead_core::box_facts::{Allowances, BoxFacts};
use stead_core::capability::{FileStorage, ProviderCapabilities};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::network::Reach;
use stead_core::pause::PauseMode;
use stead_core::policy::PolicyKind;
use stead_core::registry::Side;
use stead_fs::ContentHash;

use crate::contract::error::ProviderError;
use crate::contract::provider::{
    AdoptOrder, DiskUsage, Health, ImageCache, OnProgress, Provider, WarmBoxes, WorkspaceUsage,
};
use crate::contract::setup_cache::SetupEntry;
use crate::contract::workspace::Workspace;
use crate::guest::{GuestWorkspace, limit_kinds, off_thread};
use crate::overlay::images::Images;
use crate::overlay::layer_store::LayerStore;
use crate::overlay::{self, OverlayBox, Workspaces, limits};
use abandoned_containers::AbandonedContainers;
pub use address::PodmanTarget;
use box_records::{BoxRecords, Record};
use boxes::PodmanBoxes;
use client::Client;
use copied_box::CopiedBox;
use image::Image;
pub use image::Pull;
use pull::Pulls;
use start::{Podman, env};
use tunnel::Tunnel;

/// The configuration of the Podman provider.
#[derive(Debug, Clone)]
pub struct PodmanConfig {
    /// The directory for the data of all sessions; only the server's user may read it.
    pub home: PathBuf,
    /// The directory of uid ranges, shared with the other providers.
    pub uids: PathBuf,
    /// Identifies this server: letters, digits, `_` and `-`. The provider never touches containers
    /// of other instances.
    pub instance: String,
    /// Instances of homes that this one is a copy of. The provider adopts their files, but not
    /// their containers.
    pub former_instances: Vec<String>,
    /// Path of the `stead-init` program.
    pub init: PathBuf,
    pub target: PodmanTarget,
    /// `runc`, `crun` or `runsc`, a name from Podman's configuration; `None` for Podman's default.
    pub runtime: Option<String>,
    /// The image for agent types that name none.
    pub base_image: String,
    pub pull: Pull,
    /// The way files of boxes are kept. Layers are shared only if this host supports that.
    pub trees: Trees,
}

/// The origin of an adopted box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Found,
    /// Started again over the files of its predecessor.
    Started,
}

pub struct PodmanProvider {
    podman: Arc<Podman>,
    boxes: Arc<PodmanBoxes>,
    pulls: Arc<Pulls>,
    images: Arc<Images>,
    /// Held while an imported image is copied to Podman, so that it is copied once.
    lending: tokio::sync::Mutex<()>,
    /// Containers that copied records name and that do not belong to this server.
    unclaimed: Vec<String>,
}

impl PodmanProvider {
    /// Shares layers with all other users of the store that holds the images.
    pub fn new(config: PodmanConfig, images: Arc<Images>) -> Self {
        let tunnel = Tunnel::new(config.home.join("ssh.sock"));
        let client = Arc::new(Client::new(config.target.resolve(), tunnel));
        let abandoned =
            Arc::new(AbandonedContainers::new(config.home.join("late"), config.instance.clone(), client.clone()));
        let records = Arc::new(BoxRecords::new(config.home.clone(), config.instance.clone(), config.uids.clone()));
        let unclaimed = records.disown(&config.former_instances);
        let instances = (config.instance.clone(), config.former_instances.clone());
        let directories = overlay::Directories::new(config.home.clone(), instances, config.uids.clone());
        let workspaces = Arc::new(Workspaces::open(directories, images.layers().clone()));
        let podman = Arc::new(Podman {
            config,
            client,
            records,
            abandoned,
            workspaces,
            overlay_tested: OnceLock::new(),
            orphans_sought: OnceLock::new(),
        });
        let boxes = Arc::new(PodmanBoxes(podman.clone()));
        Self { podman, boxes, pulls: Arc::default(), images, lending: tokio::sync::Mutex::default(), unclaimed }
    }

    /// Checks whether workspaces share layers on this host; the error says why they are copied. May
    /// block.
    pub fn shares_layers(&self) -> Result<(), String> {
        let home = &self.podman.config.home;
        self.podman.records.check().map_err(|error| format!("cannot use {}: {error}", home.display()))?;
        self.podman.supports_overlay()
    }

    fn made(&self, order: &CreateOrder, record: &Record) -> BoxFacts {
        BoxFacts {
            image: Some(record.image.reference.clone()),
            image_digest: Some(record.image.digest.clone()),
            runtime: record.runtime.clone(),
            warm: record.warm,
            trees: Some(if record.overlay { Trees::Shared } else { Trees::Copied }),
            // gVisor counts in its own kernel. Other runtimes create the user namespace as the user
            // they run as.
            allowances: Some(match self.podman.is_of_this_kernel() {
                true => Allowances::Shared,
                false => Allowances::Own,
            }),
            network: Some(order.network).filter(|reach| *reach != Reach::None),
        }
    }

    fn workspace(&self, order: &CreateOrder, record: &Record, taken: Taken) -> Arc<dyn Workspace> {
        let (id, started_anew) = (order.workspace, taken == Taken::Started);
        if record.overlay {
            return Arc::new(GuestWorkspace::new(OverlayBox {
                started_anew: started_anew.into(),
                ..self.overlay_box(order, record)
            }));
        }
        let (records, made) = (self.podman.records.clone(), self.made(order, record));
        let enforced_limits = limit_kinds(record.held);
        Arc::new(GuestWorkspace::new(CopiedBox { id, records, enforced_limits, made, started_anew }))
    }

    /// The workspace of a box over layers. Limits that hold now must hold again after every
    /// restart.
    fn overlay_box(&self, order: &CreateOrder, record: &Record) -> OverlayBox {
        let workspaces = self.podman.workspaces.clone();
        OverlayBox {
            order: order.clone(),
            state: workspaces.state(order.workspace),
            workspaces,
            boxes: self.boxes.clone(),
            promised: limit_kinds(record.held),
            made: self.made(order, record),
            started_anew: false.into(),
        }
    }

    /// The image that the order names. Refuses a host directory: only `native` supports that.
    fn reference<'a>(&'a self, order: &'a CreateOrder) -> Result<&'a str, ProviderError> {
        match order.base_image.as_deref().unwrap_or(&self.podman.config.base_image) {
            path if path.starts_with('/') => {
                let reason = format!(
                    "base_image {path:?} is a directory, and podman runs images: import it with stead image import"
                );
                Err(ProviderError::BaseImage { reason })
            }
            reference => Ok(reference),
        }
    }

    /// Makes a new directory, volume and container.
    async fn make(&self, order: &CreateOrder) -> Result<Record, ProviderError> {
        let reference = self.reference(order)?;
        let image = match self.lend(reference, order).await? {
            Some(image) => image,
            None => self.own_image(reference, order).await?,
        };
        let (podman, asked) = (self.podman.clone(), order.clone());
        let record = off_thread(move || podman.set_aside(&asked, image));
        let record = record.await?;
        if !record.overlay {
            return self.podman.start(order, record, None).await;
        }
        let (overlay_box, records) = (self.overlay_box(order, &record), self.podman.records.clone());
        off_thread(move || {
            overlay_box.warm()?;
            records.record(overlay_box.order.workspace)
        })
        .await
    }

    /// Returns true if the server can set up the network of a container before anything runs in it:
    /// as root, for a container on this kernel, over layers.
    fn carries_network(&self) -> bool {
        stead_box::runs_as_root() && self.podman.is_of_this_kernel() && self.podman.config.trees != Trees::Copied
    }

    /// Finds an image in Podman's own storage.
    async fn own_image(&self, reference: &str, order: &CreateOrder) -> Result<Image, ProviderError> {
        let Some(digest) = &order.image_digest else { return image::find(&self.podman.client, reference).await };
        let gone = || image::missing(reference, &format!("the clone's source uses {digest}, which no longer exists"));
        self.pinned_image(reference, digest).await?.ok_or_else(gone)
    }

    async fn pinned_image(&self, reference: &str, digest: &str) -> Result<Option<Image>, ProviderError> {
        let (records, wanted) = (self.podman.records.clone(), digest.to_owned());
        let ids = off_thread(move || records.ids_of(&wanted)).await?;
        image::look_pinned(&self.podman.client, reference, digest, ids).await
    }

    async fn adopt_overlay(&self, order: &CreateOrder, record: Record) -> Result<Arc<dyn Workspace>, ProviderError> {
        let (id, podman, boxes) = (order.workspace, self.podman.clone(), self.boxes.clone());
        let overlay_box = self.overlay_box(order, &record);
        let taken = off_thread(move || {
            podman.workspaces.adopt(id, |lineage| boxes.find(id, lineage))?;
            overlay_box.lend_network_again()?;
            if overlay_box.runs() {
                return Ok(Taken::Found);
            }
            // The box has ended, or was about to change its tree, but its files exist. Start it
            // with the same image id and the same uids.
            overlay_box.start_again()?;
            Ok(Taken::Started)
        });
        let taken = taken.await?;
        let record = self.podman.records.record(id)?;
        Ok(self.workspace(order, &record, taken))
    }

    async fn adopt_copied(&self, order: &CreateOrder, record: Record) -> Result<Arc<dyn Workspace>, ProviderError> {
        let id = order.workspace;
        let directory = self.podman.records.directory(id);
        let (records, dial) = (self.podman.records.clone(), record.dial.clone());
        // Waiting for a connection from an ended container would time out.
        let may_live = dial.is_none() || self.podman.is_running(&record.container).await?;
        let lives = off_thread(move || {
            if let Some(secret) = dial.filter(|_| may_live) {
                records.reopen(id, &secret)?;
            }
            Ok(may_live && records.connect(id).is_ok())
        });
        if lives.await? {
            return Ok(self.workspace(order, &record, Taken::Found));
        }
        // The box has ended, but its files exist. Start it with the same image id, uids and volume.
        self.podman.remove_container(&record.container).await?;
        let record = Record { runtime: None, ..record };
        let (records, limits, asked) = (self.podman.records.clone(), limits(order), record.clone());
        off_thread(move || {
            let image = directory.join("volume.img").exists() || directory.join("volume/upper").exists();
            if !image {
                return Err(ProviderError::Gone { workspace: id });
            }
            records.write(id, &asked)?;
            records.volume(&directory, &limits, asked.first_uid)
        })
        .await?;
        let record = self.podman.start(order, record, None).await?;
        Ok(self.workspace(order, &record, Taken::Started))
    }
}

#[async_trait]
impl Provider for PodmanProvider {
    fn name(&self) -> ProviderName {
        ProviderName::Podman
    }

    fn capabilities(&self) -> ProviderCapabilities {
        let enforced = if stead_box::runs_as_root() { limit_kinds(stead_box::enforceable()) } else { Vec::new() };
        ProviderCapabilities {
            workspace_provider: vec![Side::Host, Side::Guest],
            policies: vec![PolicyKind::Git, PolicyKind::Empty, PolicyKind::Bundle],
            tools: crate::guest::TOOLS.to_vec(),
            enforced_limits: enforced,
            setup_commands: true,
            files: FileStorage::Host,
            network: if self.carries_network() { Reach::Captured } else { Reach::None },
        }
    }

    async fn health(&self) -> Health {
        let unhealthy = |reason: String| Health::Unhealthy { reason };
        if !self.podman.config.init.is_file() {
            return unhealthy(format!("there is no stead-init at {}", self.podman.config.init.display()));
        }
        if let Err(error) = self.podman.records.check() {
            return unhealthy(format!("cannot use {}: {error}", self.podman.config.home.display()));
        }
        match self.podman.client.ping().await {
            Ok(()) => Health::Healthy,
            Err(error) => unhealthy(error.to_failure().message),
        }
    }

    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        self.remove(order.workspace).await?;
        let made = match self.make(order).await {
            // Retry once, because the cause may be transient: the monitor died at start, or a
            // container of this name was still being removed. The second error is final.
            Err(ProviderError::Podman { .. }) => {
                self.remove(order.workspace).await?;
                self.make(order).await
            }
            made => made,
        };
        match made {
            Ok(record) => Ok(self.workspace(order, &record, Taken::Found)),
            Err(error) => {
                // Ignore a failed removal: the workspace stays listed and is removed with the
                // failed attempt.
                let _ = self.remove(order.workspace).await;
                Err(error)
            }
        }
    }

    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let id = order.create.workspace;
        let Some(record) =
            self.podman.records.read(id)?.filter(|record| record.instance == self.podman.config.instance)
        else {
            return Err(ProviderError::Gone { workspace: id });
        };
        if record.overlay {
            self.adopt_overlay(&order.create, record).await
        } else {
            self.adopt_copied(&order.create, record).await
        }
    }

    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError> {
        if self.podman.records.is_of_another(workspace) {
            return Ok(());
        }
        if !self.podman.records.directory(workspace).exists() {
            return self.images.release(&workspace.to_string());
        }
        // Remove the container before taking the workspace's lock, whose holder may be waiting for
        // this box. Without a record no request was sent to Podman.
        if let Some(record) = self.podman.records.read(workspace)? {
            self.podman.remove_container(&record.container).await?;
        }
        let podman = self.podman.clone();
        off_thread(move || podman.sweep(workspace)).await?;
        self.podman.abandoned.watch();
        self.images.release(&workspace.to_string())
    }

    fn freezes(&self) -> Result<(), &'static str> {
        // gVisor's own pause does not go through Podman.
        if self.podman.is_of_this_kernel() { Ok(()) } else { Err("the container runtime has a kernel of its own") }
    }

    async fn pause(&self, workspace: WorkspaceId, mode: PauseMode) -> Result<(), ProviderError> {
        let record = self.podman.records.record(workspace)?;
        if mode == PauseMode::Freeze {
            return self.podman.freeze(&record.container).await;
        }
        // Remove the container before taking the workspace's lock, whose holder may be waiting for
        // this box.
        self.podman.remove_container(&record.container).await?;
        let boxes = self.boxes.clone();
        off_thread(move || boxes.stop(workspace)).await
    }

    async fn thaw(&self, workspace: WorkspaceId) -> Result<(), ProviderError> {
        let record = self.podman.records.record(workspace)?;
        self.podman.thaw(&record.container).await
    }

    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError> {
        self.podman.abandoned.watch();
        self.podman.remove_orphans_once();
        let records = self.podman.records.clone();
        off_thread(move || records.list()).await
    }

    fn unclaimed(&self) -> Vec<String> {
        self.unclaimed.clone()
    }

    fn warm_boxes(&self) -> Option<&dyn WarmBoxes> {
        // Binding limits to a running box goes through its cgroups, which needs root.
        if stead_box::runs_as_root() { Some(self) } else { None }
    }

    fn image_cache(&self) -> Option<&dyn ImageCache> {
        Some(self)
    }

    fn disk_usage(&self) -> Option<&dyn DiskUsage> {
        Some(self)
    }
}

#[async_trait]
impl WarmBoxes for PodmanProvider {
    async fn shape(&self, order: &CreateOrder) -> Result<String, ProviderError> {
        let reference = self.reference(order)?;
        let image = match self.images.look(&order.image_tenant, reference)? {
            Some(imported) => imported.digest.to_string(),
            None => image::find(&self.podman.client, reference).await?.id,
        };
        let runtime = self.podman.config.runtime.as_deref().unwrap_or("default");
        let disk = order.limits.disk.as_ref().map(ToString::to_string).unwrap_or_default();
        let network = crate::native::network_shape(order);
        Ok(format!("podman/{}/{runtime}/{image}/disk={disk}{network}", container::SHAPE))
    }

    async fn warm(&self, order: &CreateOrder) -> Result<(), ProviderError> {
        self.create(order).await?;
        Ok(())
    }

    async fn claim(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let id = order.workspace;
        let gone = || ProviderError::Gone { workspace: id };
        let record = self.podman.records.read(id)?.filter(|record| !record.warm).ok_or_else(gone)?;
        let (podman, asked) = (self.podman.clone(), order.clone());
        let mut overlay_box = self.overlay_box(order, &record);
        // The warm box was made with other limits than the session asks for.
        overlay_box.promised.clear();
        let record = off_thread(move || {
            let (id, records) = (asked.workspace, &podman.records);
            let gone = || ProviderError::Gone { workspace: id };
            if record.overlay {
                overlay_box.claim(env(&asked))?;
                return records.record(id);
            }
            let (mut record, pid) = (record.clone(), record.pid.ok_or_else(gone)?);
            // An answer proves that the pid is still that of the recorded process.
            records.connect(id)?.bind(env(&asked))?;
            let Held { disk, reserve, .. } = record.held;
            record.held = Held { disk, reserve, ..stead_box::bind_limits(pid, &limits(&asked)) };
            record.warm = true;
            records.write(id, &record)?;
            Ok(record)
        });
        Ok(self.workspace(order, &record.await?, Taken::Found))
    }
}

#[async_trait]
impl ImageCache for PodmanProvider {
    async fn fetch(&self, order: &CreateOrder, on_progress: OnProgress<'_>) -> Result<(), ProviderError> {
        let reference = self.reference(order)?;
        if self.podman.config.pull == Pull::Never {
            return Ok(());
        }
        // Look for an imported image first: it needs no registry.
        let (there, wanted) = match &order.image_digest {
            Some(digest) => {
                let there = self.images.look_pinned(reference, digest)?.is_some()
                    || self.pinned_image(reference, digest).await?.is_some();
                (there, image::pinned(reference, digest))
            }
            None => {
                let there = self.images.look(&order.image_tenant, reference)?.is_some()
                    || image::look_own(&self.podman.client, reference).await?.is_some();
                (there, reference.to_owned())
            }
        };
        if there { Ok(()) } else { self.pulls.wait(&self.podman.client, &wanted, on_progress).await }
    }

    async fn forget_image(&self, digest: &ContentHash) -> Result<(), ProviderError> {
        self.take_back(digest).await
    }
}

#[async_trait]
impl DiskUsage for PodmanProvider {
    async fn workspace_usage(&self, workspace: WorkspaceId) -> Result<Option<WorkspaceUsage>, ProviderError> {
        let workspaces = self.podman.workspaces.clone();
        off_thread(move || workspaces.usage(workspace)).await
    }

    fn layers(&self) -> &Arc<LayerStore> {
        &self.podman.workspaces.layers
    }

    async fn setups(&self) -> Result<Vec<SetupEntry>, ProviderError> {
        let workspaces = self.podman.workspaces.clone();
        off_thread(move || Ok(workspaces.kept_setups())).await
    }

    async fn remove_setup(&self, id: String) -> Result<bool, ProviderError> {
        let workspaces = self.podman.workspaces.clone();
        off_thread(move || workspaces.remove_setup(&id)).await
    }
}
