//! A box over layers: the [`GuestBox`] of overlay workspaces.
//!
//! The first operation that needs the box starts it over the current layers. Freezing the written
//! files stops the box, if that loses nothing, and lets the next one write to a new generation. So
//! freezing costs one start, however much was written.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_box::protocol::{FileAsk, GuestError, GuestErrorKind, ProtocolError};
use stead_box::{Access, Bound, BoxError, Connection, Reserve};
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::event::{Failure, StepReport};
use stead_core::network::Reach;
use stead_core::policy::MountMode;
use stead_core::rewind::{AbsenceReason, Checkpoint, CheckpointCost};
use stead_core::session::HashAbsence;
use stead_core::session::warning::WarningCode;
use stead_core::{SnapshotId, WorkspaceId};
use stead_fs::archive::{self, ArchiveError};
use stead_fs::mount::AllowedRoots;
use stead_fs::patch::{Options, Patch};
use stead_fs::{DiskFs, FsError, Stop, WorkspacePath};

use super::boxes::{Boxes, Restart, Running};
use super::keep::Patience;
use super::lineage::{Durability, LayerRef, Lineage};
use super::own_layers;
use super::workspaces::{BoxState, Workspaces};
use crate::contract::error::ProviderError;
use crate::contract::network::{LentNetworks, TakenNetwork};
use crate::contract::workspace::PointOrder;
use crate::guest::limit_kinds;
use crate::guest::{
    Fill, GuestBox, HostMounts, Looked, MountOrder, Scratch, SetupLayers, in_frame, patch_of, read_patch, send,
};
use crate::overlay::layer_store::{Layer, LayerKey, LayerSlot};

/// Maximum number of layers before they are merged into one: overlayfs searches all of them for
/// every name that does not exist.
pub(super) const MOST_LAYERS: usize = 24;
/// Maximum number of bytes that a box may write into a file of the server.
const MOST_BYTES: u64 = 64 << 30;
/// Maximum size of a patch with its lists of paths, as JSON.
const MOST_PATCH: u64 = 128 << 20;

/// The part of the volume's reserve that must be left before a new generation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Margin {
    /// Enough for this generation: for operations that a user asked for.
    OneGeneration,
    /// All of it: checkpoints after each call must not use up what a snapshot or a rewind needs.
    All,
}

impl Margin {
    fn is_met_by(self, reserve: Reserve) -> bool {
        match reserve {
            Reserve::Unneeded | Reserve::Complete => true,
            Reserve::Partial => self == Self::OneGeneration,
            Reserve::Spent => false,
        }
    }
}

pub(crate) struct OverlayBox {
    pub(crate) order: CreateOrder,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) boxes: Arc<dyn Boxes>,
    pub(crate) state: Arc<Mutex<BoxState>>,
    /// The limits that the provider promised when the workspace was made.
    pub(crate) promised: Vec<LimitKind>,
    pub(crate) made: BoxFacts,
    /// True if no box that this server can use ran when it adopted the workspace.
    pub(crate) started_anew: AtomicBool,
}

impl OverlayBox {
    pub(super) fn id(&self) -> WorkspaceId {
        self.order.workspace
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BoxState> {
        // Fields are set as a whole, so a panic cannot leave the value inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lineage(&self) -> Result<Lineage, ProviderError> {
        self.workspaces.lineage(self.id()).ok_or(ProviderError::Gone { workspace: self.id() })
    }

    pub(super) fn start(&self, state: &mut BoxState) -> Result<Arc<dyn Running>, ProviderError> {
        if state.stopped {
            return Err(ProviderError::Paused);
        }
        let lineage = self.lineage()?;
        let kept = self.workspaces.kept_generations(self.id());
        state.written = true;
        let running = self.boxes.start(&self.order, &lineage, kept)?;
        let held = limit_kinds(running.held());
        if let Some(lost) = self.promised.iter().find(|limit| !held.contains(limit)) {
            running.kill()?;
            return Err(ProviderError::Unenforced { limit: *lost });
        }
        if let Err(error) = self.lend_network(state, &*running) {
            running.kill()?;
            return Err(error);
        }
        (state.running, state.compares_with) = (Some(running.clone()), lineage.began_with);
        Ok(running)
    }

    /// Asks the box for the sockets of its network and passes them on. No-op without a network.
    pub(super) fn lend_network(&self, state: &mut BoxState, running: &dyn Running) -> Result<(), ProviderError> {
        if self.order.network != Reach::None {
            let mut connection = running.connect()?;
            let sockets = connection.sockets()?;
            state.lend(Some(TakenNetwork { sockets, alive: connection.into_stream() }));
        }
        Ok(())
    }

    /// Lends the network of a box that this server found. A box that does not lend it is replaced.
    pub(crate) fn lend_network_again(&self) -> Result<(), ProviderError> {
        let mut state = self.lock();
        let Some(running) = state.running.clone() else { return Ok(()) };
        if self.lend_network(&mut state, &*running).is_err() {
            running.kill()?;
            state.end_running();
            self.started_anew.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn runs(&self) -> bool {
        self.lock().running.is_some()
    }

    /// Starts the box over the files of its predecessor.
    pub(crate) fn start_again(&self) -> Result<(), ProviderError> {
        self.start(&mut self.lock()).map(drop)
    }

    pub(super) fn connect_in(&self, state: &mut BoxState) -> Result<Connection, ProviderError> {
        let dead =
            |error: &BoxError| matches!(error, BoxError::Lost(_) | BoxError::Gone { .. } | BoxError::Host { .. });
        if let Some(running) = &state.running {
            match running.connect() {
                // The box outlived an upgrade that changed the protocol. A new box replaces it over
                // its files.
                Err(BoxError::Protocol(ProtocolError::Version { .. })) => {
                    running.kill()?;
                    state.end_running();
                    self.started_anew.store(true, Ordering::Relaxed);
                }
                Err(error) if dead(&error) && running.has_ended() => {
                    state.end_running();
                }
                connected => {
                    // Any connection may write.
                    state.written = true;
                    return Ok(connected?);
                }
            }
        }
        Ok(self.start(state)?.connect()?)
    }

    /// Makes the box release its tree if that loses nothing; returns true if no box uses the tree
    /// now.
    pub(super) fn rest(&self, state: &mut BoxState) -> Result<bool, ProviderError> {
        let Some(running) = state.running.clone() else { return Ok(true) };
        let rested = running.rest()?;
        if rested {
            state.end_running();
        }
        Ok(rested)
    }

    /// Makes a layer of the written files and returns all layers. Returns `None` if the workspace
    /// is a host directory, has too many layers, or has a busy box. Fails with `VolumeFull`, before
    /// any change, if the volume has no room for another generation.
    pub(super) fn freeze(
        &self,
        state: &mut BoxState,
        durability: Durability,
        margin: Margin,
        patience: Patience,
    ) -> Result<Option<Vec<LayerRef>>, ProviderError> {
        let lineage = self.lineage()?;
        if lineage.bound.is_some() {
            return Ok(None);
        }
        if !state.written {
            return Ok(Some(lineage.layers));
        }
        if lineage.layers.len() >= MOST_LAYERS {
            return Ok(None);
        }
        if !self.rest_with_reserve(state, margin, patience)? {
            return Ok(None);
        }
        let frozen =
            LayerRef::Generation { volume: self.id().to_string(), number: lineage.generation, ids: lineage.ids };
        let changed = self.workspaces.change(self.id(), durability, |lineage| {
            lineage.layers.push(frozen);
            lineage.generation += 1;
        })?;
        state.layers_changed(None);
        Ok(Some(changed.layers))
    }

    /// Makes the box release its tree, like [`Self::rest_within`], if the volume has room for a new
    /// generation.
    ///
    /// The reserve was measured at the last start, and the agent may have removed files since. So
    /// an idle box is restarted, which fills the reserve, before the refusal.
    pub(super) fn rest_with_reserve(
        &self,
        state: &mut BoxState,
        margin: Margin,
        patience: Patience,
    ) -> Result<bool, ProviderError> {
        let reserve = state.running.as_ref().map(|running| running.held().reserve);
        // Every start on a full volume uses up some of the reserve, and a container may fail to
        // start without it.
        let may_try = margin == Margin::OneGeneration && self.boxes.restart() == Restart::Milliseconds;
        if !may_try && reserve.is_some_and(|reserve| !margin.is_met_by(reserve)) {
            return Err(ProviderError::VolumeFull);
        }
        if !self.rest_within(state, patience)? {
            return Ok(false);
        }
        if reserve.is_some_and(|reserve| margin.is_met_by(reserve)) {
            return Ok(true);
        }
        if !margin.is_met_by(self.start(state)?.held().reserve) {
            return Err(ProviderError::VolumeFull);
        }
        self.rest(state)
    }

    /// Makes one layer of the whole tree by copying it, even while the box is busy.
    ///
    /// Copies are outside the volume. All copies of one workspace together may take as much as its
    /// volume, so they at most double its disk usage.
    pub(super) fn copy(&self, state: &mut BoxState) -> Result<LayerRef, ProviderError> {
        let spool = |source| ProviderError::Bundle { source: ArchiveError::Io(source) };
        let tar = self.scratch().file().map_err(spool)?;
        let copied_before = self.lineage()?.copied_bytes;
        let limit = self.order.limits.disk.as_ref().map(stead_core::quantity::ByteSize::bytes);
        let room = limit.map_or(MOST_BYTES, |limit| limit.saturating_sub(copied_before));
        let ask = FileAsk::Export { path: String::new(), most_bytes: room };
        let copying = self.workspaces.copies.of(self.id());
        let copied = copying.ask(self.connect_in(state)?, ask, &tar);
        let bytes = tar.metadata().map_err(spool)?.len();
        match (copied, limit) {
            (Err(_), Some(limit)) if bytes >= room => return Err(ProviderError::NoRoom { limit }),
            (copied, _) => copied?,
        };
        // Count it before it is kept: a copy that fails from here on also used the disk.
        self.workspaces.change(self.id(), Durability::Now, |lineage| lineage.copied_bytes += bytes)?;
        let ((), layer) = own_layers::make(&self.workspaces, self.id(), |tree| {
            let mut files = DiskFs::open(tree).map_err(spool)?.with_stop(copying.stop());
            archive::unpack_tree(tar, &mut files).map_err(|source| ProviderError::Bundle { source })
        })?;
        Ok(layer)
    }

    /// Keeps the files at the start of the session. Returns the reason instead if the tree cannot
    /// be copied. Other users of a host directory may leave files that the box cannot read, or more
    /// bytes than the copy may take. That is no reason to refuse the session.
    fn begin_with(&self, state: &mut BoxState) -> Result<(Option<Vec<LayerRef>>, Option<String>), ProviderError> {
        if let Some(layers) = self.freeze(state, Durability::Later, Margin::OneGeneration, Patience::None)? {
            return Ok((Some(layers), None));
        }
        match self.copy(state) {
            Ok(layer) => Ok((Some(vec![layer]), None)),
            Err(_) if self.workspaces.copies.of(self.id()).stop().is_requested() => Err(ProviderError::Interrupted),
            Err(
                error @ (ProviderError::NoRoom { .. }
                | ProviderError::Bundle { .. }
                | ProviderError::Box { source: BoxError::Guest(_) }),
            ) => {
                let reason = error.to_failure().message;
                Ok((
                    None,
                    Some(format!(
                        "the session has no diff, because its files could not be copied at its start: {reason}"
                    )),
                ))
            }
            Err(error) => Err(error),
        }
    }

    /// Adds a layer on top; `false` if the box is busy.
    fn cover(&self, state: &mut BoxState, layer: LayerRef) -> Result<bool, ProviderError> {
        if self.freeze(state, Durability::Later, Margin::OneGeneration, Patience::None)?.is_none() {
            return Ok(false);
        }
        end_unused(state)?;
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.layers.push(layer))?;
        state.layers_changed(None);
        Ok(true)
    }

    fn put_back(&self, snapshot: SnapshotId) -> Result<bool, ProviderError> {
        let mut state = self.lock();
        if self.lineage()?.bound.is_some() {
            return Err(ProviderError::HostDirectory);
        }
        // Everything that can fail comes before the box is stopped and the layers are replaced.
        if !self.workspaces.hold_snapshot(self.id(), snapshot)? {
            return Ok(false);
        }
        if !self.rest(&mut state)?
            && let Some(running) = state.end_running()
        {
            // Its processes use files that the restore removes.
            running.kill()?;
        }
        if !self.workspaces.replace_layers(self.id(), snapshot, u32::from(state.written))? {
            return Ok(false);
        }
        state.layers_changed(Some(snapshot));
        Ok(true)
    }
}

impl GuestBox for OverlayBox {
    fn provider(&self) -> ProviderName {
        self.boxes.provider()
    }

    fn enforced_limits(&self) -> Vec<LimitKind> {
        self.promised.clone()
    }

    fn made(&self) -> BoxFacts {
        self.made.clone()
    }

    fn connect(&self) -> Result<Connection, BoxError> {
        self.connect_in(&mut self.lock()).map_err(into_box_error)
    }

    fn network(&self) -> Option<LentNetworks> {
        (self.order.network != Reach::None).then(|| self.lock().networks())
    }

    fn started_anew(&self) -> bool {
        self.started_anew.load(Ordering::Relaxed)
    }

    fn scratch(&self) -> &Scratch {
        self.workspaces.directories.scratch()
    }

    fn prepare_layer(&self, key: LayerKey) -> Result<LayerSlot, ProviderError> {
        self.workspaces.layers.prepare(key, &self.id().to_string())
    }

    fn lay(&self, layer: &Layer) -> Result<(), ProviderError> {
        let key = layer.key.to_string();
        if self.cover(&mut self.lock(), LayerRef::Shared { key })? {
            return Ok(());
        }
        send(self, &DiskFs::open(&layer.tree).map_err(|source| own_layers::failed(&layer.tree, source))?)
    }

    fn fill(&self, fill: Fill<'_>) -> Result<StepReport, ProviderError> {
        let (below, stop) = (self.lineage()?.layers, self.workspaces.copies.of(self.id()).stop());
        let (report, layer) = own_layers::make(&self.workspaces, self.id(), |tree| {
            let mut files = DiskFs::open(tree).map_err(|source| own_layers::failed(tree, source))?.with_stop(stop);
            let report = fill(&mut files)?;
            own_layers::refuse_covering(&self.workspaces, &below, &files)?;
            Ok(report)
        })?;
        if !self.cover(&mut self.lock(), layer.clone())? {
            let tree = own_layers::path(&self.workspaces, &layer)?;
            send(self, &DiskFs::open(&tree).map_err(|source| own_layers::failed(&tree, source))?)?;
        }
        Ok(report)
    }

    fn write_text(&self, path: &str, text: &str) -> Result<bool, ProviderError> {
        let below = self.lineage()?;
        if self.lock().written || below.bound.is_some() || below.layers.len() + 1 >= MOST_LAYERS {
            return Ok(false);
        }
        let made = own_layers::make_file(&self.workspaces, self.id(), path, text, |files| {
            own_layers::refuse_covering(&self.workspaces, &below.layers, files)
        });
        match made {
            // The path conflicts with an existing file: let the box decide.
            Err(ProviderError::Files { source: FsError::Exists { .. } }) => Ok(false),
            made => self.cover(&mut self.lock(), made?),
        }
    }

    fn host_mounts(&self) -> Option<&dyn HostMounts> {
        Some(self)
    }

    fn setup_layers(&self) -> Option<&dyn SetupLayers> {
        Some(self)
    }

    fn begin(&self) -> Result<Vec<Failure>, ProviderError> {
        let mut state = self.lock();
        if self.lineage()?.bound.is_some_and(|bound| bound.access == Access::Read) {
            return self.connect_in(&mut state).map(|_| Vec::new());
        }
        let (began_with, uncompared) = self.begin_with(&mut state)?;
        let warnings = uncompared.iter().map(|reason| WarningCode::DiffUnavailable.reported(reason.clone())).collect();
        self.workspaces.change(self.id(), Durability::Later, |lineage| {
            (lineage.began_with, lineage.uncompared) = (began_with, uncompared);
        })?;
        // Sync the disk and start the box in parallel; the session begins when both are done.
        let directory = self.workspaces.directories.directory(self.id());
        let (synced, started) = std::thread::scope(|scope| {
            let sync = scope.spawn(|| self.workspaces.directories.sync(self.id()));
            let started = self.connect_in(&mut state).map(drop);
            (sync.join().unwrap_or_else(|_| Err(std::io::Error::other("the sync panicked"))), started)
        });
        started?;
        synced.map_err(|error| own_layers::failed(&directory, error))?;
        Ok(warnings)
    }

    fn snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        self.keep_as(&mut self.lock(), snapshot, Margin::OneGeneration, Patience::Long)
    }

    fn snapshot_with_hash(&self, snapshot: SnapshotId) -> Result<Result<String, HashAbsence>, ProviderError> {
        let mut state = self.lock();
        self.keep_as(&mut state, snapshot, Margin::OneGeneration, Patience::Long)?;
        Ok(self.frozen_hash(&mut state).ok_or(HashAbsence::Pending))
    }

    fn hash_of_snapshot(&self, snapshot: SnapshotId, stop: &Stop) -> Result<String, HashAbsence> {
        self.kept_hash(snapshot, stop)
    }

    fn ends_for_a_snapshot(&self) -> bool {
        self.lock().written
    }

    fn stamp(&self) -> Result<Option<String>, BoxError> {
        self.stamp_over_layers()
    }

    fn look(&self) -> Result<Looked, ProviderError> {
        if self.boxes.restart() == Restart::Noticeable {
            return Ok(Looked::default());
        }
        self.look_at(&mut self.lock())
    }

    fn point(&self, order: PointOrder) -> Result<Checkpoint, ProviderError> {
        if self.boxes.restart() == Restart::Noticeable && order.points < CheckpointCost::Copies {
            return Ok(Checkpoint::Absent(AbsenceReason::Copy));
        }
        let mut state = self.lock();
        if self.lineage()?.bound.is_some() {
            return Ok(Checkpoint::Absent(AbsenceReason::HostDirectory));
        }
        if std::mem::take(&mut state.clean) {
            self.keep_layers_as(&mut state, order.snapshot)?;
            return Ok(Checkpoint::Kept(order.snapshot));
        }
        if state.written && !self.rest_within(&mut state, Patience::Short)? && order.points < CheckpointCost::Copies {
            return Ok(Checkpoint::Absent(AbsenceReason::AtWork));
        }
        match self.keep_as(&mut state, order.snapshot, Margin::All, Patience::None) {
            // The agent has filled its own disk. Its calls go on, but no rewind can return to them.
            Err(ProviderError::VolumeFull) => Ok(Checkpoint::Absent(AbsenceReason::Failed)),
            kept => kept.map(|()| Checkpoint::Kept(order.snapshot)),
        }
    }

    fn snapshots(&self) -> Result<Vec<SnapshotId>, ProviderError> {
        Ok(self.lineage()?.snapshots.keys().filter_map(|name| name.parse().ok()).collect())
    }

    fn forget(&self, snapshots: &[SnapshotId]) -> Result<(), ProviderError> {
        let mut state = self.lock();
        state.kept = state.kept.filter(|kept| !snapshots.contains(kept));
        let gone: Vec<String> = snapshots.iter().map(ToString::to_string).collect();
        self.workspaces.change(self.id(), Durability::Now, |lineage| {
            lineage.snapshots.retain(|name, _| !gone.contains(name));
        })?;
        own_layers::sweep(&self.workspaces, self.id())
    }

    fn restore(&self, snapshot: SnapshotId) -> Result<bool, ProviderError> {
        self.put_back(snapshot)
    }

    fn compare_snapshot(&self, snapshot: SnapshotId, options: Options) -> Result<Patch, BoxError> {
        self.kept_patch(snapshot, options)
    }

    fn compare(&self, options: Options) -> Result<Patch, BoxError> {
        let mut state = self.lock();
        let mut connection = self.connect_in(&mut state).map_err(into_box_error)?;
        let lineage = self.lineage().map_err(into_box_error)?;
        if lineage.bound.as_ref().is_some_and(|bound| bound.access == Access::Read) {
            return Ok(Patch::default());
        }
        if let Some(message) = lineage.uncompared {
            return Err(BoxError::Guest(GuestError::new(GuestErrorKind::NoBase, message)));
        }
        let same = state.compares_with == lineage.began_with;
        drop(state);
        match lineage.began_with.as_deref() {
            // The box was busy when the session began, so it has no lower layers to compare with.
            Some([layer @ LayerRef::Own { .. }]) if !same => {
                let tar = self.tar_of(layer)?;
                patch_of(connection.files(FileAsk::Diff { options: in_frame(options) }, Some(&tar))?)
            }
            _ => {
                let file = self.scratch().file().map_err(BoxError::Lost)?;
                connection.files(FileAsk::CompareInto { options, most_filled: MOST_PATCH }, Some(&file))?;
                read_patch(&file, MOST_PATCH)
            }
        }
    }
}

impl HostMounts for OverlayBox {
    fn mount(&self, order: MountOrder) -> Result<StepReport, ProviderError> {
        let refused = |source| ProviderError::Mount { source };
        let roots = AllowedRoots::open(&order.allowed_host_roots).map_err(refused)?;
        let directory = roots.directory(&order.host_path).map_err(refused)?;
        let (access, owner) = match order.mode {
            // Copied, not used as a lower layer: an overlay over a changing directory has undefined
            // content. A diff or an apply also needs the files that the agent began with.
            MountMode::Overlay => {
                let stop = self.workspaces.copies.of(self.id()).stop();
                return self.fill(own_layers::copy_of(directory.into_files().with_stop(stop)));
            }
            MountMode::ReadOnly => {
                directory.check_shown().map_err(refused)?;
                (Access::Read, None)
            }
            MountMode::ReadWrite => {
                (Access::Write, Some(directory.check_writable(&order.allowed_root_owned_mounts).map_err(refused)?))
            }
        };
        end_unused(&mut self.lock())?;
        let bound = Some(Bound { path: directory.path().to_owned(), access, owner });
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.bound = bound)?;
        Ok(StepReport::default())
    }
}

impl OverlayBox {
    fn tar_of(&self, layer: &LayerRef) -> Result<File, BoxError> {
        let path = own_layers::path(&self.workspaces, layer).map_err(into_box_error)?;
        let files = DiskFs::open(&path).map_err(BoxError::Lost)?;
        let mut tar = self.scratch().file().map_err(BoxError::Lost)?;
        let exported = archive::export_tar(&files, &WorkspacePath::root(), &mut tar);
        exported.map_err(|error| BoxError::Lost(std::io::Error::other(error)))?;
        Ok(tar)
    }
}

/// Stops a warm box that was never used, because it runs over outdated layers.
pub(super) fn end_unused(state: &mut BoxState) -> Result<(), ProviderError> {
    match state.end_running() {
        Some(running) => running.leave(),
        None => Ok(()),
    }
}

pub(super) fn into_box_error(error: ProviderError) -> BoxError {
    match error {
        ProviderError::Box { source } => source,
        ProviderError::Gone { .. } => BoxError::Gone { reason: "the workspace was removed" },
        other => BoxError::Lost(std::io::Error::other(other.to_failure().message)),
    }
}
