//! The provider's interface to one of its boxes.

use stead_box::protocol::{Answer, ProtocolError};
use stead_box::{BoxError, Connection};
use stead_core::SnapshotId;
use stead_core::box_facts::BoxFacts;
use stead_core::capability::LimitKind;
use stead_core::config::{HostMount, ProviderName};
use stead_core::event::{Failure, StepReport};
use stead_core::policy::MountMode;
use stead_core::rewind::{Checkpoint, Touched};
use stead_core::session::HashAbsence;
use stead_core::setup_cache::{SetupInputs, SetupKey};
use stead_fs::patch::{Options, Patch};
use stead_fs::{DiskFs, Stop};

use super::scratch::Scratch;
use crate::contract::error::ProviderError;
use crate::contract::network::LentNetworks;
use crate::contract::setup_cache::{KeepSetupOrder, SetupKept, SetupPosition};
use crate::contract::workspace::PointOrder;
use crate::overlay::layer_store::{Layer, LayerKey, LayerSlot};

/// Writes files into an empty tree, all of them or an error.
pub(crate) type Fill<'a> = Box<dyn FnOnce(&mut DiskFs) -> Result<StepReport, ProviderError> + 'a>;

/// An order to use a host directory as the workspace.
pub(crate) struct MountOrder {
    pub(crate) host_path: String,
    pub(crate) mode: MountMode,
    pub(crate) allowed_host_roots: Vec<String>,
    /// Root-owned directories that may be mounted `rw`.
    pub(crate) allowed_root_owned_mounts: Vec<String>,
}

/// The result of [`GuestBox::look`].
#[derive(Default)]
pub(crate) struct Looked {
    pub(crate) touched: Option<Touched>,
    /// The snapshot that equals the current tree.
    pub(crate) same: Option<SnapshotId>,
}

/// The connection to one box, and the data that the server keeps for it. Calls may block and never
/// run on an async thread.
///
/// A tree is made of layers ([`crate::overlay`]) or copied as a tar ([`super::TarStore`]).
pub(crate) trait GuestBox: Send + Sync + 'static {
    fn provider(&self) -> ProviderName;

    /// The limits in force, read back after they were set.
    fn enforced_limits(&self) -> Vec<LimitKind>;

    /// Facts about the box as it was made.
    fn made(&self) -> BoxFacts;

    /// Opens a new connection to the box's first process, with the greeting done.
    fn connect(&self) -> Result<Connection, BoxError>;

    /// See [`Workspace::network`](crate::Workspace::network).
    fn network(&self) -> Option<LentNetworks>;

    /// Returns true if the box had to be restarted when the server adopted it.
    fn started_anew(&self) -> bool;

    /// The server's directory for files in transit into or out of a box.
    fn scratch(&self) -> &Scratch;

    /// See [`Workspace::prepare_layer`](crate::Workspace::prepare_layer).
    fn prepare_layer(&self, key: LayerKey) -> Result<LayerSlot, ProviderError>;

    /// Puts a whole tree at the root.
    fn lay(&self, layer: &Layer) -> Result<(), ProviderError>;

    /// Adds files. A file that would replace an existing one refuses all of them.
    fn fill(&self, fill: Fill<'_>) -> Result<StepReport, ProviderError>;

    /// Writes a small text at a path without the box; `false` if it has to go through the box.
    fn write_text(&self, path: &str, text: &str) -> Result<bool, ProviderError>;

    /// Host directories as workspaces; `None` if this box does not support them.
    fn host_mounts(&self) -> Option<&dyn HostMounts>;

    /// Kept setup results; `None` if this box has no layers.
    fn setup_layers(&self) -> Option<&dyn SetupLayers>;

    /// Marks the current tree as the base of [`GuestBox::compare`].
    fn begin(&self) -> Result<Vec<Failure>, ProviderError>;

    fn snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError>;

    /// Like [`Self::snapshot`]. Also returns the hash of the tree, or the reason why it has none.
    fn snapshot_with_hash(&self, snapshot: SnapshotId) -> Result<Result<String, HashAbsence>, ProviderError>;

    /// Returns the hash of a snapshot for which [`Self::snapshot_with_hash`] returned
    /// [`HashAbsence::Pending`]. Takes as long as reading all files, and ends soon after `stop`.
    fn hash_of_snapshot(&self, snapshot: SnapshotId, stop: &Stop) -> Result<String, HashAbsence>;

    /// Reports what was written since the tree was last kept, as far as this provider can tell.
    fn look(&self) -> Result<Looked, ProviderError>;

    /// Returns true if a snapshot now would stop an idle box, and copy all files of a busy one.
    fn ends_for_a_snapshot(&self) -> bool;

    /// See [`Workspace::changed_unnoticed`](crate::Workspace::changed_unnoticed).
    fn changed_unnoticed(&self) -> Result<bool, ProviderError>;

    /// See [`Workspace::stamp`](crate::Workspace::stamp).
    fn stamp(&self) -> Result<Option<String>, BoxError>;

    /// Takes a checkpoint of the current tree, within the cost limits.
    fn point(&self, order: PointOrder) -> Result<Checkpoint, ProviderError>;

    /// All snapshots of this box.
    fn snapshots(&self) -> Result<Vec<SnapshotId>, ProviderError>;

    /// Deletes snapshots that no session needs any more.
    fn forget(&self, snapshots: &[SnapshotId]) -> Result<(), ProviderError>;

    /// Restores the tree of a snapshot; `false` if the snapshot does not exist.
    fn restore(&self, snapshot: SnapshotId) -> Result<bool, ProviderError>;

    /// Keeps the current tree, so that a rewind can be undone.
    fn keep_before_rewind(&self, snapshot: SnapshotId) -> Result<(), ProviderError>;

    /// Restores the tree of a checkpoint; `false` if it does not exist.
    fn rewind(&self, snapshot: SnapshotId) -> Result<bool, ProviderError>;

    fn compare(&self, options: Options) -> Result<Patch, BoxError>;

    /// Like [`Self::compare`], with the files of a snapshot instead of the current ones.
    fn compare_snapshot(&self, snapshot: SnapshotId, options: Options) -> Result<Patch, BoxError>;
}

/// Boxes that can have a host directory as their workspace.
pub(crate) trait HostMounts {
    fn mount(&self, order: MountOrder) -> Result<StepReport, ProviderError>;
}

/// Boxes that can begin with a kept setup result and keep their own. See
/// [`SetupResults`](crate::SetupResults) for the contracts.
pub(crate) trait SetupLayers {
    fn inputs(&self, files: &[String]) -> Result<SetupInputs, ProviderError>;

    fn restore(&self, key: &SetupKey, place: SetupPosition) -> Result<Option<String>, ProviderError>;

    fn keep(&self, order: KeepSetupOrder) -> Result<SetupKept, ProviderError>;
}

/// Returns the fill that copies host mounts in.
pub(crate) fn mounts_fill<'a>(mounts: Vec<HostMount>, roots: &'a [String]) -> Fill<'a> {
    Box::new(move |files| crate::fill::mounts(files, mounts, roots, 0))
}

/// Reads the box's answer to a request for a stamp.
pub(crate) fn stamp_of((answer, _): (Answer, Vec<u8>)) -> Result<Option<String>, BoxError> {
    match answer {
        Answer::Stamp { stamp } => Ok(stamp),
        _ => Err(ProtocolError::Unexpected { what: "to a request for the stamp" }.into()),
    }
}
