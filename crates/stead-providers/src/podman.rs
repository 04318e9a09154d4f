//! The Podman provider: one container per session, from any image, through Podman's REST interface.
//!
//! Podman builds the walls, `stead-init` is put inside as the first process, and from then on the box is spoken to as every other: no
//! call pays for Podman. Everything of a workspace is in one directory ([`place`]); what Podman is asked for is in [`container`].

mod address;
mod client;
mod container;
mod file_body;
mod home;
mod image;
mod imported;
mod late;
mod place;
mod pull;
mod tunnel;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stead_box::build::HandOver;
use stead_box::{Gate, Guest, Held, Limits, Switchboard};
use stead_core::WorkspaceId;
use stead_core::box_facts::BoxFacts;
use stead_core::capability::{FileHome, ProviderCapabilities};
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::policy::PolicyKind;
use stead_core::registry::Side;
use stead_fs::Digest;

use crate::boxed::{BoxedWorkspace, limit_kinds, off_thread};
use crate::error::ProviderError;
use crate::images::Images;
use crate::provider::{AdoptOrder, Health, Provider, Tell};
use crate::workspace::Workspace;
pub use address::PodmanTarget;
use client::{Client, escaped};
use container::{BUSY_ATTEMPTS, BUSY_PAUSE, Container, Found};
use home::PodmanHome;
use image::Image;
pub use image::Pull;
use late::Late;
use place::{Place, Record};
use pull::Pulls;
use tunnel::Tunnel;

/// How long a started container may take until its first process asks for its control socket.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// What a server tells its Podman provider.
#[derive(Debug, Clone)]
pub struct PodmanConfig {
    /// The sessions' directories are below it; only the server's user may read it.
    pub home: PathBuf,
    /// Where uid ranges are taken from, together with the other providers.
    pub uids: PathBuf,
    /// Which server this is: letters, digits, `_` and `-`. Containers of another are never touched.
    pub instance: String,
    /// The `stead-init` program.
    pub init: PathBuf,
    pub target: PodmanTarget,
    /// `runc`, `crun`, `runsc`, as Podman is configured to know it; `None` is Podman's own default.
    pub runtime: Option<String>,
    /// For agent types that name none.
    pub base_image: String,
    pub pull: Pull,
}

/// How a box came to be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Found,
    /// Made again over the files that the one before it left.
    Started,
}

pub struct PodmanProvider {
    config: PodmanConfig,
    client: Arc<Client>,
    pulls: Arc<Pulls>,
    place: Arc<Place>,
    late: Arc<Late>,
    images: Arc<Images>,
    /// Held while an imported image is given to Podman: once is enough.
    lending: tokio::sync::Mutex<()>,
}

impl PodmanProvider {
    pub fn new(config: PodmanConfig, images: Arc<Images>) -> Self {
        let tunnel = Tunnel::new(config.home.join("ssh.sock"));
        let client = Arc::new(Client::new(config.target.resolve(), tunnel));
        let late = Late::new(config.home.join("late"), config.instance.clone(), client.clone());
        let place = Place::new(config.home.clone(), config.instance.clone(), config.uids.clone());
        Self {
            config,
            client,
            pulls: Arc::default(),
            place: Arc::new(place),
            late: Arc::new(late),
            images,
            lending: tokio::sync::Mutex::default(),
        }
    }

    fn workspace(&self, id: WorkspaceId, record: &Record, taken: Taken) -> Arc<dyn Workspace> {
        let made = BoxFacts {
            image: Some(record.image.reference.clone()),
            image_digest: Some(record.image.digest.clone()),
            runtime: record.runtime.clone(),
            warm: record.warm,
        };
        let enforced_limits = limit_kinds(record.held);
        let (place, started_anew) = (self.place.clone(), taken == Taken::Started);
        Arc::new(BoxedWorkspace::new(PodmanHome { id, place, enforced_limits, made, started_anew }))
    }

    fn container_name(&self, id: WorkspaceId) -> String {
        format!("stead-{}-{id}", self.config.instance)
    }

    /// Makes directory, volume and container anew.
    async fn make(&self, order: &CreateOrder) -> Result<Record, ProviderError> {
        let id = order.workspace;
        let reference = order.base_image.as_deref().unwrap_or(&self.config.base_image);
        let image = match self.lend(reference, order).await? {
            Some(image) => image,
            None => self.own_image(reference, order).await?,
        };
        let (place, limits) = (self.place.clone(), limits(order));
        let (instance, container) = (self.config.instance.clone(), self.container_name(id));
        let mapped = passes_descriptors(self.config.runtime.as_deref());
        let record = off_thread(move || {
            let directory = place.make(id)?;
            let first_uid = if mapped { place.take_uids(id)? } else { place.own_uids() };
            let (runtime, pid, held) = (None, None, Held::default());
            let record = Record { instance, container, image, runtime, first_uid, pid, held, dial: None, warm: false };
            place.write(id, &record)?;
            place.volume(&directory, &limits, first_uid)?;
            Ok(record)
        });
        self.start(order, record.await?).await
    }

    /// The image that Podman has.
    async fn own_image(&self, reference: &str, order: &CreateOrder) -> Result<Image, ProviderError> {
        let Some(digest) = &order.image_digest else { return image::find(&self.client, reference).await };
        let gone = || image::missing(reference, &format!("the source of this clone had {digest}, which is gone"));
        self.pinned_image(reference, digest).await?.ok_or_else(gone)
    }

    async fn pinned_image(&self, reference: &str, digest: &str) -> Result<Option<Image>, ProviderError> {
        let (place, wanted) = (self.place.clone(), digest.to_owned());
        let ids = off_thread(move || place.ids_of(&wanted)).await?;
        image::look_pinned(&self.client, reference, digest, ids).await
    }

    /// Starts a container over a directory and a volume that are there. The record says that it is asked for.
    async fn start(&self, order: &CreateOrder, mut record: Record) -> Result<Record, ProviderError> {
        let id = order.workspace;
        self.late.forget(&record.container).map_err(|error| place::host("write below", &self.config.home, error))?;
        let (directory, mut limits) = (self.place.directory(id), limits(order));
        if !passes_descriptors(self.config.runtime.as_deref()) {
            // What the host would count are threads of gVisor's own; that the limit does not hold is said in the session.
            limits.pids = None;
        }
        let at = directory.clone();
        let gate = off_thread(move || Ok(Gate::open(&at)?)).await?;
        let seccomp = self.seccomp_profile()?;
        let wanted = Container {
            name: &record.container,
            instance: &self.config.instance,
            workspace: &id.to_string(),
            image_id: &record.image.id,
            runtime: self.config.runtime.as_deref(),
            first_uid: record.first_uid,
            init: &self.config.init,
            directory: &directory,
            seccomp: &seccomp,
            limits: &limits,
        };
        self.create_container(&record.container, wanted.order()).await?;
        // Podman takes another runtime for one it does not know, and says nothing: look before anything runs.
        record.runtime = Some(self.runtime_of(&record.container).await?);
        let started = self.client.post(&format!("/containers/{}/start", record.container), None).await?;
        if !started.status.is_success() && !passes_descriptors(record.runtime.as_deref()) {
            return Err(unusable(&record, &started.reason()));
        }
        started.ok()?;
        let mut all = record.image.env.clone();
        all.extend(env(order));
        let hand_over = HandOver { env: all, ..HandOver::default() };
        let has_volume = order.limits.disk.is_some() && record.first_uid.is_some();
        let guest = if passes_descriptors(record.runtime.as_deref()) {
            let guest = off_thread(move || Ok(gate.admit(hand_over, &limits, START_PATIENCE)?)).await?;
            record.held = guest.held;
            record.held.disk = has_volume && guest.pid.is_some_and(|pid| self.place.volume_holds(&directory, pid));
            guest
        } else {
            let (guest, board) = self.admit_dialling(&record, gate, hand_over, limits).await?;
            record.dial = Some(board.secret().to_owned());
            self.place.keep(id, board);
            record.held = guest.held;
            record.held.disk = has_volume && self.place.volume_is_apart(&directory);
            guest
        };
        record.pid = guest.pid;
        let (place, kept) = (self.place.clone(), record.clone());
        off_thread(move || place.write(id, &kept)).await?;
        Ok(record)
    }

    /// Asks for the container. A server that was killed while it asked for one of this name may have left one, or half of one, or Podman may still
    /// be at it: the name is this server's alone, so what has it goes.
    async fn create_container(&self, name: &str, order: serde_json::Value) -> Result<(), ProviderError> {
        let mut attempts = 0;
        loop {
            let said = self.client.post("/containers/create", Some(order.clone())).await?;
            attempts += 1;
            if said.status.is_success() || attempts >= BUSY_ATTEMPTS || !said.reason().contains("in use") {
                return said.ok().map(drop);
            }
            match container::find(&self.client, &self.config.instance, name).await? {
                Found::Ours(own) => container::remove(&self.client, &own).await?,
                Found::Nobody if attempts > BUSY_ATTEMPTS / 2 => container::remove_half(&self.client, name).await?,
                Found::Nobody | Found::Another => {}
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    /// Lets in the first process of a box whose kernel takes no descriptors; one that ends before it has asked says why not.
    async fn admit_dialling(
        &self,
        record: &Record,
        gate: Gate,
        hand_over: HandOver,
        limits: Limits,
    ) -> Result<(Guest, Switchboard), ProviderError> {
        let inspected = self.client.get(&format!("/containers/{}/json", record.container)).await?.ok()?;
        let pid = inspected.pointer("/State/Pid").and_then(serde_json::Value::as_i64);
        let pid = pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
        let admitted = off_thread(move || Ok(gate.admit_dialling(hand_over, &limits, pid, START_PATIENCE)?));
        let ended = format!("/containers/{}/wait?condition=stopped", record.container);
        tokio::select! {
            admitted = admitted => admitted,
            _ = self.client.post_and_wait(&ended) => Err(unusable(record, "the box ended before it could call the server")),
        }
    }

    /// Who really runs it. Another than the one asked for is an error, not a substitute.
    async fn runtime_of(&self, container: &str) -> Result<String, ProviderError> {
        let found = self.client.get(&format!("/containers/{container}/json")).await?.ok()?;
        let runtime = found.get("OCIRuntime").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
        match &self.config.runtime {
            Some(asked) if *asked != runtime => Err(ProviderError::Runtime { asked: asked.clone(), got: runtime }),
            _ => Ok(runtime),
        }
    }

    /// The filter of every box, where Podman can read it.
    fn seccomp_profile(&self) -> Result<PathBuf, ProviderError> {
        let path = self.config.home.join("seccomp.json");
        let profile = stead_box::build::seccomp_profile().to_string();
        if std::fs::read_to_string(&path).is_ok_and(|there| there == profile) {
            return Ok(path);
        }
        let new = self.config.home.join(format!("seccomp.json.{}", std::process::id()));
        let written = std::fs::write(&new, profile).and_then(|()| std::fs::rename(&new, &path));
        written.map_err(|error| place::host("write", &path, error))?;
        Ok(path)
    }

    async fn is_running(&self, container: &str) -> Result<bool, ProviderError> {
        let found = self.client.get(&format!("/containers/{}/json", escaped(container))).await?;
        Ok(found.status.is_success() && found.body.pointer("/State/Running") == Some(&serde_json::Value::Bool(true)))
    }

    /// Removes the container, if there is one and it is ours by its label as well as by our record.
    async fn remove_container(&self, name: &str) -> Result<(), ProviderError> {
        match container::find(&self.client, &self.config.instance, name).await? {
            Found::Ours(own) => container::remove(&self.client, &own).await,
            Found::Nobody | Found::Another => Ok(()),
        }
    }

    async fn sweep(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let place = self.place.clone();
        off_thread(move || place.sweep(id)).await
    }
}

/// gVisor's kernel is not this host's: it knows nothing of its descriptors, and what serves it files enters a user namespace before it looks for them.
fn passes_descriptors(runtime: Option<&str>) -> bool {
    !runtime.is_some_and(|runtime| runtime.starts_with("runsc"))
}

fn unusable(record: &Record, reason: &str) -> ProviderError {
    let runtime = record.runtime.clone().unwrap_or_default();
    let reason = format!("{reason}; gVisor must be allowed to call the server (runsc --host-uds=open)");
    ProviderError::RuntimeUnusable { runtime, reason }
}

/// What an order says of limits, in the kernel's units.
fn limits(order: &CreateOrder) -> Limits {
    Limits {
        cpu_millis: order.limits.cpu.as_ref().map(stead_core::quantity::Cpu::millis),
        memory_bytes: order.limits.memory.as_ref().map(stead_core::quantity::ByteSize::bytes),
        pids: order.limits.pids,
        disk_bytes: order.limits.disk.as_ref().map(stead_core::quantity::ByteSize::bytes),
        inodes: None,
    }
}

fn env(order: &CreateOrder) -> std::collections::BTreeMap<String, String> {
    order.env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
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
        if !self.config.init.is_file() {
            return unhealthy(format!("there is no stead-init at {}", self.config.init.display()));
        }
        if let Err(error) = self.place.check() {
            return unhealthy(format!("cannot use {}: {error}", self.config.home.display()));
        }
        match self.client.ping().await {
            Ok(()) => Health::Healthy,
            Err(error) => unhealthy(error.to_failure().message),
        }
    }

    async fn fetch(&self, order: &CreateOrder, tell: Tell<'_>) -> Result<(), ProviderError> {
        let reference = order.base_image.as_deref().unwrap_or(&self.config.base_image);
        if self.config.pull == Pull::Never {
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
                let there =
                    self.images.look(reference)?.is_some() || image::look(&self.client, reference).await?.is_some();
                (there, reference.to_owned())
            }
        };
        if there { Ok(()) } else { self.pulls.wait(&self.client, &wanted, tell).await }
    }

    async fn create(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        self.remove(order.workspace).await?;
        match self.make(order).await {
            Ok(record) => Ok(self.workspace(order.workspace, &record, Taken::Found)),
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
        let reference = order.base_image.as_deref().unwrap_or(&self.config.base_image);
        let image = match self.images.look(reference)? {
            Some(imported) => imported.digest.to_string(),
            None => image::find(&self.client, reference).await?.id,
        };
        let runtime = self.config.runtime.as_deref().unwrap_or("default");
        let disk = order.limits.disk.as_ref().map(ToString::to_string).unwrap_or_default();
        Ok(Some(format!("podman/{}/{runtime}/{image}/disk={disk}", container::SHAPE)))
    }

    async fn warm(&self, order: &CreateOrder) -> Result<(), ProviderError> {
        self.create(order).await?;
        Ok(())
    }

    async fn claim(&self, order: &CreateOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let (id, place) = (order.workspace, self.place.clone());
        let (limits, env) = (limits(order), env(order));
        let record = off_thread(move || {
            let gone = ProviderError::Gone { workspace: id };
            let Some(mut record) = place.read(id).filter(|record| !record.warm) else { return Err(gone) };
            let Some(pid) = record.pid else { return Err(gone) };
            // That it answers proves that the process is still the one that was recorded.
            place.connect(id)?.bind(env)?;
            let disk = record.held.disk;
            record.held = Held { disk, ..stead_box::bind_limits(pid, &limits) };
            record.warm = true;
            place.write(id, &record)?;
            Ok(record)
        });
        Ok(self.workspace(id, &record.await?, Taken::Found))
    }

    async fn adopt(&self, order: &AdoptOrder) -> Result<Arc<dyn Workspace>, ProviderError> {
        let id = order.create.workspace;
        let Some(record) = self.place.read(id).filter(|record| record.instance == self.config.instance) else {
            return Err(ProviderError::Gone { workspace: id });
        };
        let directory = self.place.directory(id);
        let (place, dial) = (self.place.clone(), record.dial.clone());
        // One that calls and has ended would be waited for in vain.
        let may_live = dial.is_none() || self.is_running(&record.container).await?;
        let lives = off_thread(move || {
            if let Some(secret) = dial.filter(|_| may_live) {
                place.reopen(id, &secret)?;
            }
            Ok(may_live && place.connect(id).is_ok())
        });
        if lives.await? {
            return Ok(self.workspace(id, &record, Taken::Found));
        }
        // The box has ended; its files have not. The same image by its id, the same ids, the same volume.
        self.remove_container(&record.container).await?;
        let record = Record { runtime: None, ..record };
        let (place, limits, asked) = (self.place.clone(), limits(&order.create), record.clone());
        off_thread(move || {
            let image = directory.join("volume.img").exists() || directory.join("volume/upper").exists();
            if !image {
                return Err(ProviderError::Gone { workspace: id });
            }
            place.write(id, &asked)?;
            place.volume(&directory, &limits, asked.first_uid)
        })
        .await?;
        let record = self.start(&order.create, record).await?;
        Ok(self.workspace(id, &record, Taken::Started))
    }

    async fn remove(&self, workspace: WorkspaceId) -> Result<(), ProviderError> {
        if self.place.is_of_another(workspace) {
            return Ok(());
        }
        if !self.place.directory(workspace).exists() {
            return self.images.release(&workspace.to_string());
        }
        // Without a record nothing was asked of Podman yet.
        if let Some(record) = self.place.read(workspace) {
            if record.runtime.is_none() {
                self.late
                    .note(&record.container)
                    .map_err(|error| place::host("write below", &self.config.home, error))?;
            }
            self.remove_container(&record.container).await?;
        }
        self.sweep(workspace).await?;
        self.late.watch();
        self.images.release(&workspace.to_string())
    }

    async fn forget_image(&self, digest: &Digest) -> Result<(), ProviderError> {
        self.take_back(digest).await
    }

    async fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError> {
        self.late.watch();
        let place = self.place.clone();
        off_thread(move || place.list()).await
    }
}
