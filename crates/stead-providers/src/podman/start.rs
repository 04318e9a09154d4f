//! Creates, starts and admits one container, for a new, restarted or warm box.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stead_box::build::{ContainerMountOrder, HandOver, MountTarget};
use stead_box::{
    BoxError, BoxSpec, Gate, Guest, Held, Ids, LayerSpec, Limits, Network, ProcessMark, Switchboard, Volume,
};
use stead_core::WorkspaceId;
use stead_core::command::CreateOrder;
use stead_core::network::Reach;

use super::abandoned_containers::AbandonedContainers;
use super::box_records::{self, BoxRecords, Record};
use super::boxes::wait;
use super::client::{Client, escaped};
use super::container::{self, BUSY_ATTEMPTS, BUSY_PAUSE, Container, Files, Found};
use super::image::Image;
use super::{PodmanConfig, Trees};
use crate::contract::error::ProviderError;
use crate::guest::{off_thread, processor_env, trust};
use crate::overlay::{Lineage, Workspaces, limits};

/// Timeout for a started container until its first process asks for its control socket.
const START_PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Podman {
    pub(super) config: PodmanConfig,
    pub(super) client: Arc<Client>,
    pub(super) records: Arc<BoxRecords>,
    pub(super) abandoned: Arc<AbandonedContainers>,
    pub(super) workspaces: Arc<Workspaces>,
    /// Set once an overlay was mounted successfully on this host.
    pub(super) overlay_tested: OnceLock<()>,
    /// Set once the search for orphaned containers has started.
    pub(super) orphans_sought: OnceLock<()>,
}

impl Podman {
    /// Returns true if the box's processes run on this kernel, so that files can be mounted while
    /// it waits.
    pub(super) fn is_of_this_kernel(&self) -> bool {
        passes_descriptors(self.config.runtime.as_deref())
    }

    /// Checks whether overlays can be mounted on this host, and repeats the test until it succeeds.
    /// The error is the reason. May block.
    pub(super) fn supports_overlay(&self) -> Result<(), String> {
        if self.config.trees == Trees::Copied {
            return Err("this server is configured to copy trees".to_owned());
        }
        if !stead_box::runs_as_root() {
            return Err("only root can mount layers for Podman".to_owned());
        }
        if self.overlay_tested.get().is_none() {
            let order = ContainerMountOrder { spec: self.trial(), to: MountTarget::Nowhere };
            stead_box::mount_container_files(&self.config.init, &order).map_err(|error| error.to_string())?;
            let _ = self.overlay_tested.set(());
        }
        Ok(())
    }

    /// The spec of a test tree with one layer that another user owns.
    fn trial(&self) -> BoxSpec {
        let directory = self.config.home.clone();
        BoxSpec {
            id: "trial".to_owned(),
            instance: self.config.instance.clone(),
            ids: Ids::Range { first: stead_box::RANGE_LENGTH },
            base: None,
            layers: vec![LayerSpec::Directory { path: directory.join("boxes") }],
            compared: None,
            home_layers: Vec::new(),
            bound: None,
            volume: Volume::Memory,
            volume_directory: directory.clone(),
            generation: 0,
            kept_generations: Vec::new(),
            templates: None,
            limits: Limits::default(),
            network: Network::None,
            trust: None,
            env: std::collections::BTreeMap::new(),
            directory,
        }
    }

    /// Makes everything of a box but its container, and writes its record.
    pub(super) fn set_aside(&self, order: &CreateOrder, image: Image) -> Result<Record, ProviderError> {
        let (id, records, config) = (order.workspace, &self.records, &self.config);
        records.check().map_err(|error| box_records::host("make", &config.home, error))?;
        let overlay = self.supports_overlay();
        if let (Err(reason), Reach::Captured) = (&overlay, order.network) {
            let reason = format!("a container with a network needs layers: {reason}");
            return Err(ProviderError::Podman { reason });
        }
        let overlay = overlay.is_ok();
        let first_uid = if overlay {
            let lineage = self.workspaces.reserve(id, |directories| {
                let ids = if self.is_of_this_kernel() { directories.take_ids(id)? } else { Ids::Range { first: 0 } };
                Ok(Lineage::new(&directories.instance, ids))
            })?;
            match lineage.ids {
                Ids::Range { first } => Some(first),
                Ids::Own => None,
            }
        } else {
            records.make(id)?;
            if self.is_of_this_kernel() { records.take_uids(id)? } else { records.own_uids() }
        };
        let container = records.container(id);
        let record = Record { overlay, ..Record::new(config.instance.clone(), container, image, first_uid) };
        records.write(id, &record)?;
        if !overlay {
            records.volume(&records.directory(id), &limits(order), first_uid)?;
        }
        Ok(record)
    }

    /// Starts a container over the files of a tree, or over an existing directory and volume. The
    /// record already names the container.
    pub(super) async fn start(
        &self,
        order: &CreateOrder,
        mut record: Record,
        tree: Option<BoxSpec>,
    ) -> Result<Record, ProviderError> {
        let id = order.workspace;
        self.abandoned
            .forget(&record.container)
            .map_err(|error| box_records::host("write below", &self.config.home, error))?;
        let (directory, mut limits) = (self.records.directory(id), limits(order));
        if !self.is_of_this_kernel() {
            // The host would count gVisor's own threads. The session reports that this limit does
            // not hold.
            limits.pids = None;
        }
        let at = directory.clone();
        let gate = off_thread(move || Ok(Gate::open(&at)?)).await?;
        let files = match &tree {
            None => Files::Volume,
            Some(_) if self.is_of_this_kernel() => Files::Furnished,
            Some(_) => Files::OnTheHost,
        };
        let (laid, tree) = match tree {
            Some(spec) if files == Files::OnTheHost => (Some(self.lay(spec, MountTarget::Host).await?), None),
            tree => (None, tree),
        };
        self.ask_for(order, &mut record, &limits, files).await?;
        if files == Files::Furnished && !passes_descriptors(record.runtime.as_deref()) {
            let runtime = record.runtime.clone().unwrap_or_default();
            let reason = format!(
                "it is Podman's default runtime, but Stead was not told so; set STEAD_PODMAN_RUNTIME={runtime}"
            );
            return Err(ProviderError::RuntimeUnusable { runtime, reason });
        }
        let mut all = processor_env(&order.limits);
        all.extend(record.image.env.clone());
        trust::extend_env(&mut all, order);
        all.extend(env(order));
        let processors = stead_box::processors(limits.cpu_millis).filter(|_| self.is_of_this_kernel());
        let hand_over = HandOver { env: all, processors, ..HandOver::default() };
        let has_volume = order.limits.disk.is_some() && record.first_uid.is_some();
        let guest = if passes_descriptors(record.runtime.as_deref()) {
            let furnished = self.admit(gate, hand_over, limits, (tree, order.network)).await?;
            let (guest, mark, laid) = furnished;
            record.mark = mark;
            record.held = guest.held;
            record.held.reserve = laid.map(|laid| laid.reserve).unwrap_or_default();
            record.held.disk = match laid {
                Some(laid) => laid.disk,
                None => has_volume && guest.pid.is_some_and(|pid| self.records.volume_holds(&directory, pid)),
            };
            guest
        } else {
            let (guest, board) = self.admit_dialling(&record, gate, hand_over, limits).await?;
            record.dial = Some(board.secret().to_owned());
            self.records.keep(id, board);
            record.held = guest.held;
            record.held.reserve = laid.map(|laid| laid.reserve).unwrap_or_default();
            record.held.disk =
                laid.map_or_else(|| has_volume && self.records.volume_is_apart(&directory), |laid| laid.disk);
            guest
        };
        record.pid = guest.pid;
        let (records, kept, config) = (self.records.clone(), record.clone(), self.config.clone());
        off_thread(move || {
            records.write(id, &kept)?;
            Ok(stead_box::ensure_keeper(&config.init, &config.home)?)
        })
        .await?;
        Ok(record)
    }

    /// Mounts the files of a tree.
    async fn lay(&self, spec: BoxSpec, to: MountTarget) -> Result<Held, ProviderError> {
        let init = self.config.init.clone();
        off_thread(move || {
            stead_box::unmount_container_files(&spec.directory)?;
            Ok(stead_box::mount_container_files(&init, &ContainerMountOrder { spec, to })?)
        })
        .await
    }

    /// Makes Podman create and start the container.
    async fn ask_for(
        &self,
        order: &CreateOrder,
        record: &mut Record,
        limits: &Limits,
        files: Files,
    ) -> Result<(), ProviderError> {
        let seccomp = self.seccomp_profile()?;
        let directory = self.records.directory(order.workspace);
        // A box with its own kernel shows that kernel's resources.
        let mut shown = if self.is_of_this_kernel() { stead_box::build::shown_texts(limits) } else { Vec::new() };
        if order.network == Reach::Captured {
            shown.push(("/etc/resolv.conf".to_owned(), stead_box::build::resolver(Network::Captured)));
        }
        let trust = trust::write(&directory, order)?;
        let wanted = Container {
            shown: &shown,
            trust: trust.as_deref(),
            name: &record.container,
            instance: &self.config.instance,
            workspace: &order.workspace.to_string(),
            image_id: &record.image.id,
            runtime: self.config.runtime.as_deref(),
            first_uid: record.first_uid,
            init: &self.config.init,
            directory: &directory,
            files,
            seccomp: &seccomp,
            limits,
        };
        wanted.prepare().map_err(|error| box_records::host("make", &directory, error))?;
        self.create_container(&record.container, wanted.order()).await?;
        // Podman silently replaces a runtime that it does not know, so check before anything runs.
        record.runtime = Some(self.runtime_of(&record.container).await?);
        let started = self.client.post(&format!("/containers/{}/start", record.container), None).await?;
        if !started.status.is_success() && !passes_descriptors(record.runtime.as_deref()) {
            return Err(unusable(record, &started.reason()));
        }
        started.ok().map(drop)
    }

    /// Creates the container. A server that was killed during such a request may have left a
    /// container of this name, complete or not. Podman may also still be creating it. Only this
    /// server uses the name, so the old container is removed.
    async fn create_container(&self, name: &str, order: serde_json::Value) -> Result<(), ProviderError> {
        let mut attempts = 0;
        loop {
            let response = self.client.post("/containers/create", Some(order.clone())).await?;
            attempts += 1;
            if response.status.is_success() || attempts >= BUSY_ATTEMPTS || !response.reason().contains("in use") {
                return response.ok().map(drop);
            }
            match container::find(&self.client, &self.config.instance, name).await? {
                Found::Ours(own) => container::remove(&self.client, &own).await?,
                Found::Nobody if attempts > BUSY_ATTEMPTS / 2 => container::remove_half(&self.client, name).await?,
                Found::Nobody | Found::Another => {}
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    /// Admits the first process of a box on this kernel and mounts its files.
    async fn admit(
        &self,
        gate: Gate,
        hand_over: HandOver,
        limits: Limits,
        (tree, network): (Option<BoxSpec>, Reach),
    ) -> Result<(Guest, Option<ProcessMark>, Option<Held>), ProviderError> {
        let (init, trial) = (self.config.init.clone(), self.trial());
        off_thread(move || {
            let (mut marked, mut laid) = (None, None);
            let guest = gate.admit(hand_over, &limits, START_PATIENCE, |mark| {
                marked = mark;
                let Some(spec) = tree else {
                    // This may fail without root. The session then reports that boxes share the
                    // kernel's per-user limits.
                    if let Some(mark) = marked.clone() {
                        let _ = stead_box::mount_container_files(
                            &init,
                            &ContainerMountOrder { spec: trial, to: MountTarget::Counted(mark) },
                        );
                    }
                    return Ok(None);
                };
                let mark = marked.clone().ok_or(BoxError::Gone { reason: "its first process cannot be identified" })?;
                laid = Some(stead_box::mount_container_files(
                    &init,
                    &ContainerMountOrder { spec, to: MountTarget::NewBox(mark.clone()) },
                )?);
                match network {
                    Reach::Captured => stead_box::furnish_container(&mark).map(Some),
                    Reach::None | Reach::Named => Ok(None),
                }
            })?;
            Ok((guest, marked, laid))
        })
        .await
    }

    /// Admits the first process of a box whose kernel cannot receive file descriptors. If the
    /// container ends before that, the error gives the reason.
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

    /// Returns the runtime that really runs the container. A runtime other than the configured one
    /// is an error.
    async fn runtime_of(&self, container: &str) -> Result<String, ProviderError> {
        let found = self.client.get(&format!("/containers/{container}/json")).await?.ok()?;
        let runtime = found.get("OCIRuntime").and_then(|name| name.as_str());
        let unnamed = || ProviderError::Podman { reason: format!("it does not say which runtime runs {container}") };
        let runtime = runtime.ok_or_else(unnamed)?.to_owned();
        match &self.config.runtime {
            Some(asked) if *asked != runtime => Err(ProviderError::Runtime { asked: asked.clone(), got: runtime }),
            _ => Ok(runtime),
        }
    }

    /// Writes the seccomp filter of all boxes to a file that Podman can read.
    fn seccomp_profile(&self) -> Result<PathBuf, ProviderError> {
        let home = &self.config.home;
        write_seccomp_profile(home).map_err(|error| box_records::host("write the seccomp profile below", home, error))
    }

    /// Removes everything of a box, beginning with its container. May block.
    pub(super) fn sweep(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.workspaces.remove_after(id, || {
            // Read the record under the lock: a start that held the lock may have made a new
            // container.
            if let Some(record) = self.records.read(id)? {
                if record.runtime.is_none() {
                    let noted = self.abandoned.note(&record.container);
                    noted.map_err(|error| box_records::host("write below", &self.config.home, error))?;
                }
                wait(self.remove_container(&record.container))?;
            }
            let directory = self.records.directory(id);
            self.records.close(id);
            stead_box::unmount_volume(&directory)?;
            Ok(stead_box::unmount_container_files(&directory)?)
        })
    }

    pub(super) async fn is_running(&self, container: &str) -> Result<bool, ProviderError> {
        let found = self.client.get(&format!("/containers/{}/json", escaped(container))).await?;
        Ok(found.status.is_success() && found.body.pointer("/State/Running") == Some(&serde_json::Value::Bool(true)))
    }

    /// Freezes a container of this server. Idempotent.
    pub(super) async fn freeze(&self, name: &str) -> Result<(), ProviderError> {
        match container::find(&self.client, &self.config.instance, name).await? {
            Found::Ours(own) if own.paused => Ok(()),
            Found::Ours(own) => container::pause(&self.client, &own).await,
            // No container runs. The next one starts after the resume.
            Found::Nobody | Found::Another => Ok(()),
        }
    }

    /// Lets a frozen container run again. No-op for any other.
    pub(super) async fn thaw(&self, name: &str) -> Result<(), ProviderError> {
        match container::find(&self.client, &self.config.instance, name).await? {
            Found::Ours(own) if own.paused => container::unpause(&self.client, &own).await,
            _ => Ok(()),
        }
    }

    /// Removes a container if both its label and the record say that it belongs to this server.
    pub(super) async fn remove_container(&self, name: &str) -> Result<(), ProviderError> {
        match container::find(&self.client, &self.config.instance, name).await? {
            Found::Ours(own) => container::remove(&self.client, &own).await,
            Found::Nobody | Found::Another => Ok(()),
        }
    }
}

/// Several boxes may start at once, even of two servers. Each writes its own file and renames it,
/// so that a reader never sees a partial profile.
fn write_seccomp_profile(home: &Path) -> io::Result<PathBuf> {
    let path = home.join("seccomp.json");
    let profile = stead_box::build::seccomp_profile().to_string();
    if fs::read_to_string(&path).is_ok_and(|there| there == profile) {
        return Ok(path);
    }
    let readable = fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new().prefix("seccomp.json.").permissions(readable).tempfile_in(home)?;
    file.write_all(profile.as_bytes())?;
    file.persist(&path)?;
    Ok(path)
}

/// gVisor has its own kernel, which cannot receive descriptors of this host. Its file server enters
/// a user namespace before it opens files.
fn passes_descriptors(runtime: Option<&str>) -> bool {
    !runtime.is_some_and(|runtime| runtime.starts_with("runsc"))
}

fn unusable(record: &Record, reason: &str) -> ProviderError {
    let runtime = record.runtime.clone().unwrap_or_default();
    let reason = format!("{reason}; gVisor must be allowed to call the server (runsc --host-uds=open)");
    ProviderError::RuntimeUnusable { runtime, reason }
}

pub(super) fn env(order: &CreateOrder) -> std::collections::BTreeMap<String, String> {
    order.env.texts().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The error for a box without a record.
pub(super) fn gone() -> BoxError {
    BoxError::Gone { reason: "there is no record of it" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_that_start_at_once_read_the_whole_seccomp_profile() {
        let profile = stead_box::build::seccomp_profile().to_string();
        for _ in 0..50 {
            let home = tempfile::tempdir().unwrap();
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        let path = write_seccomp_profile(home.path()).unwrap();
                        assert_eq!(fs::read_to_string(path).unwrap(), profile);
                    });
                }
            });
            assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "no temporary file is left");
        }
    }
}
