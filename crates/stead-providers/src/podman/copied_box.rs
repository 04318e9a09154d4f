//! The [`GuestBox`](crate::guest::GuestBox) of a Podman box whose tree is copied.

use std::fs::{self, File};
use std::io;
use std::sync::Arc;

use stead_box::protocol::{FileAsk, GuestError, GuestErrorKind};
use stead_box::{BoxError, Connection};
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::config::ProviderName;
use stead_core::event::{Failure, StepReport};
use stead_core::rewind::{AbsenceReason, Checkpoint, CheckpointCost};
use stead_core::session::HashAbsence;
use stead_core::{SnapshotId, WorkspaceId};
use stead_fs::archive::{self, ArchiveError};
use stead_fs::patch::{Options, Patch};
use stead_fs::{DiskFs, Filesystem as _, Stop};

use super::box_records::{self, BoxRecords};
use crate::contract::error::ProviderError;
use crate::contract::network::LentNetworks;
use crate::contract::workspace::PointOrder;
use crate::guest::{Fill, GuestBox, HostMounts, Looked, Scratch, SetupLayers, TarStore, stamp_of, tars};
use crate::overlay::layer_store::{Layer, LayerKey, LayerSlot};

pub(super) struct CopiedBox {
    pub(super) id: WorkspaceId,
    pub(super) records: Arc<BoxRecords>,
    pub(super) enforced_limits: Vec<LimitKind>,
    pub(super) made: BoxFacts,
    pub(super) started_anew: bool,
}

impl GuestBox for CopiedBox {
    fn provider(&self) -> ProviderName {
        ProviderName::Podman
    }

    fn enforced_limits(&self) -> Vec<LimitKind> {
        self.enforced_limits.clone()
    }

    fn made(&self) -> BoxFacts {
        self.made.clone()
    }

    fn connect(&self) -> Result<Connection, BoxError> {
        self.records.connect(self.id)
    }

    fn network(&self) -> Option<LentNetworks> {
        // A box over a copied tree has none: see `PodmanProvider::capabilities`.
        None
    }

    fn started_anew(&self) -> bool {
        self.started_anew
    }

    fn scratch(&self) -> &Scratch {
        self.records.scratch()
    }

    fn prepare_layer(&self, key: LayerKey) -> Result<LayerSlot, ProviderError> {
        tars::draft(self, key)
    }

    fn lay(&self, layer: &Layer) -> Result<(), ProviderError> {
        tars::lay(self, layer)
    }

    fn fill(&self, fill: Fill<'_>) -> Result<StepReport, ProviderError> {
        tars::fill(self, fill)
    }

    fn write_text(&self, _path: &str, _text: &str) -> Result<bool, ProviderError> {
        Ok(false)
    }

    fn host_mounts(&self) -> Option<&dyn HostMounts> {
        None
    }

    fn setup_layers(&self) -> Option<&dyn SetupLayers> {
        None
    }

    fn begin(&self) -> Result<Vec<Failure>, ProviderError> {
        tars::begin(self)?;
        Ok(Vec::new())
    }

    fn snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        Ok(tars::keep(self, &snapshot.to_string())?)
    }

    fn snapshot_with_hash(&self, snapshot: SnapshotId) -> Result<Result<String, HashAbsence>, ProviderError> {
        self.snapshot(snapshot).map(|()| Err(HashAbsence::Pending))
    }

    fn compare_snapshot(&self, _: SnapshotId, _: Options) -> Result<Patch, BoxError> {
        let message = "this box copies its files, so its past states cannot be compared without a rewind";
        Err(BoxError::Guest(GuestError::new(GuestErrorKind::NoBase, message)))
    }

    fn hash_of_snapshot(&self, snapshot: SnapshotId, stop: &Stop) -> Result<String, HashAbsence> {
        let hashed = hash_of_tar(self, snapshot, stop);
        hashed
            .inspect_err(|error| tracing::warn!(%snapshot, %error, "cannot hash a snapshot"))
            .map_err(|_| HashAbsence::Failed)
    }

    fn look(&self) -> Result<Looked, ProviderError> {
        Ok(Looked::default())
    }

    fn ends_for_a_snapshot(&self) -> bool {
        false
    }

    fn changed_unnoticed(&self) -> Result<bool, ProviderError> {
        Ok(false)
    }

    fn stamp(&self) -> Result<Option<String>, BoxError> {
        stamp_of(self.connect()?.files(FileAsk::Stamp, None)?)
    }

    fn point(&self, order: PointOrder) -> Result<Checkpoint, ProviderError> {
        if order.points < CheckpointCost::Copies {
            return Ok(Checkpoint::Absent(AbsenceReason::Copy));
        }
        self.snapshot(order.snapshot)?;
        Ok(Checkpoint::Kept(order.snapshot))
    }

    fn snapshots(&self) -> Result<Vec<SnapshotId>, ProviderError> {
        Ok(self.records.snapshots(self.id).map_err(BoxError::Lost)?)
    }

    fn forget(&self, snapshots: &[SnapshotId]) -> Result<(), ProviderError> {
        for snapshot in snapshots {
            let path = self.records.snapshot(self.id, &snapshot.to_string()).map_err(BoxError::Lost)?;
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(BoxError::Lost(error).into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn restore(&self, snapshot: SnapshotId) -> Result<bool, ProviderError> {
        Ok(tars::restore(self, snapshot)?)
    }

    fn keep_before_rewind(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        self.snapshot(snapshot)
    }

    fn rewind(&self, snapshot: SnapshotId) -> Result<bool, ProviderError> {
        self.restore(snapshot)
    }

    fn compare(&self, options: Options) -> Result<Patch, BoxError> {
        tars::compare(self, options)
    }
}

/// Unpacks a kept tree into a directory of the server and hashes that.
fn hash_of_tar(guest_box: &CopiedBox, snapshot: SnapshotId, stop: &Stop) -> Result<String, ArchiveError> {
    let tar = guest_box.kept(&snapshot.to_string())?;
    let directory = guest_box.scratch().directory()?;
    let mut files = DiskFs::open(directory.path())?.with_stop(stop.clone());
    archive::unpack_tree(tar, &mut files)?;
    Ok(files.tree_hash()?.to_string())
}

impl TarStore for CopiedBox {
    fn keep(&self, name: &str, write: &mut dyn FnMut(&File) -> Result<(), BoxError>) -> Result<(), BoxError> {
        let path = self.records.snapshot(self.id, name).map_err(BoxError::Lost)?;
        let new = path.with_extension("tar.new");
        let file = File::create(&new).map_err(BoxError::Lost)?;
        write(&file)?;
        let named = file.sync_all().and_then(|()| fs::rename(&new, &path));
        // The directory of snapshots may itself be new.
        let parents = path.ancestors().skip(1).take(2);
        named.and_then(|()| parents.into_iter().try_for_each(box_records::sync)).map_err(BoxError::Lost)
    }

    fn kept(&self, name: &str) -> io::Result<File> {
        self.records.snapshot(self.id, name).and_then(File::open)
    }

    fn find_snapshot(&self, snapshot: SnapshotId) -> io::Result<Option<File>> {
        self.records.find_snapshot(snapshot)
    }
}
