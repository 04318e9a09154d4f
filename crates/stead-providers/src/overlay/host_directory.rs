//! A host directory as the workspace, and checkpoints of one that the agent writes (`rw`).
//!
//! The agent shares the directory with the user and with programs of the host. So the working tree
//! is copied, without the repository and ignored files, and a restore changes only the files that
//! differ. The box reads and writes the directory with the agent's rights and through no link. A
//! copy shares the files that equal those of the copy before it.

use std::time::Duration;

use stead_box::protocol::{FileAsk, GuestErrorKind};
use stead_box::{Access, Bound, BoxError};
use stead_core::SnapshotId;
use stead_core::event::StepReport;
use stead_core::policy::MountMode;
use stead_core::rewind::{AbsenceReason, Checkpoint, CheckpointCost};
use stead_fs::DiskFs;
use stead_fs::archive::{self, ArchiveError};
use stead_fs::mount::AllowedRoots;

use super::lineage::{Durability, LayerRef, Lineage};
use super::overlay_box::{OverlayBox, end_unused};
use super::own_layers;
use super::workspaces::BoxState;
use crate::contract::error::ProviderError;
use crate::contract::workspace::PointOrder;
use crate::guest::{GuestBox as _, HostMounts, Looked, MountOrder, stamp_of};

/// Maximum size of a working tree that is copied.
const MOST_ENTRIES: u64 = 50_000;
const MOST_BYTES: u64 = 256 << 20;
/// A directory that changed within the last 20 ms has no stamp yet.
const STAMP_AGAIN: Duration = Duration::from_millis(25);
const STAMP_TRIES: u32 = 8;

/// The stamp of the directory when it was last copied, or found to be too large.
#[derive(Default)]
pub(super) struct LookedAt(Option<String>);

impl Lineage {
    /// Returns true if the agent writes to a host directory itself.
    pub(super) fn writes_host_directory(&self) -> bool {
        self.bound.as_ref().is_some_and(|bound| bound.access == Access::Write)
    }
}

impl OverlayBox {
    /// Returns the snapshot that equals the directory, if there is one.
    pub(super) fn look_at_host_directory(&self, state: &mut BoxState) -> Result<Looked, ProviderError> {
        let kept = state.kept;
        let unchanged = kept.is_some() && self.is_unchanged(state)?;
        Ok(Looked { touched: None, same: kept.filter(|_| unchanged) })
    }

    /// Returns true if the directory changed since the last look at it for a checkpoint.
    pub(super) fn host_directory_changed(&self) -> Result<bool, ProviderError> {
        if !self.lineage()?.writes_host_directory() {
            return Ok(false);
        }
        Ok(!self.is_unchanged(&mut self.lock())?)
    }

    fn is_unchanged(&self, state: &mut BoxState) -> Result<bool, ProviderError> {
        let stamp = self.host_directory_stamp(state)?;
        Ok(stamp.is_some() && stamp == state.looked_at.0)
    }

    pub(super) fn point_of_host_directory(
        &self,
        state: &mut BoxState,
        order: PointOrder,
    ) -> Result<Checkpoint, ProviderError> {
        if order.points < CheckpointCost::Copies || !self.lineage()?.writes_host_directory() {
            return Ok(Checkpoint::Absent(AbsenceReason::HostDirectory));
        }
        match self.keep_host_directory(state, order.snapshot) {
            Ok(()) => Ok(Checkpoint::Kept(order.snapshot)),
            Err(ProviderError::TreeTooLarge { .. }) => Ok(Checkpoint::Absent(AbsenceReason::TooLarge)),
            Err(error) => Err(error),
        }
    }

    /// Copies the working tree as a snapshot.
    pub(super) fn keep_host_directory(&self, state: &mut BoxState, snapshot: SnapshotId) -> Result<(), ProviderError> {
        let bundle = |source| ProviderError::Bundle { source };
        // Before the copy: a change during it gives another stamp at the next look.
        let stamp = self.host_directory_stamp(state)?;
        let tar = self.scratch().file().map_err(|error| bundle(ArchiveError::Io(error)))?;
        let ask = FileAsk::ExportWorkingTree { most_entries: MOST_ENTRIES, most_bytes: MOST_BYTES };
        let copying = self.workspaces.copies.of(self.id());
        match copying.ask(self.connect_in(state)?, ask, &tar) {
            Err(BoxError::Guest(error)) if matches!(error.kind, GuestErrorKind::TooLarge { .. }) => {
                (state.kept, state.looked_at) = (None, LookedAt(stamp));
                return Err(ProviderError::TreeTooLarge { entries: MOST_ENTRIES, bytes: MOST_BYTES });
            }
            copied => drop(copied?),
        }
        let earlier = self.last_copy()?;
        let ((), layer) = own_layers::make(&self.workspaces, self.id(), |tree| {
            let mut files = DiskFs::open(tree).map_err(|error| own_layers::failed(tree, error))?;
            files = files.with_stop(copying.stop());
            archive::unpack_exact(tar, &mut files).map_err(bundle)?;
            match &earlier {
                Some(earlier) => files.share_equal_files(earlier).map_err(|source| ProviderError::Files { source }),
                None => Ok(()),
            }
        })?;
        self.workspaces.change(self.id(), Durability::Now, |lineage| {
            lineage.snapshots.insert(snapshot.to_string(), vec![layer]);
        })?;
        (state.kept, state.looked_at) = (Some(snapshot), LookedAt(stamp));
        Ok(())
    }

    /// Opens the latest copy of the working tree.
    fn last_copy(&self) -> Result<Option<DiskFs>, ProviderError> {
        let lineage = self.lineage()?;
        let own = |layers: &Vec<LayerRef>| match layers.as_slice() {
            [LayerRef::Own { number, .. }] => Some(*number),
            _ => None,
        };
        let Some(number) = lineage.snapshots.values().filter_map(own).max() else { return Ok(None) };
        let tree = own_layers::path(&self.workspaces, &LayerRef::Own { volume: self.id().to_string(), number })?;
        DiskFs::open(&tree).map(Some).map_err(|error| own_layers::failed(&tree, error))
    }

    /// Makes the working tree equal to a snapshot; `false` if the snapshot does not exist.
    pub(super) fn restore_host_directory(
        &self,
        state: &mut BoxState,
        snapshot: SnapshotId,
    ) -> Result<bool, ProviderError> {
        let lineage = self.lineage()?;
        let kept = lineage.snapshots.get(&snapshot.to_string()).map(Vec::as_slice);
        let Some([layer @ LayerRef::Own { .. }]) = kept else { return Ok(false) };
        let tree = own_layers::path(&self.workspaces, layer)?;
        let files = DiskFs::open(&tree).map_err(|error| own_layers::failed(&tree, error))?;
        let bundle = |source| ProviderError::Bundle { source };
        let mut tar = self.scratch().file().map_err(|error| bundle(ArchiveError::Io(error)))?;
        archive::export_exact(&files, &mut tar).map_err(bundle)?;
        // Some of the files may differ from every snapshot until this is done.
        (state.kept, state.looked_at) = (None, LookedAt::default());
        self.connect_in(state)?.files(FileAsk::RestoreWorkingTree, Some(&tar))?;
        state.looked_at = LookedAt(self.host_directory_stamp(state)?);
        state.kept = Some(snapshot);
        Ok(true)
    }

    /// Returns the stamp of the directory; `None` if programs change it all the time.
    fn host_directory_stamp(&self, state: &mut BoxState) -> Result<Option<String>, ProviderError> {
        for _ in 0..STAMP_TRIES {
            let stamp = stamp_of(self.connect_in(state)?.files(FileAsk::Stamp, None)?)?;
            if stamp.is_some() {
                return Ok(stamp);
            }
            std::thread::sleep(STAMP_AGAIN);
        }
        Ok(None)
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
