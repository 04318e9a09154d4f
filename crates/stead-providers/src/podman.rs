//! The Podman provider: one container per session, from any image, through Podman's REST interface.
//!
//! Podman builds the walls, `stead-init` is put inside as the first process, and from then on the box is spoken to as every other: no
//! call pays for Podman. Everything of a workspace is in one directory ([`place`]); what Podman is asked for is in [`container`].

mod address;
mod boxes;
mod client;
mod container;
mod file_body;
mod home;
mod image;
mod imported;
mod late;
mod orphan_containers;
mod place;
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
use stead_core::capability::{FileHome, ProviderCapabilities};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::policy::PolicyKind;
use stead_core::registry::Side;
use stead_fs::Digest;

use crate::boxed::{BoxedWorkspace, limit_kinds, off_thread};
use crate::error::ProviderError;
use crate::images::Images;
use crate::layered::{self, LayeredHome, Workspaces, limits};
use crate::provider::{AdoptOrder, Health, Provider, Tell, WorkspaceUsage};
use crate::workspace::Workspace;
pub use address::PodmanTarget;
use boxes::PodmanBoxes;
use client::Client;
use home::PodmanHome;
use image::Image;
pub use image::Pull;
use late::Late;
use place::{Place, Record};
use pull::Pulls;
use start::{Podman, env};
use tunnel::Tunnel;

/// What a server tells its Podman provider.
#[derive(Debug, Clone)]
pub struct PodmanConfig {
    /// The sessions' directories are below it; only the server's user may read it.
    pub home: PathBuf,
    /// Where uid ranges are taken from, together with the other providers.
    pub uids: PathBuf,
    /// Which server this is: letters, digits, `_` and `-`. Containers of another are never touched.
    pub instance: String,
    /// Instances of homes that this one is a copy of: their files are adopted, their containers are not.
    pub former_instances: Vec<String>,
    /// The `stead-init` program.
    pub init: PathBuf,
    pub target: PodmanTarget,
    /// `runc`, `crun`, `runsc`, as Podman is configured to know it; `None` is Podman's own default.
    pub runtime: Option<String>,
    /// For agent types that name none.
    pub base_image: String,
    pub pull: Pull,
    /// How the files of boxes are kept; shared only where this host can do that.
    pub trees: Trees,
}

/// How a box came to be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Found,
    /// Made again over the files that the one before it left.
    Started,
}

pub struct PodmanProvider {
    podman: Arc<Podman>,
    boxes: Arc<PodmanBoxes>,
    pulls: Arc<Pulls>,
    images: Arc<Images>,
    /// Held while an imported image is given to Podman: once is enough.
    lending: tokio::sync::Mutex<()>,
    /// Containers that copied records name and that are not this server's.
    unclaimed: Vec<String>,
}

impl PodmanProvider {
    /// Layers are shared with whoever else uses the store that the images are in.
    pub fn new(config: PodmanConfig, images: Arc<Images>) -> Self {
        let tunnel = Tunnel::new(config.home.join("ssh.sock"));
        let client = Arc::new(Client::new(config.target.resolve(), tunnel));
        let late = Arc::new(Late::new(config.home.join("late"), config.instance.clone(), client.clone()));
        let place = Arc::new(Place::new(config.home.clone(), config.instance.clone(), config.uids.clone()));
        let unclaimed = place.disown(&config.former_instances);
        let instances = (config.instance.clone(), config.former_instances.clone());
        let layered = layered::Place::new(config.home.clone(), instances, config.uids.clone());
        let workspaces = Arc::new(Workspaces::open(layered, images.layers().clone()));
        let podman = Arc::new(Podman {
            config,
            client,
            place,
            late,
            workspaces,
            shares: OnceLock::new(),
            orphans_sought: OnceLock::new(),
        });
        let boxes = Arc::new(PodmanBoxes(podman.clone()));
        Self { podman, boxes, pulls: Arc::default(), images, lending: tokio::sync::Mutex::default(), unclaimed }
    }

    /// Whether workspaces are made of shared layers on this host; why they are copied otherwise. May block.
    pub fn shares_layers(&self) -> Result<(), String> {
        let home = &self.podman.config.home;
        self.podman.place.check().map_err(|error| format!("cannot use {}: {error}", home.display()))?;
        self.podman.shares()
    }

    fn made(&self, record: &Record) -> BoxFacts {
        BoxFacts {
            image: Some(record.image.reference.clone()),
            image_digest: Some(record.image.digest.clone()),
            runtime: record.runtime.clone(),
            warm: record.warm,
            trees: Some(if record.layered { Trees::Shared } else { Trees::Copied }),
            // gVisor counts in its own kernel. Other runtimes make the user namespace as the user they run as.
            allowances: Some(match self.podman.is_of_this_kernel() {
                true => Allowances::Shared,
                false => Allowances::Own,
            }),
        }
    }

    fn workspace(&self, order: &CreateOrder, record: &Record, taken: Taken) -> Arc<dyn Workspace> {
        let (id, started_anew) = (order.workspace, taken == Taken::Started);
        if record.layered {
            return Arc::new(BoxedWorkspace::new(LayeredHome { started_anew, ..self.layered(order, record) }));
        }
        let (place, made) = (self.podman.place.clone(), self.made(record));
        let enforced_limits = limit_kinds(record.held);
        Arc::new(BoxedWorkspace::new(PodmanHome { id, place, enforced_limits, made, started_anew }))
    }

    /// The workspace of a box whose tree is made of layers; what holds of its limits is promised to hold again when it is started again.
    fn layered(&self, order: &CreateOrder, record: &Record) -> LayeredHome {
        let workspaces = self.podman.workspaces.clone();
        LayeredHome {
            order: order.clone(),
            turn: workspaces.turn(order.workspace),
            workspaces,
            boxes: self.boxes.clone(),
            promised: limit_kinds(record.held),
            made: self.made(record),
            started_anew: false,
        }
    }

    /// The image that the order names. Podman runs images: a directory of the host is for `native`.
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

    /// Makes directory, volume and container anew.
    async fn make(&self, order: &CreateOrder) -> Result<Record, ProviderError> {
        let reference = self.reference(order)?;
        let image = match self.lend(reference, order).await? {
            Some(image) => image,
            None => self.own_image(reference, order).await?,
        };
        let (podman, asked) = (self.podman.clone(), order.clone());
        let record = off_thread(move || podman.set_aside(&asked, image));
        let record = record.await?;
        if !record.layered {
            return self.podman.start(order, record, None).await;
        }
        let (home, place) = (self.layered(order, &record), self.podman.place.clone());
        off_thread(move || {
            home.warm()?;
            place.read(home.order.workspace).ok_or(ProviderError::Gone { workspace: home.order.workspace })
        })
        .await
    }

    /// The image that Podman has.
    async fn own_image(&self, reference: &str, order: &CreateOrder) -> Result<Image, ProviderError> {
        let Some(digest) = &order.image_digest else { return image::find(&self.podman.client, reference).await };
        let gone = || image::missing(reference, &format!("the source of this clone had {digest}, which is gone"));
        self.pinned_image(reference, digest).await?.ok_or_else(gone)
    }

    async fn pinned_image(&self, reference: &str, digest: &str) -> Result<Option<Image>, ProviderError> {
        let (place, wanted) = (self.podman.place.clone(), digest.to_owned());
        let ids = off_thread(move || place.ids_of(&wanted)).await?;
        image::look_pinned(&self.podman.client, reference, digest, ids).await
    }

    async fn adopt_layered(&self, order: &CreateOrder, record: Record) -> Result<Arc<dyn Workspace>, ProviderError> {
        let (id, podman, boxes) = (order.workspace, self.podman.clone(), self.boxes.clone());
        let home = self.layered(order, &record);
        let taken = off_thread(move || {
            podman.workspaces.adopt(id, |lineage| boxes.find(id, lineage))?;
            if home.runs() {
                return Ok(Taken::Found);
            }
            // The box has ended, or is over a tree it was about to leave; its files are there. The same image by its id, the same ids.
            home.start_again()?;
            Ok(Taken::Started)
        });
        let taken = taken.await?;
        let record = self.podman.place.read(id).ok_or(ProviderError::Gone { workspace: id })?;
        Ok(self.workspace(order, &record, taken))
    }

    async fn adopt_copied(&self, order: &CreateOrder, record: Record) -> Result<Arc<dyn Workspace>, ProviderError> {
        let id = order.workspace;
        let directory = self.podman.place.directory(id);
        let (place, dial) = (self.podman.place.clone(), record.dial.clone());
        // One that calls and has ended would be waited for in vain.
        let may_live = dial.is_none() || self.podman.is_running(&record.container).await?;
        let lives = off_thread(move || {
            if let Some(secret) = dial.filter(|_| may_live) {
                place.reopen(id, &secret)?;
            }
            Ok(may_live && place.connect(id).is_ok())
        });
        if lives.await? {
            return Ok(self.workspace(order, &record, Taken::Found));
        }
        // The box has ended; its files have not. The same image by its id, the same ids, the same volume.
        self.podman.remove_container(&record.container).await?;
        let record = Record { runtime: None, ..record };
        let (place, limits, asked) = (self.podman.place.clone(), limits(order), record.clone());
        off_thread(move || {
            let image = directory.join("volume.img").exists() || directory.join("volume/upper").exists();
            if !image {
                return Err(ProviderError::Gone { workspace: id });
            }
            place.write(id, &asked)?;
            place.volume(&directory, &limits, asked.first_uid)
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
            tools: crate::boxed::TOOLS.to_vec(),
            enforced_limits: enforced,
            setup_commands: true,
            files: FileHome::Host,
        }
    }

    async fn health(&self) -> Health {
        let unhealthy = |reason: String| Health::Unhealthy { reason };
        if !self.podman.config.init.is_file() {
            return unhealthy(format!("there is no stead-init at {}", self.podman.config.init.display()));
        }
        if let Err(error) = self.podman.place.check() {
            return unhealthy(format!("cannot use {}: {error}", self.podman.config.home.display()));
        }
        match self.podman.client.ping().await {
            Ok(()) => Health::Healthy,
            Err(error) => unhealthy(error.to_failure().message),
        }
    }

    async fn fetch(&self, order: &CreateOrder, tell: Tell<'_>) -> Result<(), ProviderError> {
        let reference = self.reference(order)?;
        if self.podman.config.pull == Pull::Never {
            return Ok(());
        }
        // What it means here is asked first: an imported image needs no registry.
        let (there, wanted) = match &order.image_digest {
            Some(digest) => {
                let there = self.images.look_pinned(reference, digest)?.is_some()
                    || self.pinned_image(reference, digest).await?.is_some();
                (there, image::pinned(reference, digest))
            }
            None => {
                let there = self.images.look(reference)?.is_some()
                    || image::look(&self.podman.client, reference).await?.is_some();
                (there, reference.to_owned())
            }
        };
        if there { Ok(()) } else { self.pulls.wait(&self.podman.client, &wanted, tell).await }
    }

    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        self.remove(order.workspace).await?;
        let made = match self.make(order).await {
            // It may be of the moment: its monitor died at birth, or a container of this name was still going. Once more, and what it says then counts.
            Err(ProviderError::Podman { .. }) => {
                self.remove(order.workspace).await?;
                self.make(order).await
            }
            made => made,
        };
        match made {
            Ok(record) => Ok(self.workspace(order, &record, Taken::Found)),
            Err(error) => {
                // What cannot be removed now is listed, and removed with the failed attempt.
                let _ = self.remove(order.workspace).await;
                Err(error)
            }
        }
    }

    async fn shape(&self, order: &CreateOrder) -> Result<Option<String>, ProviderError> {
        // Limits of a box that runs are bound through its control groups, and only root may.
        if !stead_box::runs_as_root() {
            return Ok(None);
        }
        let reference = self.reference(order)?;
        let image = match self.images.look(reference)? {
            Some(imported) => imported.digest.to_string(),
            None => image::find(&self.podman.client, reference).await?.id,
        };
        let runtime = self.podman.config.runtime.as_deref().unwrap_or("default");
        let disk = order.limits.disk.as_ref().map(ToString::to_string).unwrap_or_default();
        Ok(Some(format!("podman/{}/{runtime}/{image}/disk={disk}", container::SHAPE)))
    }

    async fn warm(&self, order: &CreateOrder) -> Result<(), ProviderError> {
        self.create(order).await?;
        Ok(())
    }

    async fn claim(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let id = order.workspace;
        let gone = || ProviderError::Gone { workspace: id };
        let record = self.podman.place.read(id).filter(|record| !record.warm).ok_or_else(gone)?;
        let (podman, asked) = (self.podman.clone(), order.clone());
        let mut home = self.layered(order, &record);
        // What it was kept ready with is not what was asked for.
        home.promised.clear();
        let record = off_thread(move || {
            let (id, place) = (asked.workspace, &podman.place);
            let gone = || ProviderError::Gone { workspace: id };
            if record.layered {
                home.claim(env(&asked))?;
                return place.read(id).ok_or_else(gone);
            }
            let (mut record, pid) = (record.clone(), record.pid.ok_or_else(gone)?);
            // That it answers proves that the process is still the one that was recorded.
            place.connect(id)?.bind(env(&asked))?;
            let Held { disk, reserve, .. } = record.held;
            record.held = Held { disk, reserve, ..stead_box::bind_limits(pid, &limits(&asked)) };
            record.warm = true;
            place.write(id, &record)?;
            Ok(record)
        });
        Ok(self.workspace(order, &record.await?, Taken::Found))
    }

    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let id = order.create.workspace;
        let Some(record) = self.podman.place.read(id).filter(|record| record.instance == self.podman.config.instance)
        else {
            return Err(ProviderError::Gone { workspace: id });
        };
        if record.layered {
            self.adopt_layered(&order.create, record).await
        } else {
            self.adopt_copied(&order.create, record).await
        }
    }

    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError> {
        if self.podman.place.is_of_another(workspace) {
            return Ok(());
        }
        if !self.podman.place.directory(workspace).exists() {
            return self.images.release(&workspace.to_string());
        }
        // Once before the workspace's turn is taken: its holder may be waiting for this box.
        // Without a record nothing was asked of Podman yet.
        if let Some(record) = self.podman.place.read(workspace) {
            self.podman.remove_container(&record.container).await?;
        }
        let podman = self.podman.clone();
        off_thread(move || podman.sweep(workspace)).await?;
        self.podman.late.watch();
        self.images.release(&workspace.to_string())
    }

    async fn forget_image(&self, digest: &Digest) -> Result<(), ProviderError> {
        self.take_back(digest).await
    }

    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError> {
        self.podman.late.watch();
        self.podman.remove_orphans_once();
        let place = self.podman.place.clone();
        off_thread(move || place.list()).await
    }

    fn unclaimed(&self) -> Vec<String> {
        self.unclaimed.clone()
    }

    async fn usage(&self, workspace: WorkspaceId) -> Result<Option<WorkspaceUsage>, ProviderError> {
        let workspaces = self.podman.workspaces.clone();
        off_thread(move || workspaces.usage(workspace)).await
    }
}
