//! All workspaces of one provider, with the layers and volumes they use: creation, adoption and
//! removal.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stead_box::OwnerRecord;
use stead_core::{SnapshotId, WorkspaceId};
use tokio::sync::watch;

use super::boxes::Running;
use super::copies::Copies;
use super::directories::{Directories, host, make_private};
use super::host_directory::LookedAt;
use super::lineage::{Durability, LayerRef, Lineage};
use super::setup_store::SetupStore;
use crate::contract::error::ProviderError;
use crate::contract::network::{LentNetwork, LentNetworks, TakenNetwork};
use crate::overlay::layer_store::{LayerKey, LayerStore, Retention};

/// Interval between collections of layers without holders.
const COLLECT_EVERY: Duration = Duration::from_secs(300);

pub(crate) struct Workspaces {
    pub(crate) directories: Directories,
    pub(crate) layers: Arc<LayerStore>,
    /// Lineages of all workspaces on disk, including those of other servers.
    lineages: Mutex<BTreeMap<WorkspaceId, Lineage>>,
    /// Held while a workspace's box is started, stopped or removed. Taken before `lineages`.
    states: Mutex<BTreeMap<WorkspaceId, Arc<Mutex<BoxState>>>>,
    collected: Mutex<Option<Instant>>,
    pub(super) copies: Copies,
    pub(super) setups: SetupStore,
    /// Objects on the host that copied records name and that belong to another server, one
    /// description each.
    pub(crate) unclaimed: Vec<String>,
}

/// The box of a workspace, as far as this server knows.
#[derive(Default)]
pub(crate) struct BoxState {
    pub(crate) running: Option<Arc<dyn Running>>,
    /// True if the session is paused and its box stopped. No box starts until the workspace is
    /// adopted again, although an operation from before the pause may still ask for one.
    pub(super) stopped: bool,
    /// The layers that the running box compares with.
    pub(super) compares_with: Option<Vec<LayerRef>>,
    /// True if a box has run over the current generation, so that it may contain files.
    pub(crate) written: bool,
    /// The snapshot that equals the layers, if nothing is written above them.
    pub(super) kept: Option<SnapshotId>,
    /// True if the last look found nothing written above the layers. Valid only for the caller that
    /// looked, while it has exclusive use of the box.
    pub(super) clean: bool,
    /// Paths and modification times found at the last look.
    pub(super) seen: BTreeMap<String, i64>,
    pub(super) looked_at: LookedAt,
    /// The network of the running box.
    network: watch::Sender<Option<Arc<LentNetwork>>>,
}

impl BoxState {
    /// Forgets the running box and its network, and returns the box.
    pub(super) fn end_running(&mut self) -> Option<Arc<dyn Running>> {
        self.lend(None);
        self.running.take()
    }

    pub(super) fn lend(&self, taken: Option<TakenNetwork>) {
        self.network.send_replace(taken.map(LentNetwork::new));
    }

    pub(super) fn networks(&self) -> LentNetworks {
        self.network.subscribe()
    }

    /// Records that the layers have changed and that nothing is written above them.
    pub(super) fn layers_changed(&mut self, kept: Option<SnapshotId>) {
        (self.written, self.kept) = (false, kept);
        self.seen.clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The values change by single inserts and removes, so a panic cannot leave them inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workspaces {
    /// Reads the workspaces on disk and removes unused volumes.
    pub(crate) fn open(directories: Directories, layers: Arc<LayerStore>) -> Self {
        let (mut lineages, mut unclaimed) = (BTreeMap::new(), Vec::new());
        for name in names(&directories.boxes()).unwrap_or_default() {
            let directory = directories.boxes().join(&name);
            if let (Ok(id), Ok(Some(mut lineage))) = (name.parse(), Lineage::read(&directory)) {
                match directories.take_over(&directory, &mut lineage) {
                    Ok(foreign) => unclaimed.extend(foreign),
                    // The lineage keeps its old instance, so the workspace counts as one of another
                    // server.
                    Err(error) => unclaimed.push(format!("workspace {name}: {}", error.to_failure().message)),
                }
                lineages.insert(id, lineage);
            }
        }
        let (lineages, states, collected) = (Mutex::new(lineages), Mutex::default(), Mutex::default());
        let copies = Copies::default();
        let setups = SetupStore::read(&directories);
        let workspaces = Self { directories, layers, lineages, states, collected, copies, setups, unclaimed };
        // Ignore failures: the next removal tries again.
        let _ = workspaces.sweep();
        workspaces
    }

    pub(crate) fn state(&self, id: WorkspaceId) -> Arc<Mutex<BoxState>> {
        lock(&self.states).entry(id).or_default().clone()
    }

    /// Reserves the directories of a workspace that `describe` describes, completely or not at all.
    /// The box starts at the first operation that needs it.
    pub(crate) fn reserve(
        &self,
        id: WorkspaceId,
        describe: impl FnOnce(&Directories) -> Result<Lineage, ProviderError>,
    ) -> Result<Lineage, ProviderError> {
        let directory = self.directories.directory(id);
        // An interrupted attempt left at least one of these: the directory is made first and the
        // volume is removed last.
        if directory.exists() || self.directories.volume(&id.to_string()).exists() {
            self.remove(id)?;
        }
        make_private(&directory)?;
        make_private(&self.directories.volume(&id.to_string()))?;
        let made = describe(&self.directories).and_then(|lineage| {
            lineage.write(&directory, Durability::Later).map_err(|error| host("write", &directory, error))?;
            lock(&self.lineages).insert(id, lineage.clone());
            Ok(lineage)
        });
        if made.is_err() {
            self.directories.ranges.give_back(&id.to_string())?;
            self.remove(id)?;
        }
        made
    }

    /// Adopts an existing workspace. Its box is the one that `find` returns, or starts when needed.
    pub(crate) fn adopt(
        &self,
        id: WorkspaceId,
        find: impl FnOnce(&Lineage) -> Result<Option<Arc<dyn Running>>, ProviderError>,
    ) -> Result<(), ProviderError> {
        if self.is_of_another(id) || !self.directories.volume(&id.to_string()).exists() {
            return Err(ProviderError::Gone { workspace: id });
        }
        let lineage = self.lineage(id).ok_or(ProviderError::Gone { workspace: id })?;
        let state = self.state(id);
        let mut state = lock(&state);
        (state.written, state.stopped) = (true, false);
        if state.running.is_none() {
            state.running = find(&lineage)?;
            state.compares_with = lineage.began_with;
        }
        Ok(())
    }

    /// Stops the box with `end` and keeps the files. Both happen under the workspace's lock, so no
    /// start can be running, and every later start fails until [`Self::adopt`].
    pub(crate) fn stop_with(
        &self,
        id: WorkspaceId,
        end: impl FnOnce(&Path, &Path) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        if self.is_of_another(id) || self.lineage(id).is_none() {
            return Err(ProviderError::Gone { workspace: id });
        }
        let state = self.state(id);
        let mut state = lock(&state);
        let (directory, volume) = (self.directories.directory(id), self.directories.volume(&id.to_string()));
        end(&directory, &volume)?;
        state.end_running();
        self.directories.sync(id).map_err(|error| host("sync", &volume, error))?;
        sync_files(&volume).map_err(|error| host("sync", &volume, error))?;
        // Last: after a failure the session goes on, and its next call starts the box again.
        state.stopped = true;
        Ok(())
    }

    pub(crate) fn remove(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.remove_after(id, || Ok(()))
    }

    /// Removes a workspace after `end` has stopped its box. Both happen under the workspace's lock,
    /// so no start can be running, and every later start finds no lineage and fails with `Gone`.
    pub(crate) fn remove_after(
        &self,
        id: WorkspaceId,
        end: impl FnOnce() -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        if self.is_of_another(id) {
            return Ok(());
        }
        // A long copy may hold the lock, so cancel it first.
        self.copies.of(id).end();
        let state = self.state(id);
        let mut state = lock(&state);
        end()?;
        let ids = lock(&self.lineages).remove(&id).map(|lineage| lineage.ids);
        self.copies.forget(id);
        state.end_running();
        stead_box::remove(&self.directories.directory(id))?;
        match ids {
            Some(ids) => self.directories.give_back_ids(id, ids)?,
            None => self.directories.ranges.give_back(&id.to_string())?,
        }
        self.layers.release(&id.to_string())?;
        lock(&self.states).remove(&id);
        drop(state);
        self.sweep()
    }

    /// Removes volumes that no lineage uses, and collects layers at intervals.
    fn sweep(&self) -> Result<(), ProviderError> {
        let directory = self.directories.volumes();
        for name in names(&directory).map_err(|error| host("list", &directory, error))? {
            let Ok(id) = name.parse::<WorkspaceId>() else { continue };
            let state = self.state(id);
            // The volume is in use. The operation that removes it sweeps again.
            let Ok(_locked) = state.try_lock() else { continue };
            let wanted = {
                let lineages = lock(&self.lineages);
                lineages.contains_key(&id) || lineages.values().any(|lineage| lineage.volumes().contains(name.as_str()))
            };
            // A workspace that is being made has its directory first.
            if !wanted && !self.directories.directory(id).exists() {
                stead_box::remove(&directory.join(&name))?;
                lock(&self.states).remove(&id);
            }
        }
        let is_due = lock(&self.collected).is_none_or(|last| last.elapsed() > COLLECT_EVERY);
        // While a volume changes hands, the next removal sweeps again.
        if let Some(mut kept) = self.setups.try_lock() {
            if is_due {
                self.collect_setups(&mut kept, Retention::default())?;
            }
            self.sweep_setups(&kept)?;
        }
        let mut collected = lock(&self.collected);
        if collected.is_none_or(|last| last.elapsed() > COLLECT_EVERY) {
            *collected = Some(Instant::now());
            drop(collected);
            self.layers.collect(Retention::default())?;
        }
        Ok(())
    }

    /// Decided by the records in its directory, never by its name.
    fn is_of_another(&self, id: WorkspaceId) -> bool {
        let instance = match self.lineage(id) {
            Some(lineage) => Some(lineage.instance),
            None => OwnerRecord::read(&self.directories.directory(id)).ok().flatten().map(|record| record.instance),
        };
        instance.is_some_and(|instance| instance != self.directories.instance)
    }

    pub(crate) fn list(&self) -> Result<Vec<WorkspaceId>, ProviderError> {
        let boxes = self.directories.boxes();
        let names = names(&boxes).map_err(|error| host("list", &boxes, error))?;
        Ok(names.iter().filter_map(|name| name.parse().ok()).filter(|id| !self.is_of_another(*id)).collect())
    }

    pub(super) fn lineages(&self) -> MutexGuard<'_, BTreeMap<WorkspaceId, Lineage>> {
        lock(&self.lineages)
    }

    pub(crate) fn lineage(&self, id: WorkspaceId) -> Option<Lineage> {
        lock(&self.lineages).get(&id).cloned()
    }

    /// Changes a lineage in memory and then on disk; a disk error undoes the change. The caller
    /// holds the workspace's lock.
    pub(crate) fn change(
        &self,
        id: WorkspaceId,
        durability: Durability,
        change: impl FnOnce(&mut Lineage),
    ) -> Result<Lineage, ProviderError> {
        self.change_among(id, durability, |lineages| {
            lineages.get_mut(&id).map(change);
        })?;
        self.lineage(id).ok_or(ProviderError::Gone { workspace: id })
    }

    /// Like [`Self::change`], but may read the lineages of other workspaces. Changes only this one.
    fn change_among<T>(
        &self,
        id: WorkspaceId,
        durability: Durability,
        change: impl FnOnce(&mut BTreeMap<WorkspaceId, Lineage>) -> T,
    ) -> Result<T, ProviderError> {
        let (before, after, changed) = {
            let mut lineages = lock(&self.lineages);
            let gone = || ProviderError::Gone { workspace: id };
            let before = lineages.get(&id).cloned().ok_or_else(gone)?;
            let changed = change(&mut lineages);
            (before, lineages.get(&id).cloned().ok_or_else(gone)?, changed)
        };
        let directory = self.directories.directory(id);
        if (before != after || durability == Durability::Now)
            && let Err(error) = after.write(&directory, durability)
        {
            lock(&self.lineages).insert(id, before);
            return Err(host("write", &directory, error));
        }
        Ok(changed)
    }

    /// Holds the shared layers of a snapshot for this workspace; `false` if the snapshot does not
    /// exist.
    pub(super) fn hold_snapshot(&self, id: WorkspaceId, snapshot: SnapshotId) -> Result<bool, ProviderError> {
        let Some(layers) = find_snapshot(&lock(&self.lineages), snapshot) else { return Ok(false) };
        for layer in &layers {
            if let LayerRef::Shared { key } = layer
                && let Some(key) = LayerKey::parse(key)
            {
                self.layers.hold(&key, &id.to_string())?;
            }
        }
        Ok(true)
    }

    /// Replaces this workspace's layers by those of a snapshot, in memory and on disk or not at
    /// all; `false` if the snapshot does not exist. `given_up` is the number of generations above
    /// the old layers, which are no longer used. The caller holds the workspace's lock and has
    /// called [`Self::hold_snapshot`].
    pub(super) fn replace_layers(
        &self,
        id: WorkspaceId,
        snapshot: SnapshotId,
        given_up: u32,
    ) -> Result<bool, ProviderError> {
        // Find and use the layers in one step: between two steps another workspace could release
        // the volumes.
        self.change_among(id, Durability::Now, |lineages| {
            let Some(layers) = find_snapshot(lineages, snapshot) else { return false };
            if let Some(lineage) = lineages.get_mut(&id) {
                lineage.layers = layers;
                lineage.generation += given_up;
            }
            true
        })
    }

    /// The generations of a volume that any lineage names.
    pub(super) fn kept_generations(&self, id: WorkspaceId) -> Vec<u32> {
        let own = id.to_string();
        let number = |layer: &LayerRef| match layer {
            LayerRef::Generation { volume, number, .. } if *volume == own => Some(*number),
            _ => None,
        };
        lock(&self.lineages).values().flat_map(Lineage::refs).filter_map(number).collect()
    }
}

impl Workspaces {
    /// Numbers of the workspace's own layers that any lineage names.
    pub(super) fn named_own_layers(&self, id: WorkspaceId) -> Vec<u32> {
        let own = id.to_string();
        let number = |layer: &LayerRef| match layer {
            LayerRef::Own { volume, number } if *volume == own => Some(*number),
            _ => None,
        };
        lock(&self.lineages).values().flat_map(Lineage::refs).filter_map(number).collect()
    }
}

/// The layers of a snapshot of any workspace.
fn find_snapshot(lineages: &BTreeMap<WorkspaceId, Lineage>, snapshot: SnapshotId) -> Option<Vec<LayerRef>> {
    let name = snapshot.to_string();
    lineages.values().find_map(|lineage| lineage.snapshots.get(&name)).cloned()
}

/// Syncs what the box has written: its image, or the file system of its directory.
pub(super) fn sync_files(volume: &Path) -> io::Result<()> {
    match File::open(volume.join("volume.img")) {
        Ok(image) => image.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(rustix::fs::syncfs(File::open(volume)?)?),
        Err(error) => Err(error),
    }
}

/// The names in a directory; empty if the directory does not exist.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}
