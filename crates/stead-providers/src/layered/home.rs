//! A box over layers, as the workspace over it needs it.
//!
//! The box is started by the first thing that needs it, over the layers there are by then. To freeze what it wrote is to end it, if nothing
//! would be lost by that, and to let the next one write elsewhere; so the cost is that of a start, whatever was written.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_box::protocol::FileAsk;
use stead_box::{Access, Bound, BoxError, Connection, Reserve};
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::event::{Failure, StepReport};
use stead_core::policy::MountMode;
use stead_core::rewind::{Point, Points, Unkept};
use stead_core::{SnapshotId, WorkspaceId};
use stead_fs::archive::{self, ArchiveError};
use stead_fs::mount::AllowedRoots;
use stead_fs::patch::Patch;
use stead_fs::{DiskFs, FsError, WorkspacePath};

use super::beside;
use super::boxes::{Boxes, Restart, Running};
use super::lineage::{Durability, LayerRef, Lineage};
use super::workspaces::{Turn, Workspaces};
use crate::boxed::limit_kinds;
use crate::boxed::{BoxHome, Fill, Looked, MountOrder, Scratch, patch_of, send};
use crate::error::ProviderError;
use crate::layers::{Note, TreeSource};
use crate::workspace::PointOrder;

/// A longer chain is made one layer: overlayfs looks through all of them for every name that is not there.
pub(super) const MOST_LAYERS: usize = 24;
/// What a box may write into a file of the server's.
const MOST_BYTES: u64 = 64 << 30;

/// The code of the warning, and of the refusal, that there is nothing to compare with.
const DIFF_UNAVAILABLE: &str = "diff_unavailable";

/// The part of the volume's reserve that must be left before a new generation begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Margin {
    /// Enough for this generation: for what a user asked for.
    Share,
    /// All of it: checkpoints after each call must not use up what a snapshot or a rewind needs.
    All,
}

impl Margin {
    fn is_met_by(self, reserve: Reserve) -> bool {
        match reserve {
            Reserve::Unneeded | Reserve::Complete => true,
            Reserve::Partial => self == Self::Share,
            Reserve::Spent => false,
        }
    }
}

pub(crate) struct LayeredHome {
    pub(crate) order: CreateOrder,
    pub(crate) workspaces: Arc<Workspaces>,
    pub(crate) boxes: Arc<dyn Boxes>,
    pub(crate) turn: Arc<Mutex<Turn>>,
    /// What was promised to hold when the workspace was made.
    pub(crate) promised: Vec<LimitKind>,
    pub(crate) made: BoxFacts,
    /// Whether no box ran when the server took the workspace up.
    pub(crate) started_anew: bool,
}

impl LayeredHome {
    pub(super) fn id(&self) -> WorkspaceId {
        self.order.workspace
    }

    pub(super) fn turn(&self) -> MutexGuard<'_, Turn> {
        // Set and cleared as a whole: a panic elsewhere leaves it whole.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lineage(&self) -> Result<Lineage, ProviderError> {
        self.workspaces.lineage(self.id()).ok_or(ProviderError::Gone { workspace: self.id() })
    }

    pub(super) fn start(&self, turn: &mut Turn) -> Result<Arc<dyn Running>, ProviderError> {
        let lineage = self.lineage()?;
        let kept = self.workspaces.kept_generations(self.id());
        turn.written = true;
        let running = self.boxes.start(&self.order, &lineage, kept)?;
        let held = limit_kinds(running.held());
        if let Some(lost) = self.promised.iter().find(|limit| !held.contains(limit)) {
            running.kill()?;
            return Err(ProviderError::Unenforced { limit: *lost });
        }
        (turn.running, turn.compares_with) = (Some(running.clone()), lineage.began_with);
        Ok(running)
    }

    pub(crate) fn runs(&self) -> bool {
        self.turn().running.is_some()
    }

    /// Starts the box over the files that the one before it left.
    pub(crate) fn start_again(&self) -> Result<(), ProviderError> {
        self.start(&mut self.turn()).map(drop)
    }

    pub(super) fn connect_in(&self, turn: &mut Turn) -> Result<Connection, ProviderError> {
        let dead =
            |error: &BoxError| matches!(error, BoxError::Lost(_) | BoxError::Gone { .. } | BoxError::Host { .. });
        if let Some(running) = &turn.running {
            match running.connect() {
                Err(error) if dead(&error) && running.has_ended() => turn.running = None,
                connected => {
                    // Whoever connects may write.
                    turn.written = true;
                    return Ok(connected?);
                }
            }
        }
        Ok(self.start(turn)?.connect()?)
    }

    /// Has the box leave its tree if nothing would be lost by it; says whether it has.
    pub(super) fn rest(&self, turn: &mut Turn) -> Result<bool, ProviderError> {
        let Some(running) = turn.running.clone() else { return Ok(true) };
        let rested = running.rest()?;
        if rested {
            turn.running = None;
        }
        Ok(rested)
    }

    /// Makes a layer of the written files and returns all layers. Returns `None` if the workspace is a
    /// host directory, has too many layers, or has something running in its box. Fails with `VolumeFull`,
    /// before any change, if the volume could not begin another generation.
    pub(super) fn freeze(
        &self,
        turn: &mut Turn,
        durability: Durability,
        margin: Margin,
    ) -> Result<Option<Vec<LayerRef>>, ProviderError> {
        let lineage = self.lineage()?;
        if lineage.bound.is_some() {
            return Ok(None);
        }
        if !turn.written {
            return Ok(Some(lineage.layers));
        }
        if lineage.layers.len() >= MOST_LAYERS {
            return Ok(None);
        }
        if !self.rest_with_reserve(turn, margin)? {
            return Ok(None);
        }
        let frozen =
            LayerRef::Generation { volume: self.id().to_string(), number: lineage.generation, ids: lineage.ids };
        let changed = self.workspaces.change(self.id(), durability, |lineage| {
            lineage.layers.push(frozen);
            lineage.generation += 1;
        })?;
        turn.stands_on(None);
        Ok(Some(changed.layers))
    }

    /// Has the box leave its tree, as [`Self::rest`] does, if the volume has room for a new generation.
    ///
    /// The reserve is as the last start left it, and the agent may have removed files since. So a box
    /// with nothing at work is started again, which fills the reserve, before the refusal.
    pub(super) fn rest_with_reserve(&self, turn: &mut Turn, margin: Margin) -> Result<bool, ProviderError> {
        let reserve = turn.running.as_ref().map(|running| running.held().reserve);
        // Every start on a full volume uses up some of the reserve, and a container's may fail without it.
        let may_try = margin == Margin::Share && self.boxes.restart() == Restart::Milliseconds;
        if !may_try && reserve.is_some_and(|reserve| !margin.is_met_by(reserve)) {
            return Err(ProviderError::VolumeFull);
        }
        if !self.rest(turn)? {
            return Ok(false);
        }
        if reserve.is_some_and(|reserve| margin.is_met_by(reserve)) {
            return Ok(true);
        }
        if !margin.is_met_by(self.start(turn)?.held().reserve) {
            return Err(ProviderError::VolumeFull);
        }
        self.rest(turn)
    }

    /// Makes one layer of the whole tree by copying it, whoever is at work there.
    ///
    /// Copies lie outside the volume. All of one workspace together may take what the volume may, so the host loses at most that once more.
    pub(super) fn copy(&self, turn: &mut Turn) -> Result<LayerRef, ProviderError> {
        let spool = |source| ProviderError::Bundle { source: ArchiveError::Io(source) };
        let tar = self.scratch().file().map_err(spool)?;
        let copied_before = self.lineage()?.copied_bytes;
        let limit = self.order.limits.disk.as_ref().map(stead_core::quantity::ByteSize::bytes);
        let room = limit.map_or(MOST_BYTES, |limit| limit.saturating_sub(copied_before));
        let ask = FileAsk::Export { path: String::new(), most_bytes: room };
        let copying = self.workspaces.copies.of(self.id());
        let copied = copying.ask(self.connect_in(turn)?, ask, &tar);
        let bytes = tar.metadata().map_err(spool)?.len();
        match (copied, limit) {
            (Err(_), Some(limit)) if bytes >= room => return Err(ProviderError::NoRoom { limit }),
            (copied, _) => copied?,
        };
        // Counted before it is kept: a copy that fails now was not free either.
        self.workspaces.change(self.id(), Durability::Now, |lineage| lineage.copied_bytes += bytes)?;
        let ((), layer) = beside::make(&self.workspaces, self.id(), |tree| {
            let mut files = DiskFs::open(tree).map_err(spool)?.with_stop(copying.stop());
            archive::unpack_tree(tar, &mut files).map_err(|source| ProviderError::Bundle { source })
        })?;
        Ok(layer)
    }

    /// Keeps what the session begins with. Returns the reason instead if the tree cannot be copied: other users of a host
    /// directory may leave files in it that the box cannot read, or more than the copy may take, and that is no reason to
    /// refuse the session.
    fn begin_with(&self, turn: &mut Turn) -> Result<(Option<Vec<LayerRef>>, Option<String>), ProviderError> {
        if let Some(layers) = self.freeze(turn, Durability::Later, Margin::Share)? {
            return Ok((Some(layers), None));
        }
        match self.copy(turn) {
            Ok(layer) => Ok((Some(vec![layer]), None)),
            Err(_) if self.workspaces.copies.of(self.id()).stop().is_requested() => Err(ProviderError::Interrupted),
            Err(
                error @ (ProviderError::NoRoom { .. }
                | ProviderError::Bundle { .. }
                | ProviderError::Box { source: BoxError::Answer { .. } }),
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

    /// Puts a layer on top of everything, where nothing runs; `false` where something does.
    fn cover(&self, turn: &mut Turn, layer: LayerRef) -> Result<bool, ProviderError> {
        if self.freeze(turn, Durability::Later, Margin::Share)?.is_none() {
            return Ok(false);
        }
        end_unused(turn)?;
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.layers.push(layer))?;
        turn.stands_on(None);
        Ok(true)
    }

    fn put_back(&self, snapshot: SnapshotId) -> Result<bool, ProviderError> {
        let mut turn = self.turn();
        if self.lineage()?.bound.is_some() {
            return Err(ProviderError::HostDirectory);
        }
        // Everything that can fail comes before the box is ended and the layers are replaced.
        if !self.workspaces.hold_snapshot(self.id(), snapshot)? {
            return Ok(false);
        }
        if !self.rest(&mut turn)?
            && let Some(running) = turn.running.take()
        {
            // What runs works with files that are no longer to be there.
            running.kill()?;
        }
        if !self.workspaces.stand_on(self.id(), snapshot, u32::from(turn.written))? {
            return Ok(false);
        }
        turn.stands_on(Some(snapshot));
        Ok(true)
    }
}

impl BoxHome for LayeredHome {
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
        self.connect_in(&mut self.turn()).map_err(into_box_error)
    }

    fn started_anew(&self) -> bool {
        self.started_anew
    }

    fn scratch(&self) -> &Scratch {
        self.workspaces.place.scratch()
    }

    fn lay(&self, source: TreeSource) -> Result<Note, ProviderError> {
        let layer = self.workspaces.layers.ensure(source, &self.id().to_string())?;
        let key = layer.key.to_string();
        if self.cover(&mut self.turn(), LayerRef::Shared { key })? {
            return Ok(layer.note);
        }
        send(self, &DiskFs::open(&layer.tree).map_err(|source| beside::failed(&layer.tree, source))?)?;
        Ok(layer.note)
    }

    fn fill(&self, fill: Fill<'_>) -> Result<StepReport, ProviderError> {
        let (below, stop) = (self.lineage()?.layers, self.workspaces.copies.of(self.id()).stop());
        let (report, layer) = beside::make(&self.workspaces, self.id(), |tree| {
            let mut files = DiskFs::open(tree).map_err(|source| beside::failed(tree, source))?.with_stop(stop);
            let report = fill(&mut files)?;
            beside::refuse_covering(&self.workspaces, &below, &files)?;
            Ok(report)
        })?;
        if !self.cover(&mut self.turn(), layer.clone())? {
            let tree = beside::path(&self.workspaces, &layer);
            send(self, &DiskFs::open(&tree).map_err(|source| beside::failed(&tree, source))?)?;
        }
        Ok(report)
    }

    fn place(&self, path: &str, text: &str) -> Result<bool, ProviderError> {
        let below = self.lineage()?;
        if self.turn().written || below.bound.is_some() || below.layers.len() + 1 >= MOST_LAYERS {
            return Ok(false);
        }
        let made = beside::make_file(&self.workspaces, self.id(), path, text, |files| {
            beside::refuse_covering(&self.workspaces, &below.layers, files)
        });
        match made {
            // What the tree has there itself is for the box to judge.
            Err(ProviderError::Files { source: FsError::Exists { .. } }) => Ok(false),
            made => self.cover(&mut self.turn(), made?),
        }
    }

    fn mount(&self, order: MountOrder) -> Result<StepReport, ProviderError> {
        let refused = |source| ProviderError::Mount { source };
        let roots = AllowedRoots::open(&order.allowed_host_roots).map_err(refused)?;
        let directory = roots.directory(&order.host_path).map_err(refused)?;
        let (access, owner) = match order.mode {
            // Copied, not put below the overlay as it is: a directory that changes below an overlay has no defined content, and a diff or
            // an apply needs to know what the agent began with.
            MountMode::Overlay => {
                let stop = self.workspaces.copies.of(self.id()).stop();
                return self.fill(beside::copy_of(directory.into_files().with_stop(stop)));
            }
            MountMode::ReadOnly => (Access::Read, None),
            MountMode::ReadWrite => {
                (Access::Write, Some(directory.check_writable(&order.allowed_root_owned_mounts).map_err(refused)?))
            }
        };
        end_unused(&mut self.turn())?;
        let bound = Some(Bound { path: directory.path().to_owned(), access, owner });
        self.workspaces.change(self.id(), Durability::Later, |lineage| lineage.bound = bound)?;
        Ok(StepReport::default())
    }

    fn begin(&self) -> Result<Vec<Failure>, ProviderError> {
        let mut turn = self.turn();
        if self.lineage()?.bound.is_some_and(|bound| bound.access == Access::Read) {
            return self.connect_in(&mut turn).map(|_| Vec::new());
        }
        let (began_with, uncompared) = self.begin_with(&mut turn)?;
        let warnings = uncompared.iter().map(|reason| Failure::new(DIFF_UNAVAILABLE, reason.clone())).collect();
        self.workspaces.change(self.id(), Durability::Later, |lineage| {
            (lineage.began_with, lineage.uncompared) = (began_with, uncompared);
        })?;
        // The disk and the box at once; the session begins when both are done.
        let directory = self.workspaces.place.directory(self.id());
        let (synced, started) = std::thread::scope(|scope| {
            let sync = scope.spawn(|| self.workspaces.place.sync(self.id()));
            let started = self.connect_in(&mut turn).map(drop);
            (sync.join().unwrap_or_else(|_| Err(std::io::Error::other("the sync panicked"))), started)
        });
        started?;
        synced.map_err(|error| beside::failed(&directory, error))?;
        Ok(warnings)
    }

    fn snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        self.keep_as(&mut self.turn(), snapshot, Margin::Share)
    }

    fn ends_for_a_snapshot(&self) -> bool {
        self.turn().written
    }

    fn stamp(&self) -> Result<Option<String>, BoxError> {
        self.stamp_over_layers()
    }

    fn look(&self) -> Result<Looked, ProviderError> {
        if self.boxes.restart() == Restart::Noticeable {
            return Ok(Looked::default());
        }
        self.look_at(&mut self.turn())
    }

    fn point(&self, order: PointOrder) -> Result<Point, ProviderError> {
        if self.boxes.restart() == Restart::Noticeable && order.points < Points::Copies {
            return Ok(Point::Unkept(Unkept::Copy));
        }
        let mut turn = self.turn();
        if self.lineage()?.bound.is_some() {
            return Ok(Point::Unkept(Unkept::HostDirectory));
        }
        if std::mem::take(&mut turn.clean) {
            self.keep_layers_as(&mut turn, order.snapshot)?;
            return Ok(Point::Kept(order.snapshot));
        }
        if turn.written && !self.rest_soon(&mut turn)? && order.points < Points::Copies {
            return Ok(Point::Unkept(Unkept::AtWork));
        }
        match self.keep_as(&mut turn, order.snapshot, Margin::All) {
            // The agent has filled its own disk: its calls go on, and cannot be rewound to.
            Err(ProviderError::VolumeFull) => Ok(Point::Unkept(Unkept::Failed)),
            kept => kept.map(|()| Point::Kept(order.snapshot)),
        }
    }

    fn snapshots(&self) -> Result<Vec<SnapshotId>, ProviderError> {
        Ok(self.lineage()?.snapshots.keys().filter_map(|name| name.parse().ok()).collect())
    }

    fn forget(&self, snapshots: &[SnapshotId]) -> Result<(), ProviderError> {
        let mut turn = self.turn();
        turn.kept = turn.kept.filter(|kept| !snapshots.contains(kept));
        let gone: Vec<String> = snapshots.iter().map(ToString::to_string).collect();
        self.workspaces.change(self.id(), Durability::Now, |lineage| {
            lineage.snapshots.retain(|name, _| !gone.contains(name));
        })?;
        beside::sweep(&self.workspaces, self.id())
    }

    fn restore(&self, snapshot: SnapshotId) -> Result<bool, ProviderError> {
        self.put_back(snapshot)
    }

    fn compare(&self) -> Result<Patch, BoxError> {
        let mut turn = self.turn();
        let mut connection = self.connect_in(&mut turn).map_err(into_box_error)?;
        let lineage = self.lineage().map_err(into_box_error)?;
        if lineage.bound.as_ref().is_some_and(|bound| bound.access == Access::Read) {
            return Ok(Patch::default());
        }
        if let Some(message) = lineage.uncompared {
            return Err(BoxError::Answer { code: DIFF_UNAVAILABLE.to_owned(), message });
        }
        let same = turn.compares_with == lineage.began_with;
        drop(turn);
        let answer = match lineage.began_with.as_deref() {
            // The box was at work when the session began, and knows of nothing to compare with.
            Some([layer @ LayerRef::Beside { .. }]) if !same => {
                let tar = self.tar_of(layer).map_err(BoxError::Lost)?;
                connection.files(FileAsk::Diff, Some(&tar))?
            }
            _ => connection.files(FileAsk::Compare, None)?,
        };
        patch_of(answer)
    }
}

impl LayeredHome {
    fn tar_of(&self, layer: &LayerRef) -> std::io::Result<File> {
        let files = DiskFs::open(&beside::path(&self.workspaces, layer))?;
        let mut tar = self.scratch().file()?;
        archive::export_tar(&files, &WorkspacePath::root(), &mut tar).map_err(std::io::Error::other)?;
        Ok(tar)
    }
}

/// Ends a box that was kept ready and that nobody has used: it stands on other layers than it will have to.
fn end_unused(turn: &mut Turn) -> Result<(), ProviderError> {
    match turn.running.take() {
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
